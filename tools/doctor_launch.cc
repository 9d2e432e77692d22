// tools/doctor_launch.cc — alpa doctor: the launcher, its processes, hosts and bindings
#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>

#include "alpa/base/error.h"
#include "src/base/thread_team.h"
#include "src/cuda_loader/cuda_library.h"
#include "src/processes/mpi_library.h"
#include "src/processes/world.h"
#include "tools/doctor_report.h"

namespace doctor {

using namespace alpa;

namespace {

/// The first line that the shell's command prints.
std::string first_line(const char* command) {
  std::FILE* const pipe = popen(command, "r");
  if (!pipe) return "";
  char line[256] = {};
  const bool any = std::fgets(line, sizeof line, pipe) != nullptr;
  pclose(pipe);
  std::string text = any ? line : "";
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

/// A host whose processes may use `each` cores.
Json host_json(const std::string& name, const std::vector<int>& ranks, int cores, int offered_cores,
               int each, int gpus) {
  return {{"name", name},
          {"ranks", ranks},
          {"cores", cores},
          {"offered_cores", offered_cores},
          {"cores_per_process", {each, each}},
          {"gpus", gpus}};
}

/// Collective: a number of every process, by rank.
std::vector<int> all_numbers(processes::World& world, int number) {
  std::vector<int> numbers;
  for (const std::string& text : world.all_gather(std::to_string(number)))
    numbers.push_back(std::atoi(text.c_str()));
  return numbers;
}

Json hosts_of(processes::World& world) {
  const std::vector<int> gpus = all_numbers(world, cuda_support().devices);
  std::map<int, Json> hosts;
  std::map<int, std::set<int>> cores;
  for (const processes::Process& process : world.processes()) {
    const auto own = static_cast<int>(process.cores.size());
    Json& host = hosts.try_emplace(process.host, host_json(process.host_name, {}, 0, 0, own, 0))
                     .first->second;
    Json &fewest = host["cores_per_process"][0], &most = host["cores_per_process"][1];
    host["ranks"].push_back(process.rank);
    fewest = std::min(fewest.get<int>(), own), most = std::max(most.get<int>(), own);
    host["offered_cores"] = std::max(host["offered_cores"].get<int>(), process.offered_cores);
    host["gpus"] = std::max(host["gpus"].get<int>(), gpus[process.rank]);
    cores[process.host].insert(process.cores.begin(), process.cores.end());
    host["cores"] = cores[process.host].size();
  }
  Json all = Json::array();
  for (auto& [number, host] : hosts) all.push_back(std::move(host));
  return all;
}

/// This process alone.
Json host_of_one() {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof set, &set);
  return host_json(name, {0}, CPU_COUNT(&set), offered_cores(), CPU_COUNT(&set),
                   cuda_support().devices);
}

void examine_processes(Json& launch) {
  try {
    const processes::Launcher by = processes::launcher();
    launch["launcher"] = text_or_null(by.name);
    launch["processes"] = by.size == 0 ? Json() : Json(by.size);
    if (!by.launched()) return;
    if (processes::World* const world = processes::world()) {
      launch["processes"] = world->size();
      launch["hosts"] = hosts_of(*world);
    } else {
      launch["hosts"] = Json::array({host_of_one()});
    }
    launch["wrong"] = wrong_bindings(launch);
  } catch (const processes::LaunchFailed&) {
    throw;
  } catch (const Error& error) {
    launch["wrong"].push_back(error.what());
    if (launch["launcher"].is_null()) launch["processes"] = nullptr;
  }
}

}  // namespace

Json examine_launch() {
  const processes::MpiSupport& mpi = processes::mpi_support();
  const std::string version = mpi.version.substr(0, mpi.version.find(','));
  Json launch = {{"launcher", nullptr},
                 {"processes", 1},
                 {"library", text_or_null(mpi.path)},
                 {"mpi", text_or_null(version)},
                 {"reason", text_or_null(mpi.reason)},
                 {"mpirun", nullptr},
                 {"hosts", Json::array()},
                 {"wrong", Json::array()}};
  examine_processes(launch);
  if (!launch["launcher"].is_null() || launch["processes"] != 1) return launch;
  const std::string mpirun = first_line("mpirun --version 2>/dev/null </dev/null");
  launch["mpirun"] = text_or_null(mpirun);
  if (mpi.functions && !mpirun.empty() &&
      (mpirun.find("Open MPI") != std::string::npos) != version.starts_with("Open MPI"))
    launch["wrong"].push_back(fmt::format(
        "the mpirun on the PATH is of another MPI than {}: {}, but {}; use the mpirun of that MPI",
        mpi.path, mpirun, version));
  return launch;
}

std::vector<std::string> wrong_bindings(const Json& launch) {
  std::vector<std::string> wrong;
  const char* const mend =
      launch["launcher"] == "srun"
          ? "give srun --cpu-bind=none, and the job more of --cpus-per-task"
          : "start with mpirun --bind-to none, or with --map-by slot:PE=N for N cores each";
  const Json& hosts = launch["hosts"];
  for (const Json& host : hosts)
    if (host["cores"] < host["offered_cores"])
      wrong.push_back(fmt::format(
          "host {}: its processes may use {} of {} cores, so that devices "
          "share them while others idle; {}",
          shown(host["name"]), shown(host["cores"]), shown(host["offered_cores"]), mend));
  for (const Json& host : hosts)
    if (host["ranks"].size() != hosts[0]["ranks"].size()) {
      wrong.push_back(
          fmt::format("host {} has {} processes, host {} has {}; start as many on every host",
                      shown(hosts[0]["name"]), hosts[0]["ranks"].size(), shown(host["name"]),
                      host["ranks"].size()));
      break;
    }
  return wrong;
}

bool speaks() {
  try {
    return processes::launcher().rank == 0;
  } catch (const Error&) {
    const char* const rank = std::getenv("SLURM_PROCID");
    return !rank || std::strcmp(rank, "0") == 0;
  }
}

}  // namespace doctor
