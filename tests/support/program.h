#pragma once
/// Runs a program of this build as a user does.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

namespace alpa::testing {

struct ProgramOutput {
  std::string text;  ///< of stdout and stderr
  int status = 0;    ///< of exit; -1 after a signal
};

/// `word` as one word of the shell.
inline std::string quoted(const std::string& word) {
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? "'\\''" : std::string(1, c);
  return text + "'";
}

/// The shell's `command`, which may send its stdout elsewhere.
inline ProgramOutput run_shell(const std::string& command) {
  std::FILE* pipe = popen(("(" + command + ") 2>&1").c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("popen failed");
  ProgramOutput output;
  char chunk[4096];
  while (const std::size_t size = std::fread(chunk, 1, sizeof chunk, pipe))
    output.text.append(chunk, size);
  const int status = pclose(pipe);
  output.status = WIFEXITED(status) && WEXITSTATUS(status) < 128 ? WEXITSTATUS(status) : -1;
  return output;
}

inline ProgramOutput run_program(const std::string& path,
                                 const std::vector<std::string>& arguments) {
  std::string command = quoted(path);
  for (const std::string& argument : arguments) command += " " + quoted(argument);
  return run_shell(command);
}

/// Runs a case of this test program, which is skipped otherwise, in a process of its own.
inline ProgramOutput run_skipped_case(const std::string& name) {
  return run_program(std::filesystem::canonical("/proc/self/exe").string(),
                     {"--no-skip", "--test-case=" + name});
}

/// Starts a program without output; `before` runs in it first.
template <class Before>
pid_t start_program(const std::vector<std::string>& words, Before&& before) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  std::fflush(stdout);
  const pid_t process = fork();
  if (process != 0) return process;
  if (!freopen("/dev/null", "w", stdout) || !freopen("/dev/null", "w", stderr)) _exit(1);
  before();
  execv(arguments[0], arguments.data());
  _exit(127);
}

}  // namespace alpa::testing
