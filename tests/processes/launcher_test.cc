// Who started a process, by the variables that launchers set.
#include "src/processes/launcher.h"

#include <doctest/doctest.h>

#include <map>

#include "support/error_text.h"

namespace launcher_test {

using namespace alpa::processes;
using alpa::testing::error_of;

namespace {

using Variables = std::map<std::string, std::string>;

Launcher launched_by(const Variables& variables) {
  return launcher_of([&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

/// "<launcher>: <rank> of <size>", or the error.
std::string text_of(const Variables& variables) {
  std::string text;
  const std::string error = error_of([&] {
    const Launcher launcher = launched_by(variables);
    text = launcher.name + ": " + std::to_string(launcher.rank) + " of " +
           std::to_string(launcher.size);
  });
  return error == "no error" ? text : error;
}

/// What Slurm 22.05 sets for the third of four tasks.
Variables slurm_step() {
  return {{"SLURM_JOB_ID", "7"},
          {"SLURM_PROCID", "2"},
          {"SLURM_NTASKS", "4"},
          {"SLURM_STEP_NUM_TASKS", "4"}};
}

}  // namespace

TEST_CASE("a process that nobody launched is by itself") {
  CHECK(text_of({}) == ": 0 of 1");
  CHECK_FALSE(launched_by({}).launched());
  CHECK(text_of({{"SLURM_JOB_ID", "7"}, {"SLURM_NTASKS", "4"}}) == ": 0 of 1");
  CHECK(text_of({{"SLURM_JOB_ID", "7"}, {"SLURM_STEP_NUM_TASKS", "1"}}) == ": 0 of 1");
  CHECK(text_of({{"OMPI_COMM_WORLD_SIZE", "4"}}) == ": 0 of 1");
}

TEST_CASE("Open MPI's mpirun says rank and size, under Slurm too") {
  Variables variables = {{"OMPI_COMM_WORLD_SIZE", "4"},
                         {"OMPI_COMM_WORLD_RANK", "3"},
                         {"PMIX_RANK", "3"},
                         {"PMIX_NAMESPACE", "1"}};
  CHECK(text_of(variables) == "mpirun: 3 of 4");
  CHECK(launched_by(variables).launched());
  variables.merge(slurm_step());
  CHECK(text_of(variables) == "mpirun: 3 of 4");
  CHECK(text_of({{"OMPI_COMM_WORLD_SIZE", "1"}, {"OMPI_COMM_WORLD_RANK", "0"}}) ==
        "mpirun: 0 of 1");
}

TEST_CASE("srun with PMIx has the size of its step, not of the job") {
  Variables variables = slurm_step();
  variables["PMIX_RANK"] = "2";
  variables["SLURM_NTASKS"] = "9";
  CHECK(text_of(variables) == "srun: 2 of 4");
  variables.erase("SLURM_STEP_NUM_TASKS");
  CHECK(text_of(variables) == "srun: 2 of 9");
}

TEST_CASE("other launchers are known by PMIx and PMI") {
  CHECK(text_of({{"PMIX_RANK", "2"}, {"PMIX_NAMESPACE", "x"}}) == "PMIx: 2 of 0");
  CHECK(text_of({{"PMI_RANK", "2"}, {"PMI_SIZE", "3"}}) == "PMI: 2 of 3");
  CHECK(text_of({{"PMI_RANK", "0"}}) == "PMI: 0 of 0");
}

TEST_CASE("srun without PMIx is an error that says how to start") {
  CHECK(text_of(slurm_step()) ==
        "srun started 4 processes, which know nothing of each other: use `srun --mpi=pmix`, or set "
        "ALPA_LAUNCHER=none for 4 separate runs");
}

TEST_CASE("ALPA_LAUNCHER=none makes every process one by itself") {
  Variables variables = slurm_step();
  variables["ALPA_LAUNCHER"] = "none";
  CHECK(text_of(variables) == ": 0 of 1");
  CHECK(text_of({{"ALPA_LAUNCHER", "none"},
                 {"OMPI_COMM_WORLD_SIZE", "4"},
                 {"OMPI_COMM_WORLD_RANK", "3"}}) == ": 0 of 1");
  CHECK(text_of({{"ALPA_LAUNCHER", ""}, {"PMI_RANK", "2"}, {"PMI_SIZE", "3"}}) == "PMI: 2 of 3");
  CHECK(text_of({{"ALPA_LAUNCHER", "0"}}) ==
        "ALPA_LAUNCHER is \"0\"; it may be none, or not be set");
}

TEST_CASE("variables that hold no rank or size are errors") {
  CHECK(text_of({{"PMIX_RANK", "two"}}) ==
        "PMIX_RANK is \"two\", which is no rank of a process; set ALPA_LAUNCHER=none to ignore it");
  CHECK(text_of({{"OMPI_COMM_WORLD_RANK", "-1"}}) ==
        "OMPI_COMM_WORLD_RANK is \"-1\", which is no rank of a process; set ALPA_LAUNCHER=none to "
        "ignore it");
  CHECK(text_of({{"PMI_RANK", "0"}, {"PMI_SIZE", "0"}}) ==
        "PMI_SIZE is \"0\", which is no number of processes; set ALPA_LAUNCHER=none to ignore it");
  CHECK(
      text_of({{"PMI_RANK", "3"}, {"PMI_SIZE", "3"}}) ==
      "PMI says that this is process 3 of 3, counted from 0; set ALPA_LAUNCHER=none to ignore it");
}

}  // namespace launcher_test
