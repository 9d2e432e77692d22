// src/lower/step_counts.cc — counts the kernels of a step, their bytes and FLOPs, by kind
#include "src/lower/step_counts.h"

#include <algorithm>
#include <functional>
#include <map>
#include <tuple>

#include "src/ir/op_def.h"
#include "src/ir/rule.h"
#include "src/lower/side_by_side.h"

namespace alpa::lower {
namespace {

using Kind = Instruction::Kind;

/// Takes the parts of the factors that a device has from its part of one tensor. Of a compound
/// dimension the major factor is split.
void take_local(Rule& rule, const DimFactors& dims, const Shape& local, const Shape& whole) {
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if (dims[d].empty() || local[d] == whole[d]) continue;
    std::int64_t& size = rule.factors[dims[d].front()].size;
    size = std::min(size, std::max<std::int64_t>(size * local[d] / whole[d], local[d] > 0));
  }
}

/// The rule of a node for what the device computes of it.
Rule local_rule(const Graph& graph, const Node& node, const DeviceProgram& device,
                const Instruction& instruction) {
  Rule rule = rule_of(graph, node);
  const auto take = [&](const std::vector<DimFactors>& tensors, const std::vector<int>& buffers) {
    for (std::size_t i = 0; i < tensors.size() && i < buffers.size(); ++i) {
      const Buffer& buffer = device.buffers[buffers[i]];
      if (buffer.type.rank() == static_cast<int>(tensors[i].size()))
        take_local(rule, tensors[i], buffer.type.shape, buffer.global_shape);
    }
  };
  take(rule.operands, instruction.inputs);
  take(rule.results, instruction.outputs);
  return rule;
}

std::vector<TensorType> types_of(const DeviceProgram& device, const std::vector<int>& buffers) {
  std::vector<TensorType> types;
  for (int buffer : buffers) types.push_back(device.buffers[buffer].type);
  return types;
}

double bytes_of(const DeviceProgram& device, const std::vector<int>& buffers) {
  double bytes = 0;
  for (const TensorType& type : types_of(device, buffers))
    bytes += static_cast<double>(type.bytes());
  return bytes;
}

double message_bytes(const DeviceProgram& device, const Instruction& send) {
  const TensorType box{device.buffers[send.inputs[0]].type.dtype, send.message.extent};
  return static_cast<double>(box.bytes());
}

void add(KindCount& sum, const KindCount& one, std::int64_t times) {
  sum.launches += times * one.launches;
  sum.in_micro_batches += times * one.in_micro_batches;
  sum.bytes += static_cast<double>(times) * one.bytes;
  sum.flops += static_cast<double>(times) * one.flops;
  sum.seconds += static_cast<double>(times) * one.seconds;
}

}  // namespace

std::optional<KindCount> count_of(const Graph& graph, const DeviceProgram& device,
                                  const Instruction& instruction, const cost::CostModel& model) {
  const auto [kind, n, inputs, outputs] =
      std::tie(instruction.kind, instruction.node, instruction.inputs, instruction.outputs);
  if (kind == Kind::load || kind == Kind::wait || kind == Kind::receive) return {};
  const std::string name(name_of(kind));
  if (kind == Kind::send) return KindCount{name, 1, 0, message_bytes(device, instruction), 0};
  const double bytes = bytes_of(device, inputs) + bytes_of(device, outputs);
  if (kind == Kind::collective || kind == Kind::start)
    return KindCount{std::string(name_of(instruction.call.kind)), 1, 0, bytes, 0};
  if (kind != Kind::compute) {
    const double bandwidth = model.device.memory_bytes_per_second;
    return KindCount{name, 1,
                     0,    bytes,
                     0,    (bandwidth > 0 ? bytes / bandwidth : 0) + model.device.launch_seconds};
  }
  const Node& node = graph.nodes[n];
  const Rule rule = local_rule(graph, node, device, instruction);
  const std::vector<TensorType> read = types_of(device, inputs), made = types_of(device, outputs);
  const std::int64_t launches = launches_of(device, graph, instruction);
  const double more = static_cast<double>(launches - 1) * model.device.launch_seconds;
  return KindCount{std::string(node.op->name),
                   launches,
                   0,
                   cost::operator_bytes(rule, {}, read, made, DeviceMesh()),
                   flops(rule),
                   cost::operator_seconds(rule, {}, read, made, DeviceMesh(), model) + more};
}

std::vector<KindCount> count_step(const spmd::SpmdProgram& program, const DeviceProgram& device,
                                  const cost::CostModel& model) {
  std::map<std::string, KindCount> by_kind;
  for (int l = 0; l < static_cast<int>(device.lists.size()); ++l)
    for (const Instruction& instruction : device.lists[l].instructions) {
      std::optional<KindCount> one = count_of(program.graph, device, instruction, model);
      if (!one) continue;
      const bool repeated =
          instruction.node >= 0 && program.graph.nodes[instruction.node].region != Region::apply;
      one->in_micro_batches = repeated ? 1 : 0;
      add(by_kind.try_emplace(one->kind, KindCount{one->kind}).first->second, *one,
          runs_of(device, l));
    }
  std::vector<KindCount> rows;
  for (const auto& [kind, count] : by_kind) rows.push_back(count);
  std::ranges::stable_sort(rows, std::greater<>(), &KindCount::launches);
  return rows;
}

KindCount total_of(const std::vector<KindCount>& rows) {
  KindCount all{"all"};
  for (const KindCount& row : rows) add(all, row, 1);
  return all;
}

}  // namespace alpa::lower
