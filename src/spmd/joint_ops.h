#pragma once
/// From single nodes to joint ones (`OpDef::members`) and back.
#include <vector>

#include "alpa/spmd/program.h"

namespace alpa {

/// The operator whose nodes stand for several of `single`, or nullptr.
const OpDef* joint_of(const OpDef& single);

/// One node for all of these, which are of one operator with a joint one, of equal attributes and shared
/// operands.
Node joined(const std::vector<const Node*>& members);

/// The members of a joint node as single nodes.
std::vector<Node> members_of(const Node& node);

}  // namespace alpa
