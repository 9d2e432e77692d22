#pragma once
/// Table of seconds per range of layers, submesh and configuration.
#include <algorithm>
#include <cstddef>
#include <map>
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

/// The configurations of both tables, for stages that may take either. Equal layers and submeshes.
inline PartitionCosts either(const PartitionCosts& a, const PartitionCosts& b) {
  std::map<std::pair<int, int>, int> numbers;  // of classes in both
  std::vector<int> class_of;
  for (std::size_t range = 0; range < a.class_of.size(); ++range)
    class_of.push_back(
        numbers
            .try_emplace({a.class_of[range], b.class_of[range]}, static_cast<int>(numbers.size()))
            .first->second);
  PartitionCosts both(a.layers, std::move(class_of), a.submeshes,
                      a.configurations + b.configurations);
  const auto copy = [&](const PartitionCosts& from, int of_class, int to_class, int configuration) {
    for (int m = 0; m < from.submeshes; ++m)
      for (int c = 0; c < from.configurations; ++c) {
        const std::size_t at = from.index(of_class, m, c),
                          to = both.index(to_class, m, configuration + c);
        both.seconds[to] = from.seconds[at];
        both.max_in_flight[to] = from.max_in_flight[at];
      }
  };
  for (const auto& [classes, number] : numbers) {
    copy(a, classes.first, number, 0);
    copy(b, classes.second, number, a.configurations);
  }
  return both;
}

}  // namespace alpa::inter_op
