// What stages send each other, and when.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include <algorithm>

#include "src/runtime/executor.h"
#include "src/spmd/program.h"

namespace stage_transfers_test {

using namespace alpa;

namespace {

using Kind = lower::Instruction::Kind;

/// Four layers, with a boundary in the middle.
LossAndMetrics four_layers(const Batch& b) {
  static const nn::Dense dense[4] = {nn::Dense(24), nn::Dense(24), nn::Dense(24), nn::Dense(24)};
  Value h = tanh(dense[1](tanh(dense[0](b["x"]))));
  h = mark_pipeline_boundary(h);
  return {mean(square(dense[3](tanh(dense[2](h))))), {}};
}

Executable pipeline_of(const PipeshardParallel& method, const Cluster& cluster) {
  return parallelize(training_step({{"x", {f32, {32, 24}}}}, four_layers, optim::Adam{}), method,
                     cluster);
}

/// Kinds of a list's instructions that compute or exchange messages.
std::vector<Kind> work_of(const lower::DeviceProgram& device, int list) {
  std::vector<Kind> kinds;
  for (const lower::Instruction& instruction : device.lists[list].instructions)
    if (instruction.kind != Kind::wait && instruction.kind != Kind::load)
      kinds.push_back(instruction.kind);
  return kinds;
}

/// The one transfer in this direction.
const Node& transfer_to(const spmd::SpmdProgram& program, int mesh) {
  const auto found =
      std::find_if(program.graph.nodes.begin(), program.graph.nodes.end(), [&](const Node& node) {
        return spmd::is_transfer(node) && node.region != Region::apply &&
               program.mesh_index(node.results[0]) == mesh;
      });
  REQUIRE(found != program.graph.nodes.end());
  return *found;
}

/// Links within a host, and as fast between hosts unless said otherwise.
Cluster cluster_of(int hosts, int per_host, Link within, Link between) {
  return {.num_hosts = hosts,
          .devices_per_host = per_host,
          .device = Cluster::local(hosts * per_host).device,
          .within_host = within,
          .between_hosts = between};
}

}  // namespace

TEST_CASE("a stage receives before it computes, and sends before gradients of weights") {
  const Executable train =
      pipeline_of({.num_micro_batches = 4, .stages = UniformStages{2}}, Cluster::local(2));
  const lower::DeviceProgram &first = train.executor().device_program(0),
                             &second = train.executor().device_program(1);
  const auto receives_first = [](const lower::DeviceProgram& device, int list) {
    return work_of(device, list).front() == Kind::receive;
  };
  CHECK(receives_first(second, 0));  // forward
  CHECK(receives_first(first, 1));   // backward
  const std::vector<Kind> backward = work_of(second, 1);
  const auto send = std::find(backward.begin(), backward.end(), Kind::send);
  REQUIRE(send != backward.end());
  CHECK(std::count(send, backward.end(), Kind::compute) >= 2);
}

TEST_CASE("stages send each other tensors in the way that is cheapest on the cluster") {
  const Array x(std::vector<float>(32 * 24, 0.5F), {32, 24});
  const auto losses = [&](const Executable& train) {
    TrainState state = train.init(1);
    std::vector<double> values;
    for (int i = 0; i < 3; ++i) values.push_back(train.run(state, {{"x", x}}).loss());
    CHECK(train.measured_bytes(state) == train.memory_bytes());
    CHECK(train.measured_traffic()["transfer"] == train.traffic()["transfer"]);
    return values;
  };
  const std::vector<double> serial =
      losses(parallelize(training_step({{"x", {f32, {32, 24}}}}, four_layers, optim::Adam{}),
                         Serial{}, Cluster::local(1)));
  const auto strategies = [&](const std::vector<int>& devices, const Cluster& cluster) {
    const Executable train =
        pipeline_of({.num_micro_batches = 2, .stages = ManualStages{{{0}, {1}}, devices}}, cluster);
    const std::vector<double> own = losses(train);
    for (std::size_t i = 0; i < own.size(); ++i)
      CHECK(own[i] == doctest::Approx(serial[i]).epsilon(1e-5));
    return transfer_to(train.program(), 1).attributes.string("strategy");
  };
  const Link fast{1e-9, 1e-12}, slow{1e-9, 1e-7};
  // One sender, equal links: passed on. Two hosts: parts over the slow link. Else copies.
  CHECK(strategies({1, 4}, cluster_of(1, 5, slow, slow)) == "broadcast");
  CHECK(strategies({4, 4}, cluster_of(2, 4, fast, slow)) == "local_all_gather");
  CHECK(strategies({2, 2}, cluster_of(1, 4, fast, fast)) == "send_receive");
}

}  // namespace stage_transfers_test
