// src/base/program.cc — runs the body of a `main` and turns failures into
// messages and exit statuses
#include "src/base/program.h"

#include <fmt/core.h>

#include <cerrno>
#include <cstdio>
#include <exception>
#include <new>
#include <system_error>

#include "alpa/base/error.h"

namespace alpa {
namespace {

constexpr int kUsersMistake = 2, kOurBug = 3;

/// Flushes stdout first, which keeps the order of the output.
int complain(const char* name, const char* message, int status) {
  std::fflush(stdout);
  std::fprintf(stderr, "%s: %s\n", name, message);
  return status;
}

}  // namespace

int checked_status(const char* name, int status) {
  const bool lost_before = std::ferror(stdout) != 0;
  errno = 0;
  if (std::fflush(stdout) == 0 && !lost_before) return status;
  const std::string why =
      errno != 0 ? std::generic_category().message(errno) : "an earlier write failed";
  complain(name, fmt::format("standard output cannot be written: {}", why).c_str(), kUsersMistake);
  return status != 0 ? status : kUsersMistake;
}

int run_program(const char* name, int (*body)(int argc, char** argv), int argc, char** argv) {
  try {
    return checked_status(name, body(argc, argv));
  } catch (const Error& error) {
    return complain(name, error.what(), kUsersMistake);
  } catch (const std::bad_alloc&) {
    return complain(name, "out of memory; give the process more, or use a smaller batch or model",
                    kUsersMistake);
    // the system's refusals: threads, locks, writing to stdout
  } catch (const std::system_error& error) {
    return complain(name, error.what(), kUsersMistake);
  } catch (const std::exception& error) {
    return complain(name, fmt::format("internal error, please report it: {}", error.what()).c_str(),
                    kOurBug);
  }
}

}  // namespace alpa
