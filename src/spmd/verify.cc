// src/spmd/verify.cc — checks that the specs of a partitioned program follow from its operators
#include <algorithm>
#include <functional>
#include <set>
#include <unordered_map>

#include "alpa/base/error.h"
#include "kernels/elementwise.h"
#include "rewrite.h"
#include "src/ir/members.h"
#include "src/ir/op_def.h"
#include "src/ops/all_ops.h"
#include "src/plan/evaluation/evaluate.h"
#include "src/plan/facts/strategy.h"
#include "src/spmd/einsum_group.h"
#include "src/spmd/program.h"
#include "src/tensor/elementwise_program.h"

namespace alpa::spmd {
namespace {

using Kind = AxisPlacement::Kind;

std::vector<ShardingSpec> specs_of(const SpmdProgram& program, const std::vector<int>& values) {
  std::vector<ShardingSpec> specs;
  for (int value : values) specs.push_back(program.specs[value]);
  return specs;
}

std::string listed(const std::vector<ShardingSpec>& specs) {
  std::string text;
  for (const ShardingSpec& spec : specs) text += (text.empty() ? "" : ", ") + to_string(spec);
  return text;
}

// ---- reshards

bool follows_reshard(const SpmdProgram& program, const Node& node) {
  const std::vector<std::int64_t>& axes = node.attributes.integers("axes");
  ReshardStep step{.kind = *node.op->reshard, .axes = {axes.begin(), axes.end()}, .to = {}};
  for (std::size_t i = 0; i < node.operands.size(); ++i) {
    const ShardingSpec& from = program.specs[node.operands[i]];
    step.to = program.specs[node.results[i]];
    if (node.attributes.contains("dims"))
      step.dim = static_cast<int>(node.attributes.integers("dims").at(i));
    if (gathers(step.kind)) step.from_dim = step.dim;
    if (pairwise(step.kind)) step.from_dim = static_cast<int>(node.attributes.integer("from_dim"));
    if (from == step.to || intra_op::spec_after(from, step) != step.to) return false;
  }
  return true;
}

// ---- fused nodes

/// Operand sets in which formula `op` is jointly linear, as the operator's record says.
std::vector<std::uint32_t> linear_sets(int op) {
  const auto code = static_cast<ElementwiseOp>(op);
  if (code >= ElementwiseOp::copy && code <= ElementwiseOp::cast_u8) return {0b1};
  for (const OpDef* def : all_ops())
    if (def->elementwise == op) return def->linear;
  return {};
}

/// The content of a register along one mesh axis. Zero is both whole and a partial sum.
enum class Content : std::uint8_t { whole, partial, zero, mixed };

/// A formula is zero where all operands of a linear set are, whatever the others hold.
Content result_of(const ElementwiseStep& step, const std::vector<Content>& registers) {
  std::uint32_t partial = 0, zero = 0, mixed = 0;
  const int operands[] = {step.a, step.b, step.c};
  for (int i = 0; i < 3; ++i) {
    if (operands[i] < 0) continue;
    const Content content = registers[operands[i]];
    mixed |= static_cast<std::uint32_t>(content == Content::mixed) << i;
    partial |= static_cast<std::uint32_t>(content == Content::partial) << i;
    zero |= static_cast<std::uint32_t>(content == Content::zero) << i;
  }
  const std::vector<std::uint32_t> sets = linear_sets(step.op);
  if (std::any_of(sets.begin(), sets.end(),
                  [&](std::uint32_t set) { return set && !(set & ~zero); }))
    return Content::zero;
  if (mixed) return Content::mixed;
  if (partial == 0) return Content::whole;
  for (std::uint32_t set : sets)
    if ((set & ~zero) == partial && (partial & ~set) == 0) return Content::partial;
  return Content::mixed;
}

bool partial_sums_pass(const SpmdProgram& program, const Node& node, int axis) {
  const ElementwiseProgram steps =
      parse_elementwise_program(node.attributes, static_cast<int>(node.operands.size()));
  std::vector<Content> registers;
  for (int value : node.operands)
    registers.push_back(program.specs[value].axes[axis].kind == Kind::partial ? Content::partial
                                                                              : Content::whole);
  for (double constant : steps.constants)
    registers.push_back(constant == 0 ? Content::zero : Content::whole);
  for (const ElementwiseStep& step : steps.steps) registers.push_back(result_of(step, registers));
  for (std::size_t i = 0; i < node.results.size(); ++i) {
    const bool partial = program.specs[node.results[i]].axes[axis].kind == Kind::partial;
    const Content content = registers[steps.outputs[i]];
    if (content == Content::zero) continue;
    if (content == Content::mixed || (content == Content::partial) != partial) return false;
  }
  return true;
}

ShardingSpec without_partials(ShardingSpec spec) {
  for (AxisPlacement& axis : spec.axes)
    if (axis.kind == Kind::partial) axis = {};
  return spec;
}

/// Splits as in the results wherever an operand has the dimension; partial sums only
/// through what is linear in them.
bool follows_fusion(const SpmdProgram& program, const Node& node) {
  const Rule rule = rule_of(program.graph, node);
  const ShardingSpec& spec = program.specs[node.results[0]];
  for (int value : node.results)
    if (program.specs[value] != spec) return false;
  for (std::size_t i = 0; i < node.operands.size(); ++i) {
    Strategy strategy;
    for (int axis = 0; axis < program.mesh_of(node).num_axes(); ++axis)
      if (spec.axes[axis].kind == Kind::split)
        strategy.axes[axis] = {AxisRole::Kind::factor,
                               spec.axes[axis].dim};  // factor d of a fused node is dimension d
    if (intra_op::operand_spec(rule, strategy, program.mesh_of(node), static_cast<int>(i)) !=
        without_partials(program.specs[node.operands[i]]))
      return false;
  }
  for (int axis = 0; axis < program.mesh_of(node).num_axes(); ++axis)
    if (!partial_sums_pass(program, node, axis)) return false;
  return true;
}

// ---- joint nodes

/// True if each member by itself follows a strategy.
bool follow_strategies(const SpmdProgram& program, const std::vector<Node>& members) {
  return std::all_of(members.begin(), members.end(),
                     [&](const Node& member) { return follows_a_strategy(program, member); });
}

// ---- meshes

bool follows_transfer(const SpmdProgram& program, const Node& node) {
  return !source_of(program, node).spec.is_partial() && !target_of(program, node).spec.is_partial();
}

/// Meshes have the same devices or share none; every value is on one of them.
void verify_meshes(const SpmdProgram& program) {
  std::set<int> seen;
  for (int device : devices_of(program))
    invariant(seen.insert(device).second, "partitioned program: device {} is in two meshes",
              device);
  const int meshes = static_cast<int>(program.meshes.size());
  invariant(meshes > 0 && (!program.mesh_of_value.empty() || meshes == 1),
            "partitioned program: {} meshes, and no value says on which it is", meshes);
  if (program.mesh_of_value.empty()) return;
  invariant(program.mesh_of_value.size() == program.graph.values.size(),
            "partitioned program: meshes of {} of {} values", program.mesh_of_value.size(),
            program.graph.values.size());
  for (int mesh : program.mesh_of_value)
    invariant(mesh >= 0 && mesh < meshes, "partitioned program: mesh {} of {}", mesh, meshes);
}

/// All values of a node are on one mesh, those of a transfer on two.
void verify_mesh_of(const SpmdProgram& program, const Node& node) {
  const int mesh = program.mesh_index(node.results.front());
  for (int value : node.operands)
    invariant((program.mesh_index(value) != mesh) == is_transfer(node),
              "partitioned program: \"{}\" ({}) on mesh {} reads a value on mesh {}", node.name,
              node.op->name, mesh, program.mesh_index(value));
  for (int value : node.results)
    invariant(program.mesh_index(value) == mesh,
              "partitioned program: \"{}\" ({}) is on meshes {} and {}", node.name, node.op->name,
              mesh, program.mesh_index(value));
}

/// Verifies nodes. Of equal nodes (operator, attributes, mesh, types and specs)
/// only the first is verified.
class NodeVerifier {
 public:
  explicit NodeVerifier(const SpmdProgram& program) : program_(program) {}

