// tools/solve.cc — alpa solve FILE SECONDS: solves a problem in the contest's format
#include <fmt/core.h>

#include <string>

#include "tools/commands.h"
#include "tools/common/flag_table.h"
#include "tools/contest/contest.h"

/// `argv[0]` is the command's name. Prints the result.
int solve_command(int argc, char** argv) {
  std::string file;
  double seconds = 0;
  const bool only_help = cli::parse(
      argc, argv, "Solves a problem of the ASPLOS'25 contest on intra-operator parallelism.",
      {cli::text("FILE", &file, "the problem in the contest's JSON, or the same gzip'd"),
       cli::number("SECONDS", &seconds, "time limit", 0.001, 1e9)});
  if (only_help) return 0;
  fmt::print("{}", alpa::ilp::solve_contest(file, seconds));
  return 0;
}
