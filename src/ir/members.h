#pragma once
/// Nodes of variadic operators (`OpDef::members`): their members, and one node for several.
#include <vector>

#include "alpa/ir/graph.h"
#include "src/ir/op_def.h"

namespace alpa {

/// The number of members of a node of variadic operator `op` with so many operands; 0 if no
/// number of members has so many.
std::size_t num_members(const OpDef& op, std::size_t operands);

/// The rule of a node of a variadic operator: the notation's rule for each member, with factors of
/// its own. Throws Error on bad operands.
Rule rule_of_members(const OpDef& op, const OpQuery& query);

/// The number of operands of a node that its first results replace: the states of all members.
std::size_t num_states(const Node& node);

/// The members of a node as nodes of one member each.
std::vector<Node> members_of(const Node& node);

/// One node with the members of all `nodes`, which have one operator, equal
/// attributes and shared operands.
Node joined(const std::vector<const Node*>& nodes);

}  // namespace alpa
