#pragma once
/// The search on the reduced model: bound, rounding, fixing, branching, large neighbourhood search.
#include "src/ilp/model/model.h"
#include "src/ilp/model/options.h"

namespace alpa::ilp {

struct CoreSolution {
  /// of the live nodes of the model; empty: none cheaper than the cutoff was found
  std::vector<int> choice;
  Cost cost = kNever;    ///< with the model's constant; the cutoff if there is no choice
  Cost bound = -kNever;  ///< with the model's constant
  std::map<std::int64_t, double> usage_prices = {};  ///< as in Solution
};

/// Best choice of the live nodes that costs less than `cutoff` (kNever: any). `start`: such a
/// choice to begin with, or nothing. Throws Contradiction if there is none.
CoreSolution solve_core(const Model& model, Cost cutoff, std::vector<int> start,
                        const Options& options, const Deadline& deadline, Statistics& statistics);

/// The options for models that are solved inside a search: without large neighbourhood
/// search, cutoff and progress.
Options inner_options(Options options);

/// A choice of all nodes of `model` that costs less than `cutoff`, constants included,
/// by reductions, elimination and `solve_core`; empty: none was found. Throws
/// Contradiction if there is none.
std::vector<int> solve_inner(Model model, Cost cutoff, const Options& options,
                             const Deadline& deadline);

}  // namespace alpa::ilp
