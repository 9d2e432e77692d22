#pragma once
/// What planning in stages spends: one group per file. A range is a run of layers that may become a
/// stage.
#include <cstddef>

namespace alpa::inter_op {

struct Tuning {
  struct ClusterLayers {
    /// Heavy operators that a layer has at least, where there are enough.
    int least_heavy = 3;
  } cluster_layers;

  struct RangeCosts {
    /// Layers that are bounded together before a longer range is.
    int block = 4;
  } range_costs;

  struct StageSearch {
    /// The plan of a range gets this share of the work of a whole step's plan at first, and further
    /// rounds while each closes this share of the gap (intra_op::SearchLimits). What short rounds
    /// leave open is mostly left open by longer ones, too.
    double effort = 0.1, least_gain = 0.5;
    /// Shares of the time left for one range whose best plan has too much memory: of any stages,
    /// and of equal ones that are asked for.
    double memory_share = 0.05, memory_share_of_equal = 0.15;
    /// Of more layers, the ranges in question are bounded as far as possible in each round.
    int many_layers = 32;
    /// Stages beside the best ones that may be lowered if those take longer than the search found.
    std::size_t others = 3;
    /// Share of the time for better bounds in the proof of the best stages.
    double proof_share = 0.05;
  } stage_search;

  struct StageGuess {
    /// FLOPs per element of the result from which an operator counts as a product.
    double flops_of_product = 16;
    /// Share of the memory that state, sums and kept values may take: the rest is for temporaries.
    double budget_share = 0.92;
  } stage_guess;

  struct StepBound {
    /// Labels are sought up to this part above what is proven.
    double growth = 0.02;
    /// The stages of an interval may take this part more than its bound.
    double narrow = 5e-4;
    /// Transfers whose seconds differ by less, in parts of a micro-batch of a stage, are one.
    double small_transfer = 3e-4;
    /// Labels that are extended and compared, and stages whose seconds are read, at most.
    double most_work = 1e8;
  } step_bound;

  struct Submesh {
    /// From this size on, the next one of a part of a host has four significant binary digits, and
    /// from so many whole hosts on two.
    int every_size = 64, every_hosts = 8;
    /// No part is smaller than the cluster divided by this number.
    int most_parts = 1024;
  } submesh;

  struct Tiling {
    /// Ways to fill hosts beyond which not all lists of submeshes are accepted (tiling.h).
    std::size_t most_fillings = 512;
  } tiling;
};

inline constexpr Tuning kTuning;

}  // namespace alpa::inter_op
