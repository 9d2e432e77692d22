#pragma once
/// What planning on one mesh spends: one group per file. Cells are entries of the cost tables of
/// the integer linear program; work is reads of them.
#include <cstddef>
#include <cstdint>

namespace alpa::intra_op {

struct Tuning {
  struct Fusion {
    int max_members = 32;
  } fusion;

  struct TensorFactors {
    /// A letter is dropped if, of the products' work that it can split, it alone splits at most
    /// this share.
    double negligible = 0.1;
  } tensor_factors;

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
    /// A mesh is promising if its best plan takes at most this many times as long as the best of
    /// all.
    double promising = 1.5;
    /// For a program of more cells a further round takes tens of seconds. Where one round or two
    /// have proven this gap, there is none.
    std::int64_t large_cells = 2'000'000;
    double large_gap = 0.02;
    /// A round on such a mesh ends here, too: without a budget once this share of its work is done.
    double modest_gap = 0.015, modest_share = 0.25;
    /// Of the time left, a search of the whole leaves this part to each mesh that waits behind it,
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
    /// second's work.
    std::int64_t late_strategies = 200'000;
    /// For each template. The work is that of a second or less, for large programs in proportion to
    /// the cells of the whole; the seconds are far more, also on a busy machine. What is proven of
    /// one template mostly drops the narrower ones.
    std::int64_t template_work = 300'000'000, template_work_per_cell = 300;
    double template_seconds = 2;
    /// Under a budget a plan this close to the proven bound is good enough: the last percent can
    /// take minutes.
    double budget_gap = 0.01;
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
};

inline constexpr Tuning kTuning;

}  // namespace alpa::intra_op
