// src/spmd/bucket_collectives.cc — reductions early, small ones together
#include <algorithm>
#include <numeric>

#include <fmt/core.h>

#include "rewrite.h"

namespace alpa {
namespace {

bool is_reduction(const Node& node) {
  return node.op == &ops::all_reduce || node.op == &ops::reduce_scatter;
}

/// Where a node moves to: behind the node in this place, in this region.
struct Place {
  int after;
  Region region;
};

/// Reductions follow the last producer of their operands. With several micro-batches they do not leave their region, which may run once
/// for all of them.
std::vector<Place> places_of(const Graph& graph) {
  std::vector<Place> places;
  int apply_start = -1;
  for (int n = 0; n < static_cast<int>(graph.nodes.size()); ++n) {
    const Node& node = graph.nodes[n];
    if (apply_start < 0 && node.region == Region::apply) apply_start = n;
    places.push_back({n, node.region});
    if (!is_reduction(node)) continue;
    const bool once_per_step = node.region == Region::apply && graph.num_micro_batches > 1;
    Place place = once_per_step ? Place{apply_start - 1, Region::apply} : Place{-1, Region::forward};
    for (int value : node.operands) {
      const Place& producer = places[graph.values[value].producer];
      place.after = std::max(place.after, producer.after);
      place.region = std::max(place.region, producer.region);
    }
    places.back() = place;
  }
  return places;
}

/// The graph's nodes with every reduction in its place.
std::vector<Node> reductions_early(const Graph& graph) {
  const std::vector<Place> places = places_of(graph);
  std::vector<int> order(graph.nodes.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return places[a].after < places[b].after; });
  std::vector<Node> nodes;
  for (int n : order) {
    nodes.push_back(graph.nodes[n]);
    nodes.back().region = places[n].region;
  }
  return nodes;
}

/// What all_reduces of one bucket have in common.
struct Kind {
  std::vector<std::int64_t> axes;
  Combiner combiner;
  DType dtype;
  Region region;
  bool operator==(const Kind&) const = default;
};

class Bucketing {
 public:
  Bucketing(const SpmdProgram& program, std::int64_t bucket_bytes)
      : program_(program), bucket_bytes_(bucket_bytes) {}

  SpmdProgram run() {
    for (int n = 0; n < static_cast<int>(program_.graph.nodes.size()); ++n) {
      if (reads_bucket(n)) open_ = -1;
      if (joins(n))
        extend(n);
      else
        start(n);
    }
    std::vector<Node> nodes;
    for (const std::vector<int>& unit : units_)
      if (!unit.empty()) nodes.push_back(joined(unit));
    return with_nodes(program_, std::move(nodes));
  }

 private:
  const Node& node(int n) const { return program_.graph.nodes[n]; }

  std::int64_t bytes(int n) const {
    std::int64_t bytes = 0;
    for (int value : node(n).operands)
      bytes += shard_bytes(program_.graph.type(value), program_.specs[value], program_.mesh);
    return bytes;
  }

  Kind kind(int n) const {
    const int value = node(n).operands[0];
    const std::vector<std::int64_t>& axes = node(n).attributes.integers("axes");
    return {axes, combiner_on(program_.specs[value], static_cast<int>(axes[0])),
            program_.graph.type(value).dtype, node(n).region};
  }

  bool reads_bucket(int n) const {
    if (open_ < 0) return false;
    return std::any_of(node(n).operands.begin(), node(n).operands.end(), [&](int value) {
      const auto& unit = units_[open_];
      return std::find(unit.begin(), unit.end(), program_.graph.values[value].producer) != unit.end();
    });
  }

  bool joins(int n) const {
    return open_ >= 0 && node(n).op == &ops::all_reduce && open_bytes_ + bytes(n) <= bucket_bytes_ &&
           kind(n) == kind(units_[open_].front());
  }

  /// The bucket moves to its newest member, behind which nothing has read it yet.
  void extend(int n) {
    std::vector<int> unit = std::move(units_[open_]);
    units_[open_].clear();
    unit.push_back(n);
    units_.push_back(std::move(unit));
    open_ = static_cast<int>(units_.size()) - 1;
    open_bytes_ += bytes(n);
  }

  /// A node of its own; an all_reduce smaller than a bucket opens one.
  void start(int n) {
    units_.push_back({n});
    if (node(n).op != &ops::all_reduce || bytes(n) >= bucket_bytes_) return;
    open_ = static_cast<int>(units_.size()) - 1;
    open_bytes_ = bytes(n);
  }

  Node joined(const std::vector<int>& unit) const {
    Node result = node(unit.front());
    for (std::size_t i = 1; i < unit.size(); ++i) {
      const Node& next = node(unit[i]);
      result.operands.insert(result.operands.end(), next.operands.begin(), next.operands.end());
      result.results.insert(result.results.end(), next.results.begin(), next.results.end());
    }
    if (unit.size() > 1) result.name += fmt::format("+{}", unit.size() - 1);
    return result;
  }

  const SpmdProgram& program_;
  std::int64_t bucket_bytes_;
  std::vector<std::vector<int>> units_;  ///< nodes that become one, in order
  int open_ = -1;                        ///< unit that may still grow, or -1
  std::int64_t open_bytes_ = 0;
};

}  // namespace

SpmdProgram bucket_collectives(const SpmdProgram& program, std::int64_t bucket_bytes) {
  const SpmdProgram early = with_nodes(program, reductions_early(program.graph));
  return Bucketing(early, bucket_bytes).run();
}

}  // namespace alpa
