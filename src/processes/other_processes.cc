// src/processes/other_processes.cc — reads /proc
#include "src/processes/other_processes.h"

#include <dirent.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "alpa/base/error.h"
#include "src/processes/launcher.h"

namespace alpa::processes {
namespace {

std::string content(std::int64_t pid, const char* file) {
  std::ifstream stream("/proc/" + std::to_string(pid) + "/" + file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

/// The letter of its state and its parent; ' ' if there is no such process.
struct Status {
  char state = ' ';
  std::int64_t parent = 0;
};

Status status_of(std::int64_t pid) {
  const std::string text = content(pid, "stat");
  const std::size_t name_end = text.rfind(')');  // the name may hold anything
  Status status;
  if (name_end == std::string::npos) return status;
  std::istringstream(text.substr(name_end + 1)) >> status.state >> status.parent;
  return status;
}

bool is_stopped(const Status& status) { return status.state == 'T' || status.state == 't'; }

/// The value of a variable in a process's environment, or null.
const char* variable_in(const std::string& words, const char* name) {
  const std::string key = std::string(name) + "=";
  for (std::size_t at = 0; at < words.size(); at = words.find('\0', at) + 1) {
    if (words.compare(at, key.size(), key) == 0) return words.c_str() + at + key.size();
    if (words.find('\0', at) == std::string::npos) break;
  }
  return nullptr;
}

/// The rank that the launcher gave to a process; -1: none, or it is of another launch.
int rank_of(std::int64_t pid) {
  const std::string words = content(pid, "environ");
  const auto variable = [&](const char* name) { return variable_in(words, name); };
  constexpr const char* kLaunch = "PMIX_NAMESPACE";  // mpirun's and srun's name of it
  const char *const own = std::getenv(kLaunch), *const its = variable(kLaunch);
  if (own && its && std::strcmp(own, its) != 0) return -1;
  try {
    const Launcher by = launcher_of(variable);
    return by.launched() ? by.rank : -1;
  } catch (const Error&) {
    return -1;
  }
}

bool has_thread(std::int64_t pid, std::string_view name) {
  const std::string path = "/proc/" + std::to_string(pid) + "/task";
  std::error_code failure;
  for (std::filesystem::directory_iterator at(path, failure), end; !failure && at != end;
       at.increment(failure)) {
    std::string line;
    std::ifstream stream(at->path() / "comm");
    if (std::getline(stream, line) && line == name) return true;
  }
  return false;
}

}  // namespace

bool is_stopped(std::int64_t pid) { return is_stopped(status_of(pid)); }

int open_end_of(std::int64_t pid) {
  return static_cast<int>(::syscall(SYS_pidfd_open, static_cast<pid_t>(pid), 0));
}

std::vector<Sibling> siblings(bool of_wrappers) {
  std::vector<Sibling> found;
  DIR* const folder = ::opendir("/proc");
  if (!folder) return found;
  const std::int64_t parent = ::getppid();
  of_wrappers = of_wrappers && std::getenv("PMIX_NAMESPACE");
  while (const dirent* entry = ::readdir(folder)) {
    const std::int64_t pid = std::atoll(entry->d_name);
    if (pid <= 0) continue;
    const Status status = status_of(pid);
    if (status.parent != parent && !of_wrappers) continue;
    if (const int rank = rank_of(pid); rank >= 0)
      found.push_back({pid, rank, is_stopped(status), has_thread(pid, kJoining)});
  }
  ::closedir(folder);
  std::sort(found.begin(), found.end(),
            [](const Sibling& a, const Sibling& b) { return a.rank < b.rank; });
  return found;
}

}  // namespace alpa::processes
