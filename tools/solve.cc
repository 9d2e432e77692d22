// alpa solve FILE SECONDS: the solver on a problem of the contest's format.
#include <fmt/core.h>

#include <cstdlib>
#include <string>

#include "alpa/base/error.h"
#include "alpa/ilp/contest.h"

namespace {

double parse_seconds(const char* text) {
  char* end = nullptr;
  double seconds = std::strtod(text, &end);
  alpa::require(end != text && *end == '\0' && seconds > 0,
                "solve: SECONDS is `{}`; write a positive number, for example 60", text);
  return seconds;
}

}  // namespace

/// `argv[0]` is the command's name. Prints the result.
int solve_command(int argc, char** argv) {
  alpa::require(argc == 3,
                "usage: alpa solve FILE SECONDS\nFILE is a problem in the contest's JSON, or the same gzip'd.");
  fmt::print("{}", alpa::ilp::solve_contest(argv[1], parse_seconds(argv[2])));
  return 0;
}
