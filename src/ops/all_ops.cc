// The list of all operators, and the formulas of elementwise ones.
#include "src/ops/all_ops.h"

#include "alpa/ir/graph.h"

namespace alpa {

std::span<const OpDef* const> all_ops() { return ops::kAll; }

int elementwise_code(const Node& node) {
  return node.op->elementwise_of ? node.op->elementwise_of(node.attributes) : node.op->elementwise;
}

}  // namespace alpa
