#pragma once
/// Branch and bound on what the reductions leave: CBC on the local polytope in equality form.
#include <optional>

#include "src/ilp/model/model.h"
#include "src/ilp/model/options.h"

namespace alpa::ilp {

struct Branched {
  /// of the live nodes: costs less than the cutoff and keeps the rows
  std::optional<std::vector<int>> choice;
  Cost bound = -kNever;  ///< no choice costs less; without the model's constant
  /// the search finished: nothing is better than `choice`, or than the cutoff if there is none
  bool closed = false;
};

/// Searches the best choice that costs less than `cutoff` (none: any choice). Usage rows are added
/// when a solution violates them. Uses CbcModel alone, which is safe in several threads at once.
/// Throws Error where alpa is built without CBC (`has_cbc`).
Branched branch(Model model, std::optional<Cost> cutoff, const Deadline& deadline,
                Statistics& statistics);

/// False where alpa is built without CBC: searches end with what is known before it.
bool has_cbc();

}  // namespace alpa::ilp
