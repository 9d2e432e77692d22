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

/// Collective: a number of every process, by rank.
std::vector<int> all_numbers(processes::World& world, int number) {
  std::vector<int> numbers;
  for (const std::string& text : world.all_gather(std::to_string(number)))
    numbers.push_back(std::atoi(text.c_str()));
  return numbers;
}

std::vector<LaunchHost> hosts_of(processes::World& world) {
  const std::vector<int> gpus = all_numbers(world, cuda_support().devices);
  std::map<int, LaunchHost> hosts;
  std::map<int, std::set<int>> cores;
  for (const processes::Process& process : world.processes()) {
    LaunchHost& host = hosts[process.host];
    const auto own = static_cast<int>(process.cores.size());
    if (host.ranks.empty()) host.name = process.host_name, host.fewest = own;
    host.ranks.push_back(process.rank);
    host.fewest = std::min(host.fewest, own);
    host.most = std::max(host.most, own);
    host.offered_cores = std::max(host.offered_cores, process.offered_cores);
    host.gpus = std::max(host.gpus, gpus[process.rank]);
    cores[process.host].insert(process.cores.begin(), process.cores.end());
  }
  std::vector<LaunchHost> all;
  for (auto& [number, host] : hosts) {
    host.cores = static_cast<int>(cores[number].size());
    all.push_back(std::move(host));
  }
  return all;
}

/// This process alone.
LaunchHost host_of_one() {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof set, &set);
  const int cores = CPU_COUNT(&set);
  return {name, {0}, cores, offered_cores(), cores, cores, cuda_support().devices};
}

void examine_processes(Launch& launch) {
  try {
    const processes::Launcher by = processes::launcher();
    launch.launcher = by.name;
    launch.size = by.size;
    if (!by.launched()) return;
    if (processes::World* const world = processes::world()) {
      launch.size = world->size();
      launch.hosts = hosts_of(*world);
    } else {
      launch.hosts = {host_of_one()};
    }
    launch.wrong = wrong_bindings(launch);
  } catch (const processes::LaunchFailed&) {
    throw;
  } catch (const Error& error) {
    launch.wrong.push_back(error.what());
    if (launch.launcher.empty()) launch.size = 0;
  }
}

}  // namespace

Launch examine_launch() {
  Launch launch;
  const processes::MpiSupport& mpi = processes::mpi_support();
  launch.library = mpi.path;
  launch.version = mpi.version.substr(0, mpi.version.find(','));
  launch.reason = mpi.reason;
  examine_processes(launch);
  if (!launch.launcher.empty() || launch.size != 1) return launch;
  launch.mpirun = first_line("mpirun --version 2>/dev/null </dev/null");
  const bool open_mpi = launch.version.starts_with("Open MPI");
  if (mpi.functions && !launch.mpirun.empty() &&
      (launch.mpirun.find("Open MPI") != std::string::npos) != open_mpi)
    launch.wrong.push_back(fmt::format(
        "the mpirun on the PATH is of another MPI than {}: {}, but {}; use the mpirun of that MPI",
        launch.library, launch.mpirun, launch.version));
  return launch;
}

std::vector<std::string> wrong_bindings(const Launch& launch) {
  std::vector<std::string> wrong;
  const char* const mend =
      launch.launcher == "srun"
          ? "give srun --cpu-bind=none, and the job more of --cpus-per-task"
          : "start with mpirun --bind-to none, or with --map-by slot:PE=N for N cores each";
  for (const LaunchHost& host : launch.hosts)
    if (host.cores < host.offered_cores)
      wrong.push_back(
          fmt::format("host {}: its processes may use {} of {} cores, so that devices "
                      "share them while others idle; {}",
                      host.name, host.cores, host.offered_cores, mend));
  for (const LaunchHost& host : launch.hosts)
    if (host.ranks.size() != launch.hosts[0].ranks.size()) {
      wrong.push_back(fmt::format(
          "host {} has {} processes, host {} has {}; start as many on every host",
          launch.hosts[0].name, launch.hosts[0].ranks.size(), host.name, host.ranks.size()));
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
