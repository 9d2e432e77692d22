// A program killed at any system call of its saves leaves whole checkpoints only, and always one
// once there was one.
#include <doctest/doctest.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <set>
#include <string>
#include <vector>

#include "support/program.h"
#include "support/temporary_folder.h"

namespace killed_save_test {

using alpa::testing::ProgramOutput;
using alpa::testing::TemporaryFolder;

namespace {

#if defined(__x86_64__)

/// Calls that change files, counted from the first folder that is made: the first checkpoint.
bool changes_files(long call) {
  for (const long one :
       {SYS_mkdir, SYS_mkdirat, SYS_openat, SYS_write, SYS_pwrite64, SYS_fsync, SYS_fallocate,
        SYS_close, SYS_rename, SYS_renameat, SYS_renameat2, SYS_unlink, SYS_unlinkat, SYS_rmdir})
    if (call == one) return true;
  return false;
}

struct Outcome {
  bool traced = true;      ///< false: this machine does not let programs be traced
  bool ended = false;      ///< before it was killed
  bool published = false;  ///< a checkpoint had got its name before the kill
};

/// Runs the program until the `last`th of those calls, before which it is killed.
Outcome run_until(const std::vector<std::string>& words, int last) {
  const pid_t process = alpa::testing::start_program(words, [] {
    if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(99);
  });
  int status = 0;
  waitpid(process, &status, 0);
  if (WIFEXITED(status)) return {.traced = false};
  ptrace(PTRACE_SETOPTIONS, process, nullptr,
         PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL);
  ptrace(PTRACE_SYSCALL, process, nullptr, nullptr);
  Outcome outcome;
  std::set<pid_t> inside;  // threads between the entry and the end of a call
  int count = 0;
  while (true) {
    const pid_t thread = waitpid(-1, &status, __WALL);
    if (thread < 0) break;
    if (WIFEXITED(status) || WIFSIGNALED(status)) {
      if (thread != process) continue;
      outcome.ended = true;
      break;
    }
    int signal = 0;
    if (WSTOPSIG(status) == (SIGTRAP | 0x80)) {
      if (!inside.erase(thread)) {
        inside.insert(thread);
        user_regs_struct registers{};
        ptrace(PTRACE_GETREGS, thread, nullptr, &registers);
        const auto call = static_cast<long>(registers.orig_rax);
        if (count > 0 || call == SYS_mkdir) count += changes_files(call) ? 1 : 0;
        if (count == last) {
          kill(process, SIGKILL);
          while (waitpid(-1, &status, __WALL) > 0) continue;
          break;
        }
      } else if (count > 0) {
        user_regs_struct registers{};
        ptrace(PTRACE_GETREGS, thread, nullptr, &registers);
        const auto call = static_cast<long>(registers.orig_rax);
        if ((call == SYS_rename || call == SYS_renameat2) && registers.rax == 0)
          outcome.published = true;
      }
    } else if (WSTOPSIG(status) != SIGTRAP && WSTOPSIG(status) != SIGSTOP) {
      signal = WSTOPSIG(status);
    }
    ptrace(PTRACE_SYSCALL, thread, nullptr, signal);
  }
  return outcome;
}

#endif

}  // namespace

#if defined(__x86_64__)
TEST_CASE("a program killed at any call of its saves leaves a whole checkpoint, or none yet") {
  const TemporaryFolder folder("killed_save_test_run");
  const std::vector<std::string> words = {ALPA_PROGRAMS "/alpa-mlp",
                                          "--dim",
                                          "16",
                                          "--layers",
                                          "2",
                                          "--batch",
                                          "16",
                                          "--devices",
                                          "2",
                                          "--steps",
                                          "2",
                                          "--quiet",
                                          "--backend",
                                          "cpu",
                                          "--checkpoint",
                                          folder.path(),
                                          "--checkpoint-every",
                                          "1",
                                          "--keep",
                                          "1"};
  bool ended = false;
  int kills = 0;
  for (int last = 1; !ended && last < 400; ++last) {
    folder.clear();
    const Outcome outcome = run_until(words, last);
    if (!outcome.traced) return;
    ended = outcome.ended;
    ++kills;
    const ProgramOutput verified =
        alpa::testing::run_program(ALPA_PROGRAMS "/alpa", {"checkpoint", "verify", folder.path()});
    CAPTURE(last);
    CAPTURE(verified.text);
    if (outcome.published)
      CHECK(verified.status == 0);
    else
      CHECK((verified.status == 0 || verified.text.ends_with(": holds no checkpoint\n")));
  }
  CHECK(ended);
  CHECK(kills > 40);
}
#endif

}  // namespace killed_save_test
