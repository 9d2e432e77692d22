// src/spmd/fixed_sums.cc — checks that a partitioned program can add in the one order of all plans
#include <algorithm>
#include <bit>

#include "alpa/base/error.h"
#include "rewrite.h"
#include "src/ir/op_def.h"
#include "src/ops/all_ops.h"
#include "src/plan/facts/strategy.h"
#include "src/spmd/program.h"

namespace alpa::spmd {
namespace {

/// True if a reduction adds over the last axes over which its operands are partial: the devices
/// along them hold neighbouring parts.
bool reduces_in_order(const SpmdProgram& program, const Node& node) {
  std::uint32_t axes = 0;
  for (std::int64_t axis : node.attributes.integers("axes")) axes |= 1u << axis;
  return std::all_of(node.operands.begin(), node.operands.end(), [&](int value) {
    std::uint32_t partial = 0;
    for (int axis = 0; axis < kMaxMeshAxes; ++axis)
      if (program.specs[value].axes[axis].kind == AxisPlacement::Kind::partial)
        partial |= 1u << axis;
    return (partial & ~axes) < std::bit_floor(axes & ~(axes - 1));
  });
}

/// True if each element of the result is made of one element of each operand, or of none.
bool adds_nothing(const Node& node) {
  return node.op == &ops::input || elementwise_code(node) >= 0 ||
         (node.op->reshard && !is_reduction(node));
}

void require_known_type(const SpmdProgram& program, const Node& node) {
  if (adds_nothing(node)) return;
  for (int value : node.results) {
    const DType dtype = program.graph.type(value).dtype;
    require(
        !is_floating(dtype) || dtype == f32,
        "reproducible: \"{}\" ({}) is {}; sums have one order in f32 alone, so leave other types "
        "and mixed precision out",
        node.name, node.op->name, name_of(dtype));
  }
}

void require_own_sums(const SpmdProgram& program, const Graph& whole) {
  for (const Input& input : program.graph.inputs)
    require(
        input.kind != InputKind::accumulator ||
            std::any_of(whole.inputs.begin(), whole.inputs.end(),
                        [&](const Input& other) { return other.name == input.name; }),
        "reproducible: \"{}\" would be added up by several stages, each over all micro-batches; "
        "use one micro-batch, or have all readers of its parameter in one stage",
        input.name);
}

}  // namespace

SpmdProgram with_fixed_sums(SpmdProgram program, const Graph& whole) {
  require_own_sums(program, whole);
  for (const Node& node : program.graph.nodes) {
    require_known_type(program, node);
    const bool ordered = is_transfer(node)    ? true
                         : is_reduction(node) ? reduces_in_order(program, node)
                         : node.op->reshard   ? true
                                              : follows_a_strategy(program, node, true);
    require(ordered,
            "reproducible: the plan adds up \"{}\" ({}) in an order of its own; plan the step with "
            "reproducible set",
            node.name, node.op->name);
  }
  program.fixed_sums = true;
  return program;
}

}  // namespace alpa::spmd
