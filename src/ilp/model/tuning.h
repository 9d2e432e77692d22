#pragma once
/// What the solver spends: one group per file. Cells are reads of entries of cost
/// tables, the measure of work (model/deadline.h); shares are fractions of the time or work left.
#include <cstddef>
#include <cstdint>

namespace alpa::ilp {

struct Tuning {
  struct DualBound {
    /// Cells of tables that reductions may build: beyond them a sweep costs more than they spare.
    std::int64_t cells = 1 << 14;
    /// A sweep that raises the bound by less than this share is idle; so many of them end the
    /// ascent.
    double least_rise = 1e-4;
    int idle_sweeps = 3;
  } dual_bound;

  struct DualCopies {
    /// Work of levelling a row of a copy, in cells: by itself, per set of groups, per reader in it;
    /// of pricing a state of a copy; and of a node's usages over a stretch of rows.
    double row_of_copy_cells = 25, set_cells = 12, payer_cells = 6, supply_cells = 40,
           piece_cells = 20;
  } dual_copies;

  struct Eliminate {
    /// Planning an elimination with a node per copy takes about so many cells of work per cell of
    /// the terms, as long as a few sweeps of the dual bound. Where so little is left that this is
    /// more than its share, the bound comes first.
    double planning_per_cell = 50, planning_share = 0.1;
  } eliminate;

  struct EliminationPlanner {
    /// Work of planning one elimination, per pair of its nodes.
    double planning_cells = 100;
    /// Eliminations of one size whose tables differ, at most, before those of repeated layers
    /// become periodic.
    int most_transient = 8;
  } elimination_planner;

  struct EliminationTables {
    /// Tables are computed this many cells at a time between looks at the deadline.
    std::size_t cells_at_once = 1 << 16;
  } elimination_tables;

  struct Infeasible {
    /// An explanation may take this long, or this multiple of the search before it. It does not
    /// count towards a limit of work.
    double least_seconds = 0.3, times_search = 4;
    /// How often the missing amount reported by a failure is tried.
    int claims = 2;
    /// Number of limits that may stay undecided.
    int undecided = 1;
    /// The search for the least peak ends at this relative gap.
    double close_enough = 2e-3;
  } infeasible;

  struct Ascent {
    /// sweeps without a better bound before the step shrinks
    int patience = 12;
    /// choices remembered
    std::size_t met = 8;
    /// sweeps between rounded choices that are improved at any cost
    int look = 16;
    /// The same without rows but with shared terms, where the best rounded choice is improved, too.
    int look_rare = 8;
    int repair_moves = 2000;
    double momentum = 0.8;
    /// How far the multipliers move: the change of all row prices together, as a part of the bound.
    double first_step = 0.1, smallest_step = 1e-5;
  } ascent;

  struct BoundaryBounds {
    /// Sweeps for a cell; the first starts from nothing.
    int first_sweeps = 200, sweeps = 60;
    /// Half sweeps towards the boundary afterwards: the bound stays the same, but bounds other
    /// cells more tightly.
    int handings = 8;
    /// Work to close the gap of one cell, in cells of tables; beyond it the cell keeps two bounds.
    std::int64_t closing_work = 300'000'000;
  } boundary_bounds;

  struct Branch {
    /// Work to set up and presolve the integer program, per cell of the model.
    double setup_cells = 2500;
    /// Work of an iteration of the simplex algorithm, per entry of the program.
    double iteration_cells = 10;
    /// Share of the time after which CBC ends between two nodes. At the end of all of it,
    /// relaxations end, too, and what CBC concludes from them is not used.
    double share_of_nodes = 0.9;
  } branch;

  struct Core {
    /// larger cores are left to the dual bound and to large neighbourhood search
    double branch_cells = 300'000;
    /// Larger models are not written with all copies as nodes to see whether elimination takes
    /// them.
    std::int64_t wide_cells = 3'000'000;
    /// The first step of the multipliers where good ones are known.
    double known_step = 0.01;
    /// Seconds that CBC takes before it first looks at the time, with a margin.
    double branch_seconds_per_cell = 5e-6;
    /// A proven bound and fixing take about as long as it takes to make the dual; without time for
    /// that, none.
    double dual_rounds = 4;
    /// Work of fixing, in that of a proven bound.
    double fixing = 2;
    /// Mixing the choices met takes at most this part of the time that the ascent took.
    double mix_share = 0.5;
    double first_seconds = 2, first_share = 0.1;
    /// A round of large neighbourhood search takes at least so long; with shared terms, where the
    /// dual bound is tight, the first ones are short, and CBC comes after some rounds alone.
    double least_pause = 2, first_pause = 0.25;
    int rounds_to_branch = 4;
  } core;

  struct Dive {
    int first_conflicts = 100;
    int most_conflicts = 1 << 24;
  } dive;

  struct Lagrange {
    double smallest_step = 0.01;
    int least_usages = 3;
  } lagrange;

  struct LeastExcess {
    /// by which the logarithm of a weight changes at most
    double first_rate = 3, last_rate = 0.02;
    /// sweeps without a better bound
    int patience = 10;
    /// Share of some choice's excess over the rows. A bound above it is tight enough to report how
    /// much is missing.
    double tight_enough = 0.95;
    int sweeps_to_probe = 8;
    int repair_every = 8, repair_moves = 300;
  } least_excess;

  struct LocalSearch {
    /// Work of examining a node, in addition to its costs.
    double move_cells = 50;
    /// Moves that bring a choice of the problem within the rows of the reduced model.
    int start_repair_moves = 1000;
  } local_search;

  struct Solve {
    int early_dives = 3;
    /// Share of the time while no choice is known; the rest is for finding one.
    double share_of_reductions = 0.5;
  } solve;
};

inline constexpr Tuning kTuning;

}  // namespace alpa::ilp
