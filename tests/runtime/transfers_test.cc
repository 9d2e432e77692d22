// Tensors moved between meshes on every way, run on CPU devices.
#include "support/transfers.h"

#include <doctest/doctest.h>

#include "src/lower/memory_plan.h"

namespace transfers_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

constexpr int kMicroBatches = 3;

struct Meshes {
  DeviceMesh from, to;
};

std::vector<Meshes> meshes() {
  return {{mesh_from(0, {1}), mesh_from(1, {4})},    {mesh_from(0, {2}), mesh_from(2, {2})},
          {mesh_from(0, {3}), mesh_from(3, {2})},    {mesh_from(0, {2, 2}), mesh_from(4, {4})},
          {mesh_from(0, {2}), mesh_from(2, {3, 2})}, {mesh_from(0, {2, 2}), mesh_from(4, {2, 2})}};
}

Cluster random_cluster(int devices, std::mt19937& random) {
  Cluster cluster;
  cluster.devices_per_host = 1 + static_cast<int>(random() % devices);
  cluster.num_hosts = (devices + cluster.devices_per_host - 1) / cluster.devices_per_host;
  cluster.within_host = {1e-9, 1e-9};
  cluster.between_hosts = {1e-9, random() % 2 ? 1e-8 : 1e-9};
  return cluster;
}

std::vector<Moved> random_tensors(const Meshes& m, int count, std::mt19937& random,
                                  std::map<std::string, int>& strategies) {
  std::vector<Moved> tensors;
  for (int i = 0; i < count; ++i) {
    const TensorType type = random_type(random);
    const ShardingSpec from = random_input_spec(type, m.from, random),
                       to = random_spec(type, m.to, random);
    const Cluster cluster = random_cluster(m.from.num_devices() + m.to.num_devices(), random);
    tensors.push_back(
        {type, from, to, way_of(i % 4, type, {m.from, from}, {m.to, to}, cluster, random)});
    if (i % 4 == 3) ++strategies[std::string(name_of(tensors.back().way.strategy))];
  }
  return tensors;
}

}  // namespace

TEST_CASE("tensors arrive whole between any meshes and specs, in the bytes that were planned") {
  std::mt19937 random(7);
  std::map<std::string, int> strategies;
  int pairs = 0;
  for (int round = 0; round < 2; ++round)
    for (const Meshes& m : meshes()) {
      const std::vector<Moved> tensors = random_tensors(m, 48, random, strategies);
      pairs += static_cast<int>(tensors.size());
      const spmd::SpmdProgram program = moving_program(m.from, m.to, tensors, kMicroBatches);
      runtime::DevicesRequest request{program, {}};
      for (int device : spmd::devices_of(program))
        request.programs.push_back(
            lower::lower(program, device, round > 0, lower::memory_rules("cpu"),
                         pipeline::make_schedule(ScheduleKind::inference, 2, kMicroBatches)));
      lower::verify_schedules(request.programs, program);
      const auto devices = runtime::make_cpu_devices(std::move(request));
      const MovingRun run(program, *devices);
      CHECK(run.wrong_parts() == 0);
      CHECK(run.sent() == spmd::traffic(program).at("transfer"));
    }
  CHECK(pairs >= 500);
  // Every strategy is the cheapest somewhere.
  CHECK(strategies.size() == 4);
}

}  // namespace transfers_test
