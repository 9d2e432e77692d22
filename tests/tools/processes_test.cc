// `alpa` under a launcher: what doctor and profile say of it, and what is wrong with a launch. Each
// is said once.
#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "alpa/mesh/cluster.h"
#include "src/processes/mpi_functions.h"
#include "support/mpirun.h"
#include "support/temporary_file.h"

namespace processes_test {

using namespace alpa::testing;
using Json = nlohmann::json;

namespace {

/// The lines that begin with "alpa"; mpirun adds some of its own.
std::string own_lines(const std::string& text) {
  std::string own;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("alpa")) own += line + "\n";
  return own;
}

int count_of(const std::string& text, const std::string& part) {
  int count = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != text.npos; ++at) ++count;
  return count;
}

/// Says why, if programs can't be run under mpirun here.
bool cannot_launch() {
  const std::string why = no_mpirun();
  if (!why.empty()) MESSAGE(why);
  return !why.empty();
}

/// With these variables, without a launcher.
ProgramOutput run_with(const std::string& variables, const std::string& arguments) {
  return run_shell(variables + " " ALPA_TOOL " " + arguments);
}

}  // namespace

TEST_CASE("alpa doctor prints one report of all processes, hosts and cores") {
  if (cannot_launch()) return;
  const ProgramOutput output = run_under_mpirun(2, ALPA_TOOL, {"doctor", "--seconds", "0"});
  CHECK(output.status == 0);
  CHECK(count_of(output.text, "\nmemory  ") == 1);
  CHECK_MESSAGE(count_of(output.text, "\nprocesses   2 by mpirun on 1 host; Open MPI v") == 1,
                output.text);
  CHECK(count_of(output.text, ": ranks 0, 1, ") == 1);

  const Json launch =
      Json::parse(run_under_mpirun(3, ALPA_TOOL, {"doctor", "--json", "--seconds", "0"},
                                   {"--bind-to", "none"})
                      .text)
          .at("launch");
  CHECK(launch.at("processes") == 3);
  CHECK(launch.at("hosts").size() == 1);
  CHECK(launch.at("hosts").at(0).at("ranks") == Json{0, 1, 2});
  CHECK(launch.at("wrong").empty());
}

TEST_CASE("alpa doctor says what is wrong with a launch, and ends with 0") {
  const std::string doctor = "doctor --json --seconds 0";
  const auto wrong = [&](const std::string& variables) {
    const ProgramOutput output = run_with(variables, doctor);
    CHECK(output.status == 0);
    return Json::parse(output.text).at("launch").at("wrong").at(0).get<std::string>();
  };
  CHECK(wrong("SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=0").find("use `srun --mpi=pmix`") !=
        std::string::npos);
  CHECK(run_with("SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=3", doctor).text == "");
  CHECK(wrong("ALPA_MPI_LIBRARY=/nowhere/x.so OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2")
            .starts_with("mpirun started 2 processes, but there is no /nowhere/x.so; install"));
}

TEST_CASE("a launch without MPI, or with one of another version, is one line and status 2") {
  if (cannot_launch()) return;
  const auto said = [](const std::string& library) {
    const ProgramOutput output = run_under_mpirun(
        2, "/usr/bin/env", {"ALPA_MPI_LIBRARY=" + library, ALPA_TOOL, "profile", "--devices", "2"});
    CHECK(output.status == 2);
    return own_lines(output.text);
  };
  const std::string behind =
      "; install libopenmpi-dev and build again, or set ALPA_LAUNCHER=none "
      "for separate runs\n";
  CHECK(said("/nowhere/x.so") ==
        "alpa: mpirun started 2 processes, but there is no /nowhere/x.so" + behind);
  const std::string newer = ALPA_FAKE_MPI_FOLDER "/libfake_mpi_newer.so";
  CHECK(said(newer) == "alpa: mpirun started 2 processes, but " + newer + " has interface " +
                           std::to_string(alpa::processes::kMpiInterface + 1) +
                           ", this program needs " +
                           std::to_string(alpa::processes::kMpiInterface) +
                           ": install both from one build" + behind);
}

TEST_CASE("processes of another MPI's launcher, or of srun without PMIx, say so once") {
  const std::string profile = "profile --devices 2 --seconds 1e-9";
  if (no_mpirun().empty()) {
    const ProgramOutput first = run_with("PMI_RANK=0 PMI_SIZE=2", profile);
    CHECK(first.status == 2);
    CHECK_MESSAGE(
        own_lines(first.text)
            .starts_with("alpa: PMI started 2 processes, this is number 0, but MPI says that it is "
                         "number 0 of 1: "),
        first.text);
    const ProgramOutput second = run_with("PMI_RANK=1 PMI_SIZE=2", profile);
    CHECK(second.status == 2);
    CHECK(own_lines(second.text) == "");
  }
  const ProgramOutput first = run_with("SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=0", profile);
  CHECK(first.status == 2);
  CHECK(first.text ==
        "alpa: srun started 2 processes, which know nothing of each other: use `srun --mpi=pmix`, "
        "or set ALPA_LAUNCHER=none for 2 separate runs\n");
  const ProgramOutput second = run_with("SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=1", profile);
  CHECK(second.status == 2);
  CHECK(second.text == "");
}

TEST_CASE("more processes than devices is a mistake that is said once") {
  if (cannot_launch()) return;
  const ProgramOutput output = run_under_mpirun(3, ALPA_TOOL, {"profile", "--devices", "2"});
  CHECK(output.status == 2);
  // Of a rank, if that one stumbled before the first process came so far.
  const std::string said = own_lines(output.text);
  CHECK(said.starts_with("alpa: "));
  CHECK(said.ends_with(
      ": every process needs at least one; start fewer processes, or take more devices\n"));
  CHECK_MESSAGE(std::count(said.begin(), said.end(), '\n') == 1, said);
}

TEST_CASE("alpa profile measures the link between processes, and keeps one between hosts") {
  if (cannot_launch()) return;
  const TemporaryFile file("processes_test.json", "");
  const std::vector<std::string> arguments = {"profile", "--seconds", "0.01", "--output",
                                              file.path()};
  const ProgramOutput fresh = run_under_mpirun(2, ALPA_TOOL, arguments);
  CHECK(fresh.status == 0);
  CHECK(own_lines(fresh.text) ==
        "alpa profile: all devices are on one host, so between_hosts was not measured; it is "
        "written as within_host\n");
  alpa::Cluster cluster = alpa::Cluster::from_file(file.path());
  CHECK(cluster.num_devices() == 2);
  CHECK(cluster.within_host.alpha_seconds + cluster.within_host.beta_seconds_per_byte > 0);
  CHECK(cluster.between_hosts == cluster.within_host);

  cluster.between_hosts = {0.5, 0.25};
  std::ofstream(file.path()) << cluster.to_json();
  const ProgramOutput again = run_under_mpirun(2, ALPA_TOOL, arguments);
  CHECK(own_lines(again.text).ends_with("it is kept as the file had it\n"));
  CHECK(alpa::Cluster::from_file(file.path()).between_hosts == alpa::Link{0.5, 0.25});
}

}  // namespace processes_test
