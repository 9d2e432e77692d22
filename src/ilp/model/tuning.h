#pragma once
/// What the solver spends: one group per file. Cells are reads of entries of cost
/// tables, the measure of work (model/deadline.h); shares are fractions of the time or work left.
#include <cstddef>
#include <cstdint>

namespace alpa::ilp {

struct Tuning {
  struct Deadline {
    /// After the time limit, this long for a first choice: seconds of this thread's processor, so
    /// that a busy machine does not take them away. An answer is due one second after the limit.
    double grace_seconds = 0.5;
  } deadline;

  struct Dual {
    /// Work of a sweep, in cells: per strategy and row of nodes, per node, per edge; and per line
    /// of an edge's table and strategy of its ends, for edges with and without lines by row.
    double total_cells = 4, node_cells = 100, edge_cells = 50;
    /// The same per strategy where there are rows, for its weight.
    double weight_cells = 8;
    double row_line_cells = 3, row_strategy_cells = 10, line_cells = 10, strategy_cells = 20;
    /// Work of a proven bound, per cell of the edges' tables.
    double exact_cells = 15;
  } dual;

  struct DualBound {
    /// Cells of tables that reductions may build: beyond them a sweep costs more than they spare.
    std::int64_t cells = 1 << 14;
    /// A sweep that raises the bound by less than this share is idle; so many of them end the
    /// ascent.
    double least_rise = 1e-4;
    int idle_sweeps = 3;
    /// Sweeps before the first is followed further; how many times its way, at most; and the
    /// factor on that where the bound fell. Of 1.5 to 4 times, 2 raised bounds of MoE and
    /// Wide-ResNet layers most in 12 sweeps, as far as 24 to 40 sweeps did.
    int first_sweeps = 3;
    double most_times = 2, shorter = 0.75;
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
    /// Steps of minimisations, and cells of all tables, per cell of the largest table allowed.
    double steps_per_cell = 256, tables = 16;
    /// Reductions, and the elimination before the dual bound, may build tables of these parts of
    /// the largest: fixing makes later ones smaller.
    std::int64_t reduction_part = 16, first_part = 32;
  } eliminate;

  struct EliminationPlanner {
    /// Work of planning one elimination, per pair of its nodes.
    double planning_cells = 100;
    /// Cells that a step may read, as a multiple of the largest table.
    double read_cells = 16;
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
    /// The search for the least peak ends at this relative gap.
    double close_enough = 2e-3;
  } infeasible;

  struct Ascent {
    /// sweeps without a better bound that end an ascent without rows
    int patience = 12;
    /// choices remembered
    std::size_t met = 8;
    /// Sweeps between rounded choices that are repaired; moves of a repair, fewer with copies or
    /// where rows alone matter. Every other one is improved at any cost.
    int repair_every = 8, repair_moves = 2000, few_repair_moves = 300;
    /// Rounded choices are improved up to this multiple of the best cost.
    double near_best = 1.1;
    /// A bound is better from this share on.
    double least_rise = 1e-7;
    double momentum = 0.9;
    /// How far the multipliers move: the change of all row prices together, as a part of the bound.
    /// Within an ascent the step falls evenly in its logarithm, to this part over its sweeps.
    double first_step = 0.1, fall = 4;
    /// From one ascent to the next the step shrinks by a factor, to the least.
    double shrink = 0.4, least_step = 0.001;
    /// The temperature of the mean excess, as a multiple of the step: in bounds per node.
    double temperature = 10;
    /// Sweeps of the first ascent: few fix most of a chain-like model. Later ones grow by a factor.
    int first_sweeps = 32, more_sweeps = 4;
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
    /// Share of the time that CBC gets, and share of that after which it ends between two nodes. At
    /// the end of all of it, relaxations end, too, and what CBC concludes from them is not used.
    double share = 0.9;
    /// CBC gets at least so long, and tries so many times to branch on a variable before it
    /// believes what it has seen.
    double least_seconds = 0.05;
    int before_trust = 10;
    /// Rounds in which rows that the relaxation exceeds are added.
    int row_rounds = 30;
  } branch;

  struct Core {
    /// larger cores are left to the dual bound and to large neighbourhood search
    double branch_cells = 300'000;
    /// The first step of the multipliers where good ones are known.
    double known_step = 0.01;
    /// The bound goes on while a round leaves less than this part of the strategies or of the gap.
    double worth_again = 0.9;
    /// Seconds that CBC takes before it first looks at the time, with a margin.
    double branch_seconds_per_cell = 5e-6;
    /// With a node per copy, a model may have this part of the cells.
    double branch_part_with_copies = 0.1;
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
    /// Dives for a first choice before the dual bound.
    int first_dives = 4;
  } core;

  struct Dive {
    int first_conflicts = 100;
    int most_conflicts = 1 << 24;
  } dive;

  struct LargeNeighbourhoods {
    /// A part takes this long at most. Its size, in nodes, shrinks and grows so that it takes
    /// between a sixth and half of that.
    double longest_seconds = 3;
    double first_size = 60, least_size = 8, shrink = 0.8, grow = 1.05;
    /// Work of looking at the whole choice once, per node and row.
    double node_cells = 20;
    int dual_sweeps = 60;
    /// Rows of which the one with the least slack is taken.
    int row_draws = 8;
  } large_neighbourhoods;

  struct LeastExcess {
    /// by which the logarithm of a weight changes at most
    double first_rate = 3, last_rate = 0.02, shrink = 0.5;
    /// Weights are at least this part of the largest.
    double least_weight = 1e-6;
    /// sweeps without a better bound
    int patience = 10;
    /// Share of some choice's excess over the rows. A bound above it is tight enough to report how
    /// much is missing.
    double tight_enough = 0.95;
  } least_excess;

  struct LocalSearch {
    /// Work of examining a node, in addition to its costs; of finding that it uses nothing at a
    /// row.
    double move_cells = 50, use_cells = 10;
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
