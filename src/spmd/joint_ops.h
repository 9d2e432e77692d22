#pragma once
/// The joint optimizer updates: operands are the states of all members, one member after the other, then
/// their gradients, then the scalars that they share; results are the new states.
#include <optional>
#include <vector>

#include "alpa/spmd/program.h"

namespace alpa {

struct JointUpdate {
  const OpDef *single, *joint;
  std::size_t states;   ///< of a member: operands that become results
  std::size_t scalars;  ///< operands behind the gradients
};

/// What joint operator `op` is made of; nothing for others.
std::optional<JointUpdate> joint_update(const OpDef& op);

/// What updates of operator `single` join to; nothing for others.
std::optional<JointUpdate> joint_update_of(const OpDef& single);

/// The members of a joint update as single nodes.
std::vector<Node> members_of(const Node& node);

}  // namespace alpa
