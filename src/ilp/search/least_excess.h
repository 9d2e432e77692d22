#pragma once
/// Whether the rows leave room for any choice at all, costs aside.
#include "src/ilp/model/model.h"
#include "src/ilp/model/options.h"

namespace alpa::ilp {

struct LeastExcess {
  Cost bound = -kNever;     ///< proven: every choice exceeds some row by this much
  std::int64_t time = 0;    ///< of the row that counts most
  std::vector<int> choice;  ///< of the live nodes; keeps all rows; empty: none was found
};

/// Ascends the dual bound of the largest excess: rows are weighted, the weights sum to one, and
/// rows that rounded choices exceed most gain weight. After a few sweeps, what every choice uses at
/// the weightiest row is mostly a better bound. Ends with a choice, or with the bound when it
/// stalls or is good enough to be told (Options::explain).
LeastExcess least_excess(const Model& model, const std::vector<double>& weights,
                         const Options& options, const Deadline& deadline);

}  // namespace alpa::ilp
