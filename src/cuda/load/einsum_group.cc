// src/cuda/load/einsum_group.cc — loads einsum_group: one batched product if its tensors lie
// side by side, else its members one after another
#include <fmt/core.h>

#include <algorithm>
#include <cstdio>

#include "kernels/cuda/einsum_group_plan.h"
#include "src/cuda/einsum.h"
#include "src/cuda/loads.h"
#include "src/cuda/trial.h"

namespace alpa::cuda {
namespace {

const std::vector<KernelTensor>& tensors_of(const KernelCall& call, const TensorRow& row) {
  return row.results ? call.outputs : call.inputs;
}

/// Elements from each tensor of a row to the next; nullopt if they do not lie side by side.
std::optional<std::int64_t> stride_of(const KernelCall& call, const TensorRow& row) {
  const std::optional<std::int64_t> distance = distance_in(call, row);
  if (!distance) return std::nullopt;
  const auto size = static_cast<std::int64_t>(size_of(tensors_of(call, row)[row.first].type.dtype));
  return *distance % size == 0 ? std::optional(*distance / size) : std::nullopt;
}

/// The rows of a call and what they are to the product.
struct RowStrides {
  std::int64_t y = 0, z = 0, vector = 0, addend = 0;
};

std::optional<RowStrides> strides_of(const EinsumGroup& group, const KernelCall& call) {
  std::vector<std::int64_t> strides;
  for (const TensorRow& row : rows_of(group)) {
    const std::optional<std::int64_t> stride = stride_of(call, row);
    if (!stride) return std::nullopt;
    strides.push_back(*stride);
  }
  std::size_t next = 0;
  RowStrides result{.y = strides[next++]};
  if (group.epilogue.bias) result.vector = strides[next++];
  if (group.epilogue.add) result.addend = strides[next++];
  result.z = strides[next++];
  if (group.epilogue.sums_of >= 0) result.vector = strides[next++];
  return result;
}

/// All members as a batch whose shared operand has stride 0; nullopt if they cannot be one.
std::optional<MatmulProblem> problem_of(const EinsumGroupSteps& steps, const KernelCall& call) {
  if (!steps.joint) return std::nullopt;
  const std::optional<RowStrides> strides = strides_of(steps.group, call);
  if (!strides || (steps.group.epilogue.add && strides->addend != strides->z)) return std::nullopt;
  const bool swapped = steps.member.einsum.plan.swapped;
  MatmulProblem problem = product_shape(steps.member.einsum, steps.member.of_product);
  problem.matrices.batch = {{static_cast<std::int64_t>(steps.group.members),
                             swapped ? strides->y : 0, swapped ? 0 : strides->y, strides->z}};
  problem.workspace_bytes = steps.workspace_bytes;
  problem.vector_stride = strides->vector;
  return problem;
}

MatmulBuffers group_buffers(const EinsumGroupSteps& steps, const KernelCall& call) {
  const Epilogue& epilogue = steps.group.epilogue;
  const std::size_t n = steps.group.members;
  std::byte *const x = call.inputs[0].data, *const y = call.inputs[1].data;
  const bool swapped = steps.member.einsum.plan.swapped;
  MatmulBuffers buffers{.a = swapped ? y : x, .b = swapped ? x : y, .c = call.outputs[0].data};
  if (epilogue.bias) buffers.vector = call.inputs[1 + n].data;
  if (epilogue.sums_of >= 0) buffers.vector = call.outputs[n].data;
  if (epilogue.add) buffers.addend = call.inputs[call.inputs.size() - n].data;
  return buffers;
}

Launch load_members(const OpDef& op, const EinsumGroupSteps& steps, const KernelCall& call,
                    const Gpu& card) {
  const auto members = std::make_shared<MemberCalls>(steps.group, call);
  return [members, launch = load_einsum_epilogue(op, members->calls.front(), card)](
             const KernelCall& now, Stream stream) {
    for (const KernelCall& member : members->of(now)) launch(member, stream);
  };
}

/// Null if cuBLASLt has no algorithm for it, or, told on stderr, calls it invalid.
Launch load_one_product(const EinsumGroupSteps& steps, const MatmulProblem& problem,
                        const Gpu& card) {
  std::shared_ptr<const Matmul> product;
  try {
    if (std::optional<Matmul> loaded = card.products->load(problem, card.node))
      product = std::make_shared<const Matmul>(std::move(*loaded));
  } catch (const InvalidMatmul& error) {
    fmt::print(stderr, "alpa: {}; its products are queued one by one\n", error.what());
  }
  if (product == nullptr) return nullptr;
  return [product, steps](const KernelCall& now, Stream stream) {
    product->run(group_buffers(steps, now), aligned(now.workspace, kProductAlignment), stream);
  };
}

/// Whether the members one after another are faster than the one product, or that is refused;
/// nothing without memory to measure it.
std::optional<bool> is_faster_apart(const EinsumGroupSteps& steps, KernelCall call,
                                    const Launch& joint, const Launch& apart) {
  const std::int64_t members = static_cast<std::int64_t>(steps.group.members);
  const std::vector<TensorRow> rows = rows_of(steps.group);
  std::int64_t bytes = call.inputs[0].type.bytes() + steps.scratch_bytes;
  for (const TensorRow& row : rows) bytes += members * *distance_in(call, row);
  std::optional<Trial> trial = Trial::of(bytes);
  if (!trial) return std::nullopt;
  const TensorType& x = call.inputs[0].type;
  call.inputs[0].data = trial->random(x.dtype, x.elements());
  for (const TensorRow& row : rows) {
    std::vector<KernelTensor>& tensors = row.results ? call.outputs : call.inputs;
    const std::int64_t distance = *distance_in(call, row), stride = *stride_of(call, row);
    std::byte* const data = trial->random(tensors[row.first].type.dtype, members * stride);
    for (std::int64_t m = 0; m < members; ++m)
      tensors[row.first + static_cast<std::size_t>(m)].data = data + m * distance;
  }
  call.workspace = trial->scratch(steps.scratch_bytes);
  return trial->prefers([&](Stream stream) { apart(call, stream); },
                        [&](Stream stream) { joint(call, stream); });
}

/// A product has cuBLASLt's epilogue unless that may lose a NaN here, or is forbidden.
bool may_be_one_product(const EinsumGroupSteps& steps, const Gpu& card) {
  if (steps.group.epilogue.is_plain()) return true;
  const bool loses_nan =
      steps.group.epilogue.function == Epilogue::Function::relu && card.keeps_nan;
  return !loses_nan && card.epilogues != EpilogueForm::apart;
}

}  // namespace

Launch load_einsum_group(const OpDef& op, const KernelCall& call, const Gpu& card) {
  const EinsumGroupSteps steps = plan_einsum_group(call);
  const std::optional<MatmulProblem> problem = problem_of(steps, call);
  if (!problem || !may_be_one_product(steps, card) || card.sources != nullptr)
    return load_members(op, steps, call, card);
  const bool measured = card.epilogues == EpilogueForm::automatic && card.products->measures();
  std::optional<bool> apart;
  if (measured) apart = card.products->is_faster_unfused(*problem);
  Launch joint = apart == true ? nullptr : load_one_product(steps, *problem, card);
  if (joint == nullptr) return load_members(op, steps, call, card);
  if (!measured || apart) return joint;
  Launch members = load_members(op, steps, call, card);
  apart = is_faster_apart(steps, call, joint, members);
  if (apart) card.products->remember_form(*problem, *apart);
  return apart == true ? members : joint;
}

}  // namespace alpa::cuda
