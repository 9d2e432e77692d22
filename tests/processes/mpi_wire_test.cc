// Wires by MPI, in programs that mpirun starts.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include "processes/wire_contract.h"
#include "support/mpirun.h"
#include "support/nightly.h"

namespace mpi_wire_test {

using namespace alpa::testing;

namespace {

/// Whether nothing can be tested here; says why.
bool skipped() {
  const std::string why = no_mpirun();
  if (!why.empty()) MESSAGE("skipped: " << why);
  return !why.empty();
}

ProgramOutput check_wires(int processes, const std::string& what,
                          const std::vector<std::string>& options = {}) {
  return run_under_mpirun(processes, ALPA_PROCESS_PROGRAMS "/processes_wire_checks", {what},
                          options);
}

}  // namespace

TEST_CASE("wires by MPI keep the contract with 1, 2, 3 and 5 processes") {
  if (skipped()) return;
  for (int processes : {1, 2, 3, 5}) {
    CAPTURE(processes);
    const ProgramOutput output = check_wires(processes, "checks");
    CHECK_MESSAGE(output.status == 0, output.text);
    for (const WireCheck& check : wire_checks())
      CHECK_MESSAGE(output.text.find("passed: " + check.claim) != std::string::npos, output.text);
  }
}

TEST_CASE("wires by MPI keep the contract over TCP") {
  if (skipped()) return;
  const ProgramOutput output = check_wires(3, "checks", {"--mca", "btl", "tcp,self"});
  CHECK_MESSAGE(output.status == 0, output.text);
  CHECK_MESSAGE(output.text.find("passed: " + wire_checks().back().claim) != std::string::npos,
                output.text);
}

TEST_CASE("the launcher's rank and size are MPI's, and a machine is one host") {
  if (skipped()) return;
  const ProgramOutput output = check_wires(3, "describe");
  CHECK_MESSAGE(output.status == 0, output.text);
  for (int rank = 0; rank < 3; ++rank)
    CHECK_MESSAGE(
        output.text.find(fmt::format("mpirun {} of 3: wire {} of 3, host 0, tags to 2147483647, "
                                     "Open MPI v",
                                     rank, rank)) != std::string::npos,
        output.text);
}

TEST_CASE("a message of another length than awaited is a bug that names both sides") {
  if (skipped()) return;
  CHECK(check_wires(2, "shorter")
            .text.find("bug: message with tag 3: process 0 sent 3 bytes, process 1 awaits 4\n") !=
        std::string::npos);
  const std::string longer = check_wires(2, "longer").text;
  CHECK_MESSAGE(longer.find("bug: message with tag 3: process 0 sent more bytes than the 4 that "
                            "process 1 awaits\n") != std::string::npos,
                longer);
}

TEST_CASE("messages under way are given up when all leave") {
  if (skipped()) return;
  const ProgramOutput output = check_wires(2, "unfinished");
  CHECK_MESSAGE(output.status == 0, output.text);
}

TEST_CASE("abort ends all processes, and mpirun with its status") {
  if (skipped()) return;
  CHECK(check_wires(3, "abort").status == 75);
}

TEST_CASE("a launcher that MPI does not know is an error") {
  if (skipped()) return;
  const ProgramOutput output =
      run_shell("PMI_RANK=1 PMI_SIZE=4 " + quoted(ALPA_PROCESS_PROGRAMS "/processes_wire_checks") +
                " describe");
  CHECK(output.status == 1);
  CHECK_MESSAGE(output.text.find("failed: PMI started 4 processes, this is number 1, but MPI says "
                                 "that it is number 0 of 1: ") != std::string::npos,
                output.text);
}

/// They take 9 GB of memory.
TEST_CASE("messages of more than 2^31 bytes arrive whole" * doctest::skip(!is_nightly())) {
  if (skipped()) return;
  for (const std::int64_t bytes : {(std::int64_t{1} << 30) + 1, (std::int64_t{1} << 31) + 5}) {
    const ProgramOutput output = run_under_mpirun(2, ALPA_PROCESS_PROGRAMS "/processes_wire_checks",
                                                  {fmt::format("bytes {}", bytes)}, {}, 1000);
    CHECK_MESSAGE(output.status == 0, output.text);
  }
}

}  // namespace mpi_wire_test
