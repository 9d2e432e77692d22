// tools/profile.cc — alpa profile: measures this machine, or those of a launch, into a cluster file
#include <alpa/alpa.h>
#include <fmt/core.h>

#include <cstdio>
#include <filesystem>
#include <optional>

#include "src/base/file.h"
#include "src/processes/world.h"
#include "tools/commands.h"
#include "tools/common/flag_table.h"

using namespace alpa;

namespace {

/// The link between hosts that the file had, if it is a cluster file of several.
std::optional<Link> known_link(const std::string& file) {
  if (file.empty() || !std::filesystem::is_regular_file(file)) return std::nullopt;
  try {
    const Cluster cluster = Cluster::from_file(file);
    if (cluster.between_hosts == cluster.within_host) return std::nullopt;
    return cluster.between_hosts;
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// One host cannot say how fast hosts are joined.
void keep_link_between_hosts(Cluster& cluster, const std::string& file) {
  if (cluster.num_hosts > 1) return;
  const std::optional<Link> known = known_link(file);
  if (known) cluster.between_hosts = *known;
  if (processes::speaks_for_all())
    fmt::print(stderr,
               "alpa profile: all devices are on one host, so between_hosts was not measured; {}\n",
               known ? "it is kept as the file had it" : "it is written as within_host");
}

}  // namespace

int profile_command(int argc, char** argv) {
  std::optional<int> devices;
  double seconds = 10;
  std::string output;
  if (cli::parse(
          argc, argv,
          "Measures products, loops, instructions and all-reduces of CPU devices that all "
          "work, as a cluster file for planning. Under mpirun or srun: those of all "
          "processes, within and between hosts.",
          {cli::whole("--devices", &devices,
                      "CPU devices in all; without it 8, or one per process of a launch", 1, 1024),
           cli::positive_number("--seconds", &seconds, "to measure for, about"),
           cli::output_file("--output", &output, "file to write; without it, print")}))
    return 0;
  const processes::World* const world = processes::world();
  Cluster cluster = profile(devices.value_or(world ? world->size() : 8), seconds);
  keep_link_between_hosts(cluster, output);
  const std::string text = cluster.to_json();
  if (output.empty())
    fmt::print("{}", text);
  else
    write_file(output, text);
  return 0;
}
