#pragma once
/// Layer clustering: cuts the forward pass into layers of balanced FLOPs with few bytes between
/// them (Alpa, arXiv 2201.12023, section 5.2). Pure functions, safe to call from several threads.
#include <cstdint>
#include <vector>

#include "alpa/ir/graph.h"

namespace alpa::inter_op {

/// An operator of the forward pass.
struct ForwardOperator {
  double flops = 0;
  int heavy = 0;  ///< products, and others that take most of the time, that it consists of
  std::vector<std::int64_t> produced = {};  ///< bytes of each result
  /// Results of earlier operators. Results are numbered in the order of operators, from 0.
  /// Inputs of the graph are not results, and cross no cut.
  std::vector<int> read = {};
};

/// As the number of layers: the largest whose layers read no more bytes than the second of two
/// does, or than the best cut nearby: early layers of a convolutional network pass on more. Where
/// these are few, layers may read a few times as many.
inline constexpr int kAutoLayers = 0;

struct ClusteringOptions {
  int layers = kAutoLayers;  ///< kAutoLayers or a positive number
  /// A layer may have (1 + tolerance) × the average FLOPs of a layer; at least 0.
  double tolerance = 0.5;
};

struct LayerRange {
  int first = 0, last = 0;  ///< operators, both included
  bool operator==(const LayerRange&) const = default;
};

struct Clustering {
  std::vector<LayerRange> layers = {};  ///< in order; together all operators
  /// Bytes of distinct results of earlier layers that a layer reads: the largest over layers, which
  /// is minimal for a given number of layers, and the sum over layers.
  std::int64_t largest_bytes = 0, sum_of_bytes = 0;
  /// FLOPs that a layer had to stay below. More than (1 + tolerance) × the average if operators are
  /// too coarse for that: then the least at which a clustering exists.
  double flops_bound = 0;
};

/// Layers with the least `largest_bytes`; among these with the least `sum_of_bytes`, then with the
/// least sum of squared FLOPs. Exact. Every layer consists of at least three products or the like
/// (of fewer, if that is not possible), or reaches the bound on FLOPs without them. A layer that
/// would have fewer without its last heavy operator may exceed the bound, and light operators after
/// that one do not count towards it. If fewer operators than layers are heavy, all count as one. A
/// heavy operator counts as one, for kAutoLayers as all that it consists of.
/// Time: the number of allowed layers (about 1.5 operators² / layers) × layers.
/// Throws Error unless 1 ≤ layers ≤ operators and tolerances are at least 0.
Clustering cluster(const std::vector<ForwardOperator>& operators, const ClusteringOptions& options);

/// The operators of `graph`: its nodes of region forward except inputs, in order. A layer that is
/// computed again is one operator, since it may not be cut.
std::vector<ForwardOperator> forward_operators(const Graph& graph);

/// Per node of `graph` the layer of `cluster(forward_operators(graph), …)` that has it; -1 for
/// inputs and for nodes of other regions. `layers` may be kAutoLayers. Throws Error as `cluster`.
std::vector<int> cluster_layers(const Graph& graph, int layers, double tolerance);

}  // namespace alpa::inter_op