  void run(const Node& node) {
    verify_mesh_of(program_, node);
    const std::size_t hash = hash_of(node);
    const auto [begin, end] = verified_.equal_range(hash);
    if (std::any_of(begin, end, [&](const auto& entry) { return alike(*entry.second, node); }))
      return;
    if (!follows(node))
      bug("partitioned program: \"{}\" ({}) cannot take {} to {}", node.name, node.op->name,
          listed(specs_of(program_, node.operands)), listed(specs_of(program_, node.results)));
    verified_.emplace(hash, &node);
  }

 private:
  bool follows(const Node& node) const {
    return is_transfer(node)              ? follows_transfer(program_, node)
           : node.op->reshard             ? follows_reshard(program_, node)
           : node.op->members             ? follow_strategies(program_, members_of(node))
           : is_einsum_group(node)        ? follow_strategies(program_, members_of_group(node))
           : node.op->elementwise_program ? follows_fusion(program_, node)
                                          : follows_a_strategy(program_, node);
  }

  std::size_t hash_of(const Node& node) const {
    std::size_t hash = std::hash<const void*>()(node.op);
    const auto mix = [&](std::size_t more) {
      hash = (hash ^ more) * 0x9e3779b97f4a7c15 + (hash >> 29);
    };
    for (const auto* values : {&node.operands, &node.results})
      for (int value : *values) {
        mix(std::hash<ShardingSpec>()(program_.specs[value]));
        for (std::int64_t extent : program_.graph.type(value).shape)
          mix(static_cast<std::size_t>(extent));
      }
    return hash;
  }

