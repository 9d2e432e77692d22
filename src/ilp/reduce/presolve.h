#pragma once
/// The exact reductions on a model, each as one function, and their fixpoint.
#include <optional>

#include "src/ilp/model/model.h"
#include "src/ilp/model/options.h"

namespace alpa::ilp {

/// Moves row and column minima of `edge` to its nodes. Returns true if the edge is zero afterwards.
bool project(Model& model, int edge);

/// Strategies of `node` with a finite cost and a finite partner across every edge, ascending.
std::vector<int> supported_strategies(const Model& model, int node);

/// If every strategy of `node` has exactly one finite partner across `edge`: these partners.
std::optional<std::vector<int>> function_across(const Model& model, int edge, int node);

/// Merges the other end of `edge` into `node`; its choice becomes `partner[choice of node]`.
void absorb(Model& model, int edge, int node, const std::vector<int>& partner);

/// Strategies of `node` that are left when strategies which another one replaces at no loss are
/// dropped, ascending. At the deadline those not yet compared are kept.
std::vector<int> undominated_strategies(const Model& model, int node, const Deadline& deadline);

/// Eliminates a node with at most one neighbour, or with two, by min-plus, if that is exact.
/// Returns success; false at the deadline.
bool eliminate_leaf(Model& model, int node, const Deadline& deadline);
bool eliminate_between(Model& model, int node, std::int64_t cells, const Deadline& deadline);

/// Applies the reductions that are switched on until none changes anything or the deadline
/// passes. Throws Contradiction.
void presolve(Model& model, const Options& options, const Deadline& deadline);

}  // namespace alpa::ilp
