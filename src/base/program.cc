// src/base/program.cc — runs the body of a `main` and turns failures into
// messages and exit statuses
#include "alpa/base/program.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <system_error>

#include "alpa/base/error.h"
#include "src/base/launch_hooks.h"
#include "src/base/low_memory.h"

namespace alpa {
namespace {

constexpr int kUsersMistake = 2, kOurBug = 3;

/// The name of the program, for a failure outside of `main`.
const char* program_name = "alpa";

/// What ends a program for other reasons.
std::terminate_handler usual_end = nullptr;

/// Whether the exception that nobody caught is a lack of memory, or a refusal by the system. None
/// was made where not even that could be allocated.
bool is_shortage() {
  if (!std::current_exception()) return address_limit().has_value();
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return true;
  } catch (const std::system_error&) {
    return true;
  } catch (...) {
    return false;
  }
}

/// Ends the program where an exception can't be passed on: in a destructor, or at the start of a
/// thread. Allocates nothing.
[[noreturn]] void end_without_memory() {
  if (!is_shortage()) {
    usual_end();
    std::abort();
  }
  const std::string_view parts[] = {
      program_name, ": out of memory or threads; give the process more (ulimit -v, -u)\n"};
  for (const std::string_view part : parts)
    if (::write(STDERR_FILENO, part.data(), part.size()) < 0) break;
  ::_exit(kUsersMistake);
}

/// Output beyond the limit on the size of files (`ulimit -f`) is lost, and said to be. A handler
/// that does nothing, unlike a signal ignored, is not passed on to programs that are started.
void lose_output_beyond_limit() {
  struct sigaction now {};
  if (::sigaction(SIGXFSZ, nullptr, &now) == 0 && now.sa_handler == SIG_DFL)
    std::signal(SIGXFSZ, [](int) {});
}

/// Flushes stdout first, which keeps the order of the output.
int complain(const char* name, const char* message, int status) {
  std::fflush(stdout);
  if (const auto fails = launch_hooks().program_fails; fails && fails(name, message, status))
    return status;
  std::fprintf(stderr, "%s: %s\n", name, message);
  return status;
}

/// Flushes standard output and returns `status`. If output was lost (a full disk), says so on
/// stderr and returns 2 instead of 0.
int checked_status(const char* name, int status) {
  const bool lost_before = std::ferror(stdout) != 0;
  errno = 0;
  if (std::fflush(stdout) == 0 && !lost_before) return status;
  const std::string why =
      errno != 0 ? std::generic_category().message(errno) : "an earlier write failed";
  complain(name, fmt::format("standard output cannot be written: {}", why).c_str(), kUsersMistake);
  return status != 0 ? status : kUsersMistake;
}

}  // namespace

LaunchHooks& launch_hooks() {
  static LaunchHooks hooks;
  return hooks;
}

int run_program(const char* name, int (*body)(int argc, char** argv), int argc, char** argv) {
  program_name = name;
  if (!usual_end) usual_end = std::set_terminate(end_without_memory);
  try {
    prepare_for_low_memory();
    lose_output_beyond_limit();
    return checked_status(name, body(argc, argv));
  } catch (const Error& error) {
    return complain(name, error.what(), kUsersMistake);
  } catch (const std::bad_alloc&) {
    return complain(name, out_of_memory_text().c_str(), kUsersMistake);
    // the system's refusals: threads, locks, writing to stdout
  } catch (const std::system_error& error) {
    return complain(name, error.what(), kUsersMistake);
  } catch (const std::exception& error) {
    return complain(name, fmt::format("internal error, please report it: {}", error.what()).c_str(),
                    kOurBug);
  }
}

}  // namespace alpa
