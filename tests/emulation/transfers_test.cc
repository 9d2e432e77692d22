// Tensors moved between meshes of CUDA devices on every way.
#include "support/transfers.h"

#include <doctest/doctest.h>

#include "emulation.h"
#include "src/cuda_loader/cuda_library.h"
#include "src/lower/memory_plan.h"
#include "src/runtime/backend.h"

namespace transfers_test {

using namespace alpa;
using namespace alpa::testing;

TEST_CASE("tensors arrive whole on one card and on several, in the bytes that were planned") {
  constexpr int kMicroBatches = 3;
  std::mt19937 random(11);
  const DeviceMesh a = mesh_from(0, {3}), b = mesh_from(3, {2, 2});
  Cluster cluster;
  cluster.devices_per_host = 7;
  cluster.within_host = {1e-9, 1e-9};
  std::vector<Moved> tensors;
  for (int i = 0; i < 24; ++i) {
    const TensorType type = random_type(random);
    const ShardingSpec from = random_input_spec(type, a, random), to = random_spec(type, b, random);
    tensors.push_back({type, from, to, way_of(i % 4, type, {a, from}, {b, to}, cluster, random)});
  }
  const spmd::SpmdProgram program = moving_program(a, b, tensors, kMicroBatches);
  for (const int cards : {1, 7})
    for (const bool capture : {true, false}) {
      CAPTURE(cards);
      CAPTURE(capture);
      emulation::restart({.devices = cards});
      REQUIRE(cuda_support().usable());
      runtime::DevicesRequest request{program, {}};
      request.tune = false;
      request.capture = capture;
      for (int device : spmd::devices_of(program))
        request.programs.push_back(
            lower::lower(program, device, true, lower::memory_rules("cuda"),
                         pipeline::make_schedule(ScheduleKind::inference, 2, kMicroBatches)));
      lower::verify_schedules(request.programs, program);
      const auto devices = runtime::make_devices("cuda", std::move(request));
      for (int step = 0; step < 2; ++step) {
        const MovingRun run(program, *devices);
        CHECK(run.wrong_parts() == 0);
        CHECK(run.sent() == spmd::traffic(program).at("transfer"));
      }
    }
  emulation::restart({});
}

}  // namespace transfers_test
