#pragma once
/// Tuning numbers of the choice and lowering of plans: one group per file.
#include <cstddef>
#include <cstdint>

namespace alpa {

struct CompileTuning {
  /// Seconds of work that planning may do for each of its limit. Two cores of 2021 do 0.5 to 2 in
  /// one, so that mostly the work ends planning, and not the clock.
  double work_per_second = 0.8;

  struct FitBudget {
    /// Plans that are tried under a moved limit before giving up.
    int attempts = 10;
    /// Limits differ by at least this part of the budget; from the second refusal on, they rise by
    /// more and more of the second part, up to the third above the budget.
    std::int64_t least_part = 200, least_rise = 100, most_rise = 10;
  } fit_budget;

  struct Lowering {
    /// Time kept for lowering what searches find: a share of the time for planning or, for a large
    /// graph, a multiple of the time that tracing took, but no more than the last share.
    /// bench_planning measures 2.6 to 8 times for MLPs of 96 to 3000 layers and GPT-like stacks of
    /// 24 and 96.
    double share = 0.15, of_tracing = 8, most_share = 0.5;
  } lowering;

  struct Copies {
    /// Share of all devices' memory that state, sums of gradients and copies of parameters may
    /// take, if copies are to be kept.
    double most_share = 0.6;
  } copies;

  struct MicroBatches {
    /// Share of the work in which the step is traced for further numbers of micro-batches.
    double tracing_share = 0.5;
    /// Limit of the very first plan in processor time, as a multiple of that on the clock, but at
    /// least so many seconds: what the stages of a large step take.
    double first_plan_limit = 3, first_plan_least = 15;
    /// Share of the work after which no further equal stages are planned for a guess.
    double guess_share = 0.4;
    /// The best guess of the other kind, with layers computed again or without, is tried second if
    /// it is at most so many times the best.
    double near_guess = 1.2;
    /// Variants planned at the same time: any number of cores finds the same plan.
    std::size_t searches_at_once = 2;
    /// Stages may take this share of their guess times the least ratio of what others took to their
    /// guess, which counts as so much at most: some lack the memory that their guess supposed.
    double guess_error = 0.85, most_of_guess = 1.1;
    /// Share of the work that a search without any plan so far may be ahead of others.
    double lead_share = 0.05;
    /// Nodes from which on a step is large: each number takes a second before its search begins.
    /// Only so many are tried then, by guesses, and so many further numbers, by their bounds.
    std::size_t large_nodes = 4000, most_of_large = 4, more_of_large = 2;
    /// Share of the work after which, without any plan, the one that takes least memory goes on.
    double until_frugal = 0.1;
    /// Lowered plans that take up to so many times the seconds that were searched for are taken.
    double as_expected = 1.1;
    /// Up to so many nodes of a step, other variants are lowered as long as they may take less, and
    /// every set of so many layers may be computed again.
    std::size_t small_nodes = 400, few_layers = 3;
    /// Share of the work after which, without better stages, the searches end.
    double patience = 0.25;
    /// Share of the work for bounds on all variants of a large step, so many times: before the
    /// searches, and when they end. Behind them bounds have what is left on the clock: these change
    /// no plan.
    double proof_share = 0.12;
    int most_looks = 3;
    /// They begin if the clock leaves so many times what tracing the variants took.
    double tracings_of_proof = 1.5;
    /// Nodes of a step up to which there are bounds before the searches: every number is traced.
    std::size_t proof_nodes = 20'000;
    /// Share of the work to choose a number and whether layers are computed again. The rest finds
    /// out how few of them suffice.
    double remat_share = 0.6;
    /// Share of the work of a large step for stages some of which keep what their layers compute.
    /// They are sought from variants on whose stages take up to so many times the best.
    double by_stage_share = 0.2, near_by_stage = 1.2;
    /// Numbers in a row that are no better, after which no further one is planned.
    int worse_in_a_row = 2;
  } micro_batches;
};

inline constexpr CompileTuning kCompileTuning;

}  // namespace alpa
