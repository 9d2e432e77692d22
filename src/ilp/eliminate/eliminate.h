#pragma once
/// Exact elimination of whole components, whatever the degrees of their nodes.
#include "src/ilp/model/model.h"

namespace alpa::ilp {

/// Solves every component without usages whose elimination, in the order of smallest tables first,
/// builds no table of more than `cells` cells, with 256 times as many steps in total. Repeated
/// layers share steps: tables that differ by a constant are one. Components with larger tables are
/// tried once more, with a node per copy in place of shared terms, and kept as they were if even so
/// some are too large. Throws Contradiction.
void eliminate(Model& model, std::int64_t cells, const Deadline& deadline);

}  // namespace alpa::ilp
