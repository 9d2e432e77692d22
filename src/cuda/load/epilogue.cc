// src/cuda/load/epilogue.cc — loads einsum_epilogue: one product if cuBLASLt
// supports the epilogue, else an einsum and a kernel
#include <fmt/core.h>

#include <cstdio>

#include "kernels/cuda/epilogue_plan.h"
#include "kernels/cuda/relu_mask.h"
#include "src/cuda/einsum.h"
#include "src/cuda/loads.h"
#include "src/cuda/trial.h"

namespace alpa::cuda {
namespace {

constexpr std::int64_t kBitsPerByte = 8;

EpilogueBuffers buffers_of(const Epilogue& epilogue, const KernelCall& call) {
  EpilogueBuffers buffers;
  if (epilogue.bias) buffers.vector = call.inputs[2].data;
  if (epilogue.sums_of >= 0) buffers.vector = call.outputs[1].data;
  if (epilogue.gradient) buffers.kept = call.inputs[2].data;
  if (epilogue.keep) buffers.kept = call.outputs[1].data;
  if (epilogue.add) buffers.addend = call.inputs.back().data;
  return buffers;
}

/// Where the product is made, which is the result unless an addend comes later.
std::byte* product_of(const EpilogueSteps& steps, const KernelCall& call) {
  return steps.before_addend == kNowhere ? call.outputs[0].data
                                         : call.workspace + steps.before_addend;
}

/// (product[, bias or kept][, addend]) → (z[, kept]).
struct ElementwisePart {
  Launch launch;
  std::vector<int> inputs;  ///< of the node, behind the product
  KernelCall call = {};

