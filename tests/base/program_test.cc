// Exit statuses: 0, 2 for the user's mistakes and the system's refusals, 3 for ours.
#include "alpa/base/program.h"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <new>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "alpa/base/error.h"

namespace program_test {

using namespace alpa;

TEST_CASE("the exit status says whose mistake it was") {
  char name[] = "program_test";
  char* argv[] = {name, nullptr};
  const auto status = [&](int (*body)(int, char**)) { return run_program(name, body, 1, argv); };
  CHECK(status([](int, char**) { return 0; }) == 0);
  CHECK(status([](int, char**) -> int { fail("a mistake"); }) == 2);
  CHECK(status([](int, char**) -> int { throw std::bad_alloc(); }) == 2);
  CHECK(status([](int, char**) -> int {
          throw std::system_error(EAGAIN, std::generic_category());
        }) == 2);
  CHECK(status([](int, char**) -> int { bug("ours"); }) == 3);
  CHECK(status([](int, char**) -> int { throw std::logic_error("ours"); }) == 3);
}

namespace {

/// How a child process ends, and what it prints on stderr.
struct Ended {
  int status = -1;  ///< of exit; -1 after a signal
  std::string text;
};

/// Runs `body` as a program in a child process, which first may map only `room` more bytes.
Ended ended(int (*body)(int, char**), std::int64_t room = 0) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    std::int64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const auto most = static_cast<rlim_t>(pages * sysconf(_SC_PAGE_SIZE) + room);
    const rlimit limit{most, most};
    if (room > 0) setrlimit(RLIMIT_AS, &limit);
    char name[] = "program_test";
    char* argv[] = {name, nullptr};
    _exit(run_program(name, body, 1, argv));
  }
  close(ends[1]);
  Ended result;
  char chunk[256];
  for (ssize_t size; (size = read(ends[0], chunk, sizeof chunk)) > 0;)
    result.text.append(chunk, static_cast<std::size_t>(size));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status)) result.status = WEXITSTATUS(status);
  return result;
}

void run_out() { throw std::bad_alloc(); }
void (*const volatile run_out_of_memory)() = run_out;

}  // namespace

TEST_CASE("lack of memory ends a program with 2 also where nobody can catch it") {
  const std::string told =
      "program_test: out of memory or threads; give the process more (ulimit -v, -u)\n";
  const Ended in_destructor = ended([](int, char**) {
    struct Throwing {
      ~Throwing() { run_out_of_memory(); }
    } throwing;
    return 0;
  });
  CHECK(in_destructor.status == 2);
  CHECK(in_destructor.text == told);
  const Ended in_thread = ended([](int, char**) {
    std::thread([] { run_out_of_memory(); }).join();
    return 0;
  });
  CHECK(in_thread.status == 2);
  CHECK(in_thread.text == told);
}

TEST_CASE("a limit of memory that leaves no room to start is named") {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which reserve terabytes
  const Ended refused = ended([](int, char**) { return 0; }, 4 << 20);
  CHECK(refused.status == 2);
  CHECK(refused.text.starts_with("program_test: the process may map "));
  CHECK(refused.text.ends_with(" kB; raise that limit\n"));
  const Ended filled = ended(
      [](int, char**) {
        std::vector<char*> parts;
        for (;;) parts.push_back(new char[1 << 16]);
        return 0;
      },
      64 << 20);
  CHECK(filled.status == 2);
  CHECK(filled.text.starts_with("program_test: out of memory: the process may map "));
#endif
}

}  // namespace program_test
