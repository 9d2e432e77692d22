// Which nodes of a captured step run ahead of others where both are ready.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include <map>

#include "emulation.h"
#include "support/mlp_step.h"

namespace priorities_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

constexpr int kLayers = 3;
// Of the emulated cards' range, 0 to -5, in which fewer is more urgent.
constexpr int kHigh = -5, kMiddle = -2, kLow = 0;

/// Nodes by priority of a step, or of a card's part of it, that was captured last.
std::map<int, int> nodes_of(Method method, int devices, int cards, bool overlap_updates) {
  emulation::restart({.devices = cards});
  std::visit(
      [&](auto& chosen) {
        chosen.executor.tune = false;
        chosen.executor.capture = Capture::always;
        chosen.executor.bucket_bytes = 1;  // a collective for each gradient
        chosen.executor.overlap_updates = overlap_updates;
      },
      method);
  const Executable executable =
      parallelize(dense_mlp_step<nn::ReLU>(f32, kLayers), method, Cluster::local(devices, "cuda"));
  TrainState state = executable.init(0);
  const std::map<std::string, Array> batch = {{"x", Array({f32, {64, 128}})},
                                              {"y", Array({f32, {64, 128}})}};
  for (int i = 0; i < 2; ++i) executable.run(state, batch).loss();
  return emulation::last_graph().by_priority;
}

}  // namespace

TEST_CASE("in a captured step, collectives beside other work come first, updates beside it last") {
  const std::map<int, int> serial = nodes_of(Serial{}, 1, 1, false);
  CHECK(serial.size() == 1);
  CHECK(serial.at(kMiddle) > 0);
  CHECK(nodes_of(Serial{}, 1, 1, true).at(kLow) == kLayers);
  for (const int cards : {1, 2}) {
    CAPTURE(cards);
    const std::map<int, int> nodes = nodes_of(DataParallel{}, 2, cards, false);
    // Each kernel's and each bias's gradient, but the last one, which everything waits for.
    CHECK(nodes.at(kHigh) == 2 * kLayers - 1);
    CHECK(nodes.at(kMiddle) > 0);
    CHECK(nodes.size() == 2);
  }
  emulation::restart({});
}

}  // namespace priorities_test
