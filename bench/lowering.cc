// Seconds from a sharding plan to the verified instruction lists of all devices, with
// memory planned, for stacks of GPT-like layers under ZeRO-3 on 8 devices: how they grow
// with the number of layers.
//   bench_lowering [--rounds N]
#include <alpa/alpa.h>

#include "arguments.h"
#include "interleave.h"
#include "src/lower/memory_plan.h"
#include "src/lower/rank_classes.h"
#include "tests/support/gpt_stack.h"

using namespace alpa;

namespace {

/// Memory that any of these steps fits into.
Cluster roomy_cluster() {
  Cluster cluster = Cluster::local(8);
  cluster.device.memory_bytes = std::int64_t{1} << 42;
  return cluster;
}

void lower_all(const CompiledStep& planned) {
  const spmd::SpmdProgram partitioned = spmd::partition(planned.graph, planned.plan.sharding());
  verify(partitioned);
  const spmd::SpmdProgram program =
      spmd::bucket_collectives(spmd::fuse_elementwise(partitioned), 1 << 20);
  verify(program);
  lower::programs_of_all(program,
                         lower::lower_classes(program, true, lower::memory_rules("cpu", 1)));
}

void measure(int rounds) {
  const Cluster cluster = roomy_cluster();
  for (const int layers : {4, 12, 24, 48, 96}) {
    const CompiledStep planned =
        plan_only(testing::gpt_step({.layers = layers}), Zero3Parallel{.mesh_shape = {8}}, cluster);
    std::vector<bench::Variant> variants{
        {fmt::format("{} layers", layers), [&] { lower_all(planned); }}};
    bench::interleave(variants, rounds);
    const double seconds = median(variants[0].seconds);
    fmt::print(
        R"({{"name": "{}", "nodes": {}, "median_seconds": {:.4f}, "microseconds_per_node_and_device": {:.2f}}})"
        "\n",
        variants[0].name, planned.program->graph.nodes.size(), seconds,
        seconds * 1e6 /
            static_cast<double>(planned.program->graph.nodes.size() *
                                static_cast<std::size_t>(cluster.num_devices())));
  }
}

}  // namespace

int main(int argc, char** argv) {
  int rounds = 3;
  return bench::run(argc, argv, "Time of lowering a plan for 8 devices.",
                    {cli::whole("--rounds", &rounds, "Counted rounds", 1, 1000)},
                    [&] { measure(rounds); });
}
