#pragma once
/// Tuning numbers of the search: one group per file. Cells are entries of the cost tables of the
/// integer linear program; work is reads of them. A range is a run of layers that may become a
/// stage.
#include <cstddef>
#include <cstdint>

namespace alpa::search {

struct Tuning {
  struct LayeredPlan {
    /// Rounds in which neighbours exchange the prices of their boundary.
    int pricing_rounds = 4;
  } layered_plan;

  struct MemoryUsage {
    /// Values below this share of the limit are not modelled one by one; an allowance counts each
    /// at its largest.
    std::int64_t worth_counting = 50'000;
  } memory_usage;

  struct AutoShard {
    /// Cells of all tables of a program that may be an easy one. Every effort is a number of cells
    /// of work (ilp::Limits::work): of the look at an easy program, and of the first round
    /// over the meshes. The second round is longer by a factor, and so on. Efforts grow with the
    /// program, so that a method that solves some layers solves any number of them.
    std::int64_t easy_cells = 1'000'000;
    std::int64_t easy_work = 50'000'000, easy_work_per_cell = 600, first_work = 1'000'000'000;
    std::int64_t budget_work = 4'000'000'000;
    std::int64_t first_work_per_cell = 1500, more_work = 4, most_work = std::int64_t{1} << 50;
    /// Gap of the first plans, in which equal layers have equal strategies.
    double repeated_gap = 0.01;
    /// A mesh is promising if its best plan takes at most this many times as long as the best of
    /// all.
    double promising = 1.5;
    /// For a program of more cells a further round takes tens of seconds. Where one round or two
    /// have proven this gap, there is none.
    std::int64_t large_cells = 2'000'000;
    double large_gap = 0.02;
    /// A round on such a mesh ends here, too: without a budget once this share of its work is done.
    double modest_gap = 0.015, modest_share = 0.25;
    /// Part of the time left that a search of the whole leaves to each mesh that waits behind it,
    /// but at most the second part to all: without their bounds its own proves nothing of all
    /// meshes.
    double share_of_waiting = 0.12, most_of_waiting = 0.5;
    /// For those that have still not been looked at when planning ends: seconds for all together.
    double late_seconds = 0.4;
  } auto_shard;

  struct MeshSearch {
    /// From this many layers on, tables of layers come first; no table has more cells than the
    /// second constant.
    std::size_t many_layers = 32;
    std::int64_t layer_cells = 1 << 20;
    int budget_attempts = 6;
    /// Largest table of an elimination. Training graphs are narrow: what fits is solved without
    /// branching.
    std::int64_t elimination_cells = 1 << 24;
    /// A search takes this long even when planning is over, so that there is a plan.
    double least_seconds = 0.1;
    /// Strategies of the templates that are solved although time is over and a plan is known: a
    /// quarter of a second's work.
    std::int64_t late_strategies = 50'000;
    /// For each template. The work is that of a second or less, for large programs in proportion to
    /// the cells of the whole; the seconds are far more, also on a busy machine. What is proven of
    /// one template mostly drops the narrower ones.
    std::int64_t template_work = 300'000'000, template_work_per_cell = 300;
    double template_seconds = 2;
    /// Under a budget a plan this close to the proven bound is good enough: the last percent can
    /// take minutes.
    double budget_gap = 0.01;
    /// Share of the time left for a plan of repeated layers, and what part of such a plan's seconds
    /// must be proven so that templates are not tried, too.
    double repeated_share = 0.25, repeated_enough = 0.97;
    /// A relative gap that any plan satisfies.
    double any_gap = 0.99;
  } mesh_search;

  struct ChangeNear {
    /// Nodes that the first neighbourhood plans again; each has twice as many. The last one has
    /// this many times the nodes of the last that found a cheaper plan.
    std::size_t first_nodes = 32, enough = 4;
    std::int64_t work = 100'000'000;  ///< of each, in cells
  } change_near;

  struct QuickBound {
    /// Layers of transformers are within 1e-4 of their optimum after about ten, of Wide-ResNet and
    /// experts within 2 to 8 %.
    int sweeps = 12;
  } quick_bound;

  struct Templates {
    /// Axes up to which all combinations of uses are templates, and how many uses they mix on more
    /// axes.
    int few_axes = 2;
    std::size_t most_uses = 2;
  } templates;

  struct ClusterLayers {
    /// Heavy operators that a layer has at least, where there are enough.
    int least_heavy = 3;
    /// A cut is nearby that so many heavy operators lie before at most: a block of a transformer.
    int near_heavy = 8;
    /// Where this gives fewer layers, they may read twice the bytes, or up to so many times.
    int few_layers = 8, most_bytes = 4;
  } cluster_layers;

  struct RangeCosts {
    /// Layers that are bounded together before a longer range is.
    int block = 4;
    /// By how much bounds of several layers mostly exceed the sum of those of each, at most.
    double blocks_raise = 1.02;
  } range_costs;

  struct BytePrices {
    /// First and least price of a device full of bytes, as parts of the range's seconds. Lower
    /// prices are tried while none was of use.
    double first = 0.25, least = 1.0 / 16;
    /// A price next to the best one so far is not tried if the one on the other side is less than
    /// this part worse.
    double least_gain = 0.005;
  } byte_prices;

  struct StageSearch {
    /// The plan of a range gets this share of the work of a whole step's plan at first, and further
    /// rounds while each closes this share of the gap (intra_op::SearchLimits). What short rounds
    /// leave open is mostly left open by longer ones, too.
    double effort = 0.1, least_gain = 0.5;
    /// Shares of the time left for one range whose best plan has too much memory: of any stages,
    /// and of equal ones that are asked for.
    double memory_share = 0.05, memory_share_of_equal = 0.15;
    /// Number of layers above which a round bounds the ranges in question as far as possible.
    int many_layers = 32;
    /// Stages beside the best ones that may be lowered if those take longer than the search found.
    std::size_t others = 3;
    /// Share of the time for better bounds in the proof of the best stages.
    double proof_share = 0.05;
  } stage_search;

  struct StageGuess {
    /// FLOPs per element of the result from which an operator counts as a product.
    double flops_of_product = 16;
    /// Share of the memory that a guess may take: the rest is for what lowering adds.
    double budget_share = 0.97;
  } stage_guess;

  struct StepBound {
    /// Labels are sought up to this part above what is proven, at first.
    double growth = 0.02;
    /// The stages of an interval may take this part more than its bound, or this part of what the
    /// bound is below what is asked for: then ranges have to be bounded better, not intervals.
    double narrow = 5e-4, narrow_far = 0.1;
    /// Transfers whose seconds differ by less, in parts of a micro-batch of a stage, are one.
    double small_transfer = 3e-4;
    /// Labels that are extended and compared, and stages whose seconds are read, at most. A proof
    /// begins with fewer, and has up to so many if they are not enough.
    double most_work = 1e8, first_work_of_proof = 3e7, most_work_of_proof = 3e9;
    /// Work of one of these, in seconds.
    double seconds_per_label = 5e-8;
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

}  // namespace alpa::search
