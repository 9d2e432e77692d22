#pragma once
/// Ranges of a model's layers: which are alike, and as graphs of their own.
#include <map>
#include <string>
#include <vector>

#include "alpa/ir/graph.h"
#include "src/ir/subgraph.h"
#include "src/plan/facts/fusion.h"

namespace alpa::inter_op {

/// A range of layers as it is inside a longer range, at the least that it can cost there: the sum
/// over consecutive ranges is a lower bound of what they cost together. Every read of another
/// part's value has an input of its own, whose layout is free; loops reach over the boundary as in
/// the whole graph; nodes without operands are free, because several layers may share them.
struct RelaxedRange {
  Graph graph;
  std::vector<intra_op::LoopShare> loops;  ///< per node
};

/// A range of layers as a stage of its own.
struct RangeGraph {
  Graph graph;
  std::map<std::string, int> batch_dims;  ///< of boundary inputs that have one, the batch dimension
};

/// Bytes of a range that no plan can do without; devices can at best divide them evenly.
struct HeldBytes {
  double always = 0;           ///< state, and sums over micro-batches
  double per_micro_batch = 0;  ///< what its forward run keeps for the backward run
};

/// Plain data once it is made; safe to read from several threads.
class LayerRanges {
 public:
  /// `graph` must outlive this. Throws Error if a layer reads a value of a later one.
  explicit LayerRanges(const Graph& graph);
  LayerRanges(const LayerRanges&) = delete;  // parts refer to their own graph
  LayerRanges& operator=(const LayerRanges&) = delete;

  int layers() const { return layers_; }
  /// The whole graph with a stage per layer.
  const Graph& staged() const { return staged_; }
  /// Equal numbers: the graphs of the ranges are equal but for names and random streams. Numbers
  /// count from 0; a range's number is above those of the ranges that it begins with.
  int class_of(int first, int last) const { return class_of_[first * layers_ + last]; }
  /// The number of every range: that of layers a to b at a * layers() + b.
  const std::vector<int>& class_numbers() const { return class_of_; }
  int classes() const { return static_cast<int>(examples_.size()); }
  /// True if both have the same layers, but for the number of micro-batches.
  bool are_like(const LayerRanges& other) const;
  /// The first range of this class.
  struct Range {
    int first = 0, last = 0;
  };
  Range example(int number) const { return examples_[number]; }

  /// As a stage of its own.
  HeldBytes held(Range range) const;
  RangeGraph graph_of(Range range) const;
  RelaxedRange relaxed(Range range) const;

 private:
  const Graph& graph_;
  const int layers_;
  const Graph staged_;                            ///< a stage per layer
  const LayerCuts cuts_;                          ///< of `staged_`
  const std::vector<intra_op::LoopShare> loops_;  ///< of `staged_`
  std::vector<HeldBytes> held_by_;                ///< per layer
  std::vector<int> class_of_;
  std::vector<Range> examples_;
};

}  // namespace alpa::inter_op
