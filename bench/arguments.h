#pragma once
/// Command lines of the benchmarks: `main` as a table of flags and what is measured with them.
#include <fmt/core.h>

#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "tools/common/flag_table.h"

namespace alpa::bench {

/// Parses the command line into the flags' targets, then runs `measure`. Returns the exit status: 2
/// after a wrong argument, 1 if `measure` threw; one line on stderr says what it was.
template <class Measure>
int run(int argc, const char* const* argv, const std::string& purpose,
        const std::vector<cli::Flag>& flags, Measure&& measure) {
  int status = 2;
  try {
    if (cli::parse(argc, argv, purpose, flags)) return 0;
    status = 1;
    measure();
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return status;
  }
}

}  // namespace alpa::bench
