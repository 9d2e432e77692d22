#pragma once
/// Table of seconds per range of layers, submesh and configuration.
#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>
#include <vector>

#include "src/base/infinity.h"

namespace alpa::inter_op {

struct PartitionCosts {
  /// Every range of `layers` layers has seconds of its own.
  PartitionCosts(int layers, int submeshes, int configurations)
      : PartitionCosts(layers, own_classes(layers), submeshes, configurations) {}

  /// Ranges of equal classes have equal seconds. `class_of`: numbers from 0, that of the range from
  /// layer a to b at a * layers + b.
  PartitionCosts(int layers, std::vector<int> class_of, int submeshes, int configurations)
      : layers(layers),
        class_of(std::move(class_of)),
        classes(1 + *std::max_element(this->class_of.begin(), this->class_of.end())),
        submeshes(submeshes),
        configurations(configurations),
        seconds(static_cast<std::size_t>(classes) * submeshes * configurations, kInfinity),
        max_in_flight(seconds.size(), 0) {}

  /// Where the tables have layers `first` to `last` on submesh m in configuration c.
  std::size_t index(int first, int last, int m, int c) const {
    return index(class_of[first * layers + last], m, c);
  }
  /// Where they have the ranges of a class.
  std::size_t index(int of_class, int m, int c) const {
    return (static_cast<std::size_t>(of_class) * submeshes + m) * configurations + c;
  }

  int layers;
  std::vector<int> class_of;
  int classes, submeshes, configurations;
  /// Forward and backward seconds of one micro-batch; infinity (at first): not possible.
  std::vector<double> seconds;
  /// Most micro-batches in flight for which memory suffices; 0 (at first): none.
  std::vector<int> max_in_flight;

 private:
  static std::vector<int> own_classes(int layers) {
    std::vector<int> classes(static_cast<std::size_t>(layers) * layers);
    std::iota(classes.begin(), classes.end(), 0);
    return classes;
  }
};

}  // namespace alpa::inter_op