  bool alike(const Node& a, const Node& b) const {
    return a.op == b.op &&
           program_.mesh_index(a.results.front()) == program_.mesh_index(b.results.front()) &&
           alike(a.operands, b.operands) && alike(a.results, b.results) &&
           a.attributes == b.attributes;
  }

  bool alike(const std::vector<int>& a, const std::vector<int>& b) const {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](int v, int w) {
      return program_.specs[v] == program_.specs[w] &&
             program_.graph.type(v) == program_.graph.type(w);
    });
  }

  const SpmdProgram& program_;
  std::unordered_multimap<std::size_t, const Node*> verified_;
};

}  // namespace

bool follows_a_strategy(const SpmdProgram& program, const Node& node, bool keeps_sum_order) {
  const Rule rule = rule_of(program.graph, node);
  const auto fits = [&](const Strategy& strategy) {
    if (keeps_sum_order && !intra_op::keeps_sum_order(rule, strategy, program.mesh_of(node)))
      return false;
    for (std::size_t i = 0; i < node.operands.size(); ++i)
      if (intra_op::operand_spec(rule, strategy, program.mesh_of(node), static_cast<int>(i)) !=
          program.specs[node.operands[i]])
        return false;
    for (std::size_t i = 0; i < node.results.size(); ++i)
      if (intra_op::result_spec(rule, strategy, program.mesh_of(node), static_cast<int>(i)) !=
          program.specs[node.results[i]])
        return false;
    return true;
  };
  const std::vector<Strategy> strategies =
      intra_op::all_strategies(rule, program.mesh_of(node), intra_op::IdleDevices::allowed);
  return std::any_of(strategies.begin(), strategies.end(), fits);
}

void verify(const SpmdProgram& program) {
  verify(program.graph);
  invariant(program.specs.size() == program.graph.values.size(),
            "partitioned program: {} specs for {} values", program.specs.size(),
            program.graph.values.size());
  verify_meshes(program);
  NodeVerifier verifier(program);
  for (const Node& node : program.graph.nodes) verifier.run(node);
  for (const Update& update : program.graph.updates)
    invariant(program.mesh_index(update.value) == program.mesh_index(update.input),
              "partitioned program: an update on mesh {} of state on mesh {}",
              program.mesh_index(update.value), program.mesh_index(update.input));
  for (const Update& update : program.graph.updates)
    if (program.specs[update.value] != program.specs[update.input])
      bug("partitioned program: \"{}\" is {} but its update is {}",
          program.graph.producer(update.input).name, to_string(program.specs[update.input]),
          to_string(program.specs[update.value]));
  for (const Metric& metric : program.graph.metrics)
    invariant(program.specs[metric.value].is_replicated(),
              "partitioned program: metric \"{}\" is {}", metric.name,
              to_string(program.specs[metric.value]));
}

}  // namespace alpa::spmd
