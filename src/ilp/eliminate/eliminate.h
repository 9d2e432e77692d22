#pragma once
/// Exact elimination of whole components, whatever the degrees of their nodes.
#include "src/ilp/model/model.h"

namespace alpa::ilp {

/// Solves every component without usages whose elimination, in the order of smallest tables first,
/// builds no table of more than `cells` cells, with 256 times as many steps in total. Repeated
/// layers share steps: tables that differ by a constant are one.
/// What is left is eliminated with a node per copy in place of shared terms, if nothing is left of
/// it then. Throws Contradiction.
void eliminate(Model& model, std::int64_t cells, const Deadline& deadline);

}  // namespace alpa::ilp
