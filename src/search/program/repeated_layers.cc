// Groups nodes by their surroundings
#include "src/search/program/repeated_layers.h"

#include <cstdint>
#include <initializer_list>
#include <map>
#include <utility>

namespace alpa::intra_op {
namespace {

/// Operators that surroundings reach to each side: they tell nodes of a layer from each other.
constexpr int kReach = 4;

/// A hash of numbers in this order.
std::uint64_t mixed(std::initializer_list<std::uint64_t> numbers) {
  std::uint64_t hash = 0;
  for (const std::uint64_t number : numbers) {
    hash = (hash + number + 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u;
    hash ^= hash >> 29;
  }
  return hash;
}

/// Per node, a number that is equal for equal choices and surroundings.
std::vector<std::uint64_t> surroundings(const Graph& graph, const SearchSpace& space) {
  std::vector<std::uint64_t> labels;
  for (const int choices : space.of_node) labels.push_back(mixed({std::uint64_t(choices)}));
  for (int reach = 0; reach < kReach; ++reach) {
    std::vector<std::uint64_t> before(labels.size()), behind(labels.size());
    for (std::size_t n = 0; n < labels.size(); ++n) {
      const std::vector<int>& operands = graph.nodes[n].operands;
      for (std::size_t place = 0; place < operands.size(); ++place) {
        const ValueInfo& read = graph.values[operands[place]];
        const auto result = static_cast<std::uint64_t>(read.index);
        before[n] = mixed({before[n], labels[read.producer], result});
        behind[read.producer] += mixed({labels[n], place, result});  // in any order
      }
    }
    for (std::size_t n = 0; n < labels.size(); ++n)
      labels[n] = mixed({labels[n], before[n], behind[n]});
  }
  return labels;
}

}  // namespace

std::vector<int> repeated_layers(const Graph& graph, const SearchSpace& space,
                                 const Instance& instance) {
  const std::vector<std::uint64_t> labels = surroundings(graph, space);
  std::vector<int> groups(instance.problem.nodes.size(), 0);
  for (const Copy& copy : instance.copies) groups[copy.node] = -1;
  struct Pair {
    int even = -1, odd = -1;  ///< groups
  };
  std::map<std::uint64_t, Pair> known;
  int count = 0;
  for (std::size_t n = 0; n < groups.size(); ++n) {
    if (groups[n] < 0) continue;
    if (n >= labels.size()) {
      groups[n] = count++;
      continue;
    }
    Pair& pair = known[labels[n]];
    std::swap(pair.even, pair.odd);  // takes turns
    if (pair.odd < 0) pair.odd = count++;
    groups[n] = pair.odd;
  }
  if (2 * count > static_cast<int>(labels.size())) return {};
  return groups;
}

}  // namespace alpa::intra_op
