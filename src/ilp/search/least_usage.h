#pragma once
/// A lower bound on the usage of every choice at one row.
#include "src/ilp/model/model.h"
#include "src/ilp/model/options.h"

namespace alpa::ilp {

/// The model without rows in which a choice costs what it uses at `row`, beyond
/// what the slack leaves out.
Model usage_at(const Model& model, int row);

struct LeastUsage {
  /// proven: every choice uses this much, beyond what the slack leaves out
  Cost bound = -kNever;
  std::vector<int> choice;  ///< of the live nodes, that uses little there; empty: none was found
};

/// Rows apart, the model is usually solved at once. Throws Contradiction if
/// there is no choice at all.
LeastUsage least_usage(const Model& model, int row, const Options& options,
                       const Deadline& deadline);

}  // namespace alpa::ilp
