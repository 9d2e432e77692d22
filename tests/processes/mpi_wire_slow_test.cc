// Messages of more bytes than an `int` counts: they take 9 GB of memory.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include "support/mpirun.h"

TEST_CASE("messages of more than 2^31 bytes arrive whole") {
  using namespace alpa::testing;
  const std::string why = no_mpirun();
  if (!why.empty()) {
    MESSAGE("skipped: " << why);
    return;
  }
  for (const std::int64_t bytes : {(std::int64_t{1} << 30) + 1, (std::int64_t{1} << 31) + 5}) {
    const ProgramOutput output = run_under_mpirun(2, ALPA_PROCESS_PROGRAMS "/processes_wire_checks",
                                                  {fmt::format("bytes {}", bytes)}, {}, 1000);
    CHECK_MESSAGE(output.status == 0, output.text);
  }
}
