// src/api/local_cluster.cc — the devices of this machine, or of this launch, as a cluster
#include <fmt/core.h>

#include <functional>
#include <set>
#include <sstream>

#include "alpa/base/error.h"
#include "alpa/mesh/cluster.h"
#include "src/base/host_memory.h"
#include "src/base/thread_team.h"
#include "src/cuda_loader/cuda_cluster.h"
#include "src/mesh/known_clusters.h"
#include "src/processes/world.h"

namespace alpa {
namespace {

// Rates of one core and of threads that exchange data through shared memory; docs/cost-model.md
// says where they come from.
constexpr double kCoreFlopsF32 = 80e9, kCoreFlopsF64 = 10e9, kCoreFlopsHalf = 40e9;
constexpr double kCoreBytesPerSecond = 9e9;
constexpr double kLaunchSeconds = 2e-6;
constexpr double kOwnCoreAlpha = 1e-6, kSharedCoreAlpha = 4e-6;
constexpr double kOwnCoreLinkBytesPerSecond = 7.5e9, kSharedCoreLinkBytesPerSecond = 4.9e9;

/// Cores one of n devices computes with: whole ones while there are enough, else its share of one.
double cores_of_device(int cores, int n) {
  return n <= cores ? cores / n : static_cast<double>(cores) / n;
}

Link thread_link(int cores, int n) {
  if (n <= cores) return {kOwnCoreAlpha, 1 / kOwnCoreLinkBytesPerSecond};
  const double devices_per_core = static_cast<double>(n) / cores;
  return {kSharedCoreAlpha * devices_per_core, devices_per_core / kSharedCoreLinkBytesPerSecond};
}

/// `n` devices of one process.
Cluster local_cuda(int n) {
  const CudaSupport& cuda = cuda_support();
  require(cuda.usable(), "Cluster::local: {}", cuda.reason);
  require_cards(cuda, n, "Cluster::local");
  CudaMessage why{};
  CudaDevice card{};
  CudaLink link{};
  require(cuda.functions->device(0, &card, &why) == 0, "Cluster::local: {}", why.text);
  if (cuda.devices > 1)
    require(cuda.functions->link(0, 1, &link, &why) == 0, "Cluster::local: {}", why.text);
  return cuda_cluster(n, cuda.devices, card, link.peer != 0);
}

/// CPU devices that share the cores of their host.
Cluster cpu_cluster(int hosts, int devices_per_host, int cores) {
  const double share = cores_of_device(cores, devices_per_host);
  Cluster cluster;
  cluster.num_hosts = hosts;
  cluster.devices_per_host = devices_per_host;
  cluster.device.memory_bytes = host_memory().limit_bytes / devices_per_host;
  cluster.device.flops_per_second = {{f32, share * kCoreFlopsF32},
                                     {f64, share * kCoreFlopsF64},
                                     {bf16, share * kCoreFlopsHalf},
                                     {f16, share * kCoreFlopsHalf}};
  cluster.device.memory_bytes_per_second = share * kCoreBytesPerSecond;
  cluster.device.launch_seconds = kLaunchSeconds;
  cluster.within_host = thread_link(cores, devices_per_host);
  cluster.between_hosts = hosts > 1 ? kEthernet : cluster.within_host;
  return cluster;
}

/// The cluster that `make` describes: `make` runs on rank 0, and the result is broadcast.
Cluster described_by_rank_0(processes::World& world, const std::function<Cluster()>& make) {
  return Cluster::from_json(world.from_rank_0([&] { return make().to_json(); }),
                            "the cluster of rank 0");
}

/// `n` devices of a launch, alike in all its processes.
Cluster cuda_of_launch(processes::World& world, int n) {
  world.ranks_of_devices(n);
  return described_by_rank_0(world, [&] {
    Cluster cluster = local_cuda((n + world.size() - 1) / world.size());
    cluster.num_hosts = world.num_hosts();
    cluster.devices_per_host = n / cluster.num_hosts;
    if (cluster.num_hosts > 1) cluster.between_hosts = kEthernet;
    return cluster;
  });
}

Cluster cpu_of_launch(processes::World& world, int n) {
  const auto [cores, devices] = world.cores_for(n);
  return described_by_rank_0(world, [&, cores = cores, devices = devices] {
    return cpu_cluster(world.num_hosts(), devices, cores);
  });
}

/// Collective: cards that processes of a launch see, each once.
int cards_of_launch(processes::World& world, const CudaSupport& cuda) {
  std::string own;
  for (int card = 0; card < cuda.devices; ++card) {
    CudaMessage uuid{}, why{};
    require(cuda.functions->uuid(card, &uuid, &why) == 0, "Cluster::local: {}", why.text);
    own += std::string(uuid.text) + "\n";
  }
  std::set<std::string> cards;
  for (const std::string& seen : world.all_gather(own)) {
    std::istringstream lines(seen);
    for (std::string uuid; lines >> uuid;) cards.insert(uuid);
  }
  return static_cast<int>(cards.size());
}

}  // namespace

CudaDevices cuda_devices() { return cuda_devices_of(cuda_support()); }

Cluster Cluster::local() {
  const CudaSupport& cuda = cuda_support();
  processes::World* const world = processes::world();
  if (!world) return cuda.usable() ? local(cuda.devices, "cuda") : local(1);
  const int cards = cards_of_launch(*world, cuda);
  return cards > 0 ? local(cards, "cuda") : local(world->size());
}

Cluster Cluster::local(int n, const std::string& backend) {
  require(n >= 1, "Cluster::local: {} devices; ask for at least 1", n);
  processes::World* const world = processes::world();
  if (world) world->note_call(fmt::format("Cluster::local({}, \"{}\")", n, backend));
  if (backend == "cuda") return world ? cuda_of_launch(*world, n) : local_cuda(n);
  require(backend == "cpu",
          "Cluster::local: backend \"{}\" is unknown; known are \"cpu\" and \"cuda\"", backend);
  return world ? cpu_of_launch(*world, n) : cpu_cluster(1, n, offered_cores());
}

}  // namespace alpa
