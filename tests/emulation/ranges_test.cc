// What tools such as Nsight Systems are told by NVTX: ranges around kernels, names of streams.
#include <alpa/alpa.h>
#include <doctest/doctest.h>
#include <fmt/ranges.h>

#include <set>
#include <string>

#include "emulation.h"
#include "src/runtime/executor.h"
#include "support/cards_of_processes.h"

namespace ranges_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

/// Ranges around an instruction of a run, the outermost first.
std::vector<std::string> ranges_of(const lower::DeviceProgram& device, const lower::ListRun& run,
                                   const Node& node) {
  std::vector<std::string> ranges = {
      fmt::format("stage {}", device.mesh),
      fmt::format("{}, micro-batch {}", device.lists[run.list].name, run.micro_batch)};
  if (node.layer >= 0) ranges.push_back(fmt::format("layer {}", node.layer));
  ranges.push_back(node.name);
  return ranges;
}

}  // namespace

TEST_CASE("kernels of a queued step are in ranges of stage, micro-batch, layer and operator") {
  emulation::restart({.devices = 2});
  PipeshardParallel method{.num_micro_batches = 2};
  method.executor.tune = false;
  const Executable step =
      parallelize(staged_mlp_step(kRows, kWidth), method, Cluster::local(2, "cuda"));
  TrainState state = step.init(3);
  step.run(state, staged_mlp_batch()).loss();
  const auto kernels = emulation::kernels_by_ranges();
  std::set<std::vector<std::string>> expected;
  for (int d = 0; d < 2; ++d) {
    const lower::DeviceProgram& device = step.executor().device_program(d);
    for (const lower::ListRun& run : device.schedule)
      for (const lower::Instruction& i : device.lists[run.list].instructions)
        if (i.kind == lower::Instruction::Kind::compute)
          expected.insert(ranges_of(device, run, step.program().graph.nodes[i.node]));
  }
  std::size_t layers = 0;
  for (const auto& ranges : expected) {
    CAPTURE(fmt::format("{}", fmt::join(ranges, " > ")));
    CHECK(kernels.contains(ranges));
    layers += ranges.size() == 4 ? 1 : 0;
  }
  CHECK(layers > 0);
}

TEST_CASE("streams and the threads that queue steps have names") {
  emulation::restart({.devices = 2});
  PipeshardParallel method{.num_micro_batches = 2};
  method.executor.tune = false;
  const Executable stages =
      parallelize(staged_mlp_step(kRows, kWidth), method, Cluster::local(2, "cuda"));
  Serial overlapped;
  overlapped.executor.overlap_updates = true;
  const Executable updates =
      parallelize(staged_mlp_step(kRows, kWidth), overlapped, Cluster::local(1, "cuda"));
  const std::set<std::string> names = emulation::given_names();
  for (const char* name :
       {"device 0 compute", "device 1 compute", "device 1 communication", "device 0 updates",
        "device 0 to 1, lane 0, sender", "device 0 to 1, lane 0, receiver", "GPU 1 upload",
        "alpa: queues for GPU 1"}) {
    CAPTURE(name);
    CHECK(names.contains(name));
  }
}

}  // namespace ranges_test
