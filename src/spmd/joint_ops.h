#pragma once
/// Conversion between single nodes and joint nodes that stand for several (`OpDef::members`).
#include <vector>

#include "alpa/spmd/program.h"

namespace alpa {

/// The joint operator of `single`, or nullptr.
const OpDef* joint_of(const OpDef& single);

/// One joint node for these members, which have one operator, equal attributes and shared operands.
Node joined(const std::vector<const Node*>& members);

/// The members of a joint node as single nodes.
std::vector<Node> members_of(const Node& node);

}  // namespace alpa
