#pragma once
/// Shared costs inside the solver: their form in the model, their replacement by plain edges where
/// possible, and their form with a node per copy, which every exact method supports.
#include "src/ilp/model/model.h"

namespace alpa::ilp {

/// Adds the problem's shared costs to a model of which `kept` names the strategies of every node.
void add_terms(const Problem& problem, const std::vector<std::vector<int>>& kept, Model& model);

bool has_terms(const Model& model);

/// Replaces every term of whose columns none can be wanted by two readers any more by edges, and
/// drops readers to whom all is free. True if a node lost a term.
bool settle_terms(Model& model);

/// True if a node with the ends of `gone` may take them over: no term would have its source
/// and a reader at one node.
bool can_take_ends(const Model& model, int node, int gone);

/// Moves the ends of `gone` to `node`, whose strategy p implies the strategy partner[p] of `gone`.
void take_ends(Model& model, int node, int gone, const std::vector<int>& partner);

/// Adds to `part`, a model of the nodes whose `position` there is not negative, what a term of the
/// whole costs in it while all other nodes keep their `choice`.
void add_part_of_term(Model& part, const SharedTerm& term, const std::vector<int>& position,
                      const std::vector<int>& choice);

/// The same model without terms: a node for the row of each source and the column of each reader,
/// and one of two states for each column that several readers can want: absent, or made. Choices of
/// the new nodes come after the others.
Model with_copies(const Model& model);

}  // namespace alpa::ilp
