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
    /// Share of all time for a longer look at a stage of the whole.
    double longer_share = 0.1;
  } range_costs;

  struct StageSearch {
    /// The plan of a range gets this share of the work of a whole step's plan at first, and further
    /// rounds while each closes this share of the gap (intra_op::SearchLimits). What short rounds
    /// leave open is mostly left open by longer ones, too.
    double effort = 0.1, least_gain = 0.5;
    /// Shares of the time left for one range whose best plan has too much memory: of any stages,
    /// and of equal ones that are asked for.
    double memory_share = 0.02, memory_share_of_equal = 0.15;
    /// Shares of the time after which, without any stages, a template is planned, and then the
    /// stages that are best under the bounds; and with some, larger templates.
    double until_template = 0.1, until_plan = 0.3, until_more = 0.3;
    /// Of more layers, the ranges in question are bounded as far as possible in each round.
    int many_layers = 32;
    /// Stages beside the best ones that may be lowered if those take longer than the search found.
    std::size_t others = 3;
    /// So many partitions of a graph of so many nodes are compared by their schedules one by one.
    std::size_t most_played = 32, most_nodes_played = 400;
    /// Rounds of bounds for the proof of the best stages.
    int proof_rounds = 4;
  } stage_search;

  struct StageGuess {
    /// FLOPs per element of the result from which an operator counts as a product.
    double flops_of_product = 16;
    /// Share of the memory that state, sums and kept values may take: the rest is for temporaries.
    double budget_share = 0.92;
  } stage_guess;

  struct Partition {
    /// The first bound on stages that is tried, in parts of the least one that has any.
    double first_bound = 1.1;
  } partition;

  struct ScheduleBound {
    /// Sums of a program that counts what stages wait, at most.
    double most_cells = 1e7;
    /// Dynamic programs, at least and at most, and the sums of all of them together.
    double least_programs = 30, most_programs = 1000, work = 3e8;
    /// Sums that take no longer than a planner may after its time.
    double first_look = 5e7;
  } schedule_bound;

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