  void point(const KernelCall& now, std::byte* product) {
    call.inputs[0].data = product;
    for (std::size_t i = 0; i < inputs.size(); ++i)
      call.inputs[i + 1].data = now.inputs[inputs[i]].data;
    for (std::size_t o = 0; o < call.outputs.size(); ++o)
      call.outputs[o].data = now.outputs[o].data;
  }
};

Launch load_elementwise_part(const OpDef& op, const EpilogueSteps& steps, const KernelCall& call,
                             const Gpu& card) {
  Epilogue epilogue = steps.epilogue;
  epilogue.add = steps.before_addend != kNowhere;
  epilogue.sums_of = -1;
  const ElementwiseProgram program = epilogue_program(epilogue, call.outputs[0].type.dtype);
  const auto part = std::make_shared<ElementwisePart>();
  if (epilogue.bias || epilogue.gradient) part->inputs.push_back(2);
  if (epilogue.add) part->inputs.push_back(static_cast<int>(call.inputs.size()) - 1);
  part->call.inputs = {call.outputs[0]};
  for (int input : part->inputs) part->call.inputs.push_back(call.inputs[input]);
  part->call.outputs.assign(call.outputs.begin(),
                            call.outputs.begin() + static_cast<int>(program.outputs.size()));
  part->launch = load_program(op.name, program, part->call, card);
  return [part, steps](const KernelCall& now, Stream stream) {
    part->point(now, product_of(steps, now));
    part->launch(part->call, stream);
  };
}

Launch load_sums(const EpilogueSteps& steps) {
  return [sums = *steps.sums, operand = steps.epilogue.sums_of, scratch = steps.sums_workspace](
             const KernelCall& now, Stream stream) {
    check_queued(run_reduce(sums, now.inputs[operand].data, now.outputs[1].data,
                            now.workspace + scratch, stream),
                 "sums of an einsum's operand");
  };
}

/// The kernel that computes z of the product; null if that is z.
Launch load_rest(const OpDef& op, const EpilogueSteps& steps, const KernelCall& call,
                 const Gpu& card) {
  Epilogue epilogue = steps.epilogue;
  epilogue.sums_of = -1;
  if (epilogue == steps.of_product_apart()) return nullptr;
  const bool relu = epilogue.function == Epilogue::Function::relu;
  if (relu && epilogue.gradient)
    return [](const KernelCall& now, Stream stream) {
      const KernelTensor &z = now.outputs[0], &bits = now.inputs[2];
      check_queued(
          run_apply_relu_mask(z.type.dtype, bits.type.elements(), bits.data, z.data, stream),
          "relu's gradient");
    };
  if (relu && epilogue.keep)
    return [biased = epilogue.bias](const KernelCall& now, Stream stream) {
      const KernelTensor &z = now.outputs[0], &bits = now.outputs[1];
      const KernelTensor* const bias = biased ? &now.inputs[2] : nullptr;
      check_queued(
          run_relu_mask(z.type.dtype, bits.type.elements(), biased ? bias->data : nullptr,
                        biased ? bias->type.elements() : kBitsPerByte, z.data, bits.data, stream),
          "relu and its bits");
    };
  return load_elementwise_part(op, steps, call, card);
}

/// Null if cuBLASLt has no algorithm for it, or, told on stderr, calls it invalid. The latter is an
/// Error where no other form is allowed.
Launch load_joint(const OpDef& op, const EpilogueSteps& steps, const KernelCall& call,
                  const Gpu& card) {
  std::shared_ptr<const EinsumLaunch> joint;
  try {
    joint = EinsumLaunch::load(op.name, steps.einsum, call, card, steps.of_product);
  } catch (const InvalidMatmul& error) {
    if (card.epilogues == EpilogueForm::joint) throw;
    fmt::print(stderr, "alpa: {}; the epilogue is computed apart\n", error.what());
  }
  if (joint == nullptr) return nullptr;
  return [joint, epilogue = steps.epilogue](const KernelCall& now, Stream stream) {
    joint->run(now, now.outputs[0].data, buffers_of(epilogue, now), stream);
  };
}

Launch load_apart(const OpDef& op, const EpilogueSteps& steps, const KernelCall& call,
                  const Gpu& card) {
  return [steps,
          einsum = EinsumLaunch::load(op.name, steps.einsum, call, card, steps.of_product_apart()),
          rest = load_rest(op, steps, call, card),
          sums = steps.sums ? load_sums(steps) : nullptr](const KernelCall& now, Stream stream) {
    einsum->run(now, product_of(steps, now), buffers_of(steps.of_product_apart(), now), stream);
    if (rest) rest(now, stream);
    if (sums) sums(now, stream);
  };
}

/// Whether the product may have the epilogue here. cuBLASLt's relu may lose a
/// NaN; its gradient reads bits. An addend alone is the same product either way.
bool may_be_joint(const EpilogueSteps& steps, const Gpu& card) {
  if (steps.epilogue.is_plain()) return false;
  const bool loses_nan = steps.epilogue.function == Epilogue::Function::relu &&
                         !steps.epilogue.gradient && card.keeps_nan;
  return steps.joint && !loses_nan && card.epilogues != EpilogueForm::apart;
}

/// Times both with random operands: true also if the joint one is refused. Nothing without memory
/// for that.
std::optional<bool> is_faster_unfused(const EpilogueSteps& steps, KernelCall call,
                                      const Launch& joint, const Launch& apart) {
  std::int64_t bytes = steps.scratch_bytes;
  for (const auto* tensors : {&call.inputs, &call.outputs})
    for (const KernelTensor& tensor : *tensors) bytes += tensor.type.bytes();
  std::optional<Trial> trial = Trial::of(bytes);
  if (!trial) return std::nullopt;
  for (auto* tensors : {&call.inputs, &call.outputs})
    for (KernelTensor& tensor : *tensors)
      tensor.data = trial->random(tensor.type.dtype, tensor.type.elements());
  call.workspace = trial->scratch(steps.scratch_bytes);
  return trial->prefers([&](Stream stream) { apart(call, stream); },
                        [&](Stream stream) { joint(call, stream); });
}

/// `joint`, or a separate product and kernel if these were measured to be faster. Measures now
/// if that was not done yet.
Launch faster_of(const OpDef& op, const EpilogueSteps& steps, const KernelCall& call,
                 const Gpu& card, const MatmulProblem& product, Launch joint) {
  if (card.products->is_faster_unfused(product) == false) return joint;
  Launch apart = load_apart(op, steps, call, card);
  if (card.sources != nullptr) return apart;
  const std::optional<bool> faster = is_faster_unfused(steps, call, joint, apart);
  if (faster) card.products->remember_form(product, *faster);
  return faster == true ? apart : joint;
}

}  // namespace

Launch load_einsum_epilogue(const OpDef& op, const KernelCall& call, const Gpu& card) {
  const EpilogueSteps steps = plan_epilogue(call);
  if (!may_be_joint(steps, card)) return load_apart(op, steps, call, card);
  const bool measured = card.epilogues == EpilogueForm::automatic && card.products->measures();
  const MatmulProblem product = product_shape(steps.einsum, steps.of_product);
  if (measured && card.products->is_faster_unfused(product) == true)
    return load_apart(op, steps, call, card);  // the joint one needs no measuring of its algorithms
  const Launch joint = load_joint(op, steps, call, card);
  if (joint != nullptr) return measured ? faster_of(op, steps, call, card, product, joint) : joint;
  require(card.epilogues != EpilogueForm::joint,
          "{}: cuBLASLt has no algorithm for the product {} on this card", op.name,
          to_string(product));
  return load_apart(op, steps, call, card);
}

}  // namespace alpa::cuda
