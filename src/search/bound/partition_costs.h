#pragma once
/// Table of seconds per range of layers, submesh and configuration.
#include <cstddef>
#include <vector>

#include "src/base/infinity.h"

namespace alpa::inter_op {

struct PartitionCosts {
  PartitionCosts(int layers, int submeshes, int configurations)
      : layers(layers),
        submeshes(submeshes),
        configurations(configurations),
        seconds(static_cast<std::size_t>(layers) * layers * submeshes * configurations, kInfinity),
        max_in_flight(seconds.size(), 0) {}

  /// Where the tables have layers `first` to `last` on submesh m in configuration c.
  std::size_t index(int first, int last, int m, int c) const {
    return ((static_cast<std::size_t>(first) * layers + last) * submeshes + m) * configurations + c;
  }

  int layers, submeshes, configurations;
  /// Forward and backward seconds of one micro-batch; infinity (at first): not possible.
  std::vector<double> seconds;
  /// Most micro-batches in flight for which memory suffices; 0 (at first): none.
  std::vector<int> max_in_flight;
};

}  // namespace alpa::inter_op
