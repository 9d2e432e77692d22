// src/ops/all_ops.cc — look-up of operators by name
#include "src/ops/all_ops.h"

#include "alpa/ir/graph.h"

namespace alpa {

std::span<const OpDef* const> all_ops() { return ops::kAll; }

const OpDef* find_op(std::string_view name) {
  for (const OpDef* op : ops::kAll)
    if (op->name == name) return op;
  return nullptr;
}

int elementwise_code(const Node& node) {
  return node.op->elementwise_of ? node.op->elementwise_of(node.attributes) : node.op->elementwise;
}

}  // namespace alpa
