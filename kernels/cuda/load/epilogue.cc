// kernels/cuda/load/epilogue.cc — loads einsum_epilogue: one product if cuBLASLt
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

std::byte* vector_of(const Epilogue& epilogue, const KernelCall& call) {
  if (epilogue.bias) return call.inputs[2].data;
  return epilogue.sums_of >= 0 ? call.outputs[1].data : nullptr;
}

std::byte* kept_of(const Epilogue& epilogue, const KernelCall& call) {
  if (epilogue.gradient) return call.inputs[2].data;
  return epilogue.keep ? call.outputs[1].data : nullptr;
}

/// (z, bias or kept) → (z, kept) in z's place.
struct ElementwisePart {
  Launch launch;
  KernelCall call = {};

  void point(const KernelCall& now) {
    call.inputs[0].data = call.outputs[0].data = now.outputs[0].data;
    if (call.inputs.size() == 2) call.inputs[1].data = now.inputs[2].data;
    if (call.outputs.size() == 2) call.outputs[1].data = now.outputs[1].data;
  }
};

Launch load_elementwise_part(const OpDef& op, const Epilogue& epilogue, const KernelCall& call,
                             const Gpu& card) {
  const ElementwiseProgram program = epilogue_program(epilogue, call.outputs[0].type.dtype);
  const auto part = std::make_shared<ElementwisePart>();
  part->call.inputs = {call.outputs[0]};
  part->call.outputs = {call.outputs[0]};
  if (program.num_inputs == 2) part->call.inputs.push_back(call.inputs[2]);
  if (program.outputs.size() == 2) part->call.outputs.push_back(call.outputs[1]);
  part->launch = load_program(op.name, program, part->call, card);
  return [part](const KernelCall& now, Stream stream) {
    part->point(now);
    part->launch(part->call, stream);
  };
}

/// The kernel after the einsum.
Launch load_rest(const OpDef& op, const EpilogueSteps& steps, const KernelCall& call,
                 const Gpu& card) {
  const Epilogue& epilogue = steps.epilogue;
  if (steps.sums)
    return [sums = *steps.sums, operand = epilogue.sums_of, scratch = steps.sums_workspace](
               const KernelCall& now, Stream stream) {
      check_queued(run_reduce(sums, now.inputs[operand].data, now.outputs[1].data,
                              now.workspace + scratch, stream),
                   "sums of an einsum's operand");
    };
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
  return load_elementwise_part(op, epilogue, call, card);
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
    joint->run(now, vector_of(epilogue, now), kept_of(epilogue, now), stream);
  };
}

Launch load_apart(const OpDef& op, const EpilogueSteps& steps, const KernelCall& call,
                  const Gpu& card) {
  return [einsum = EinsumLaunch::load(op.name, steps.einsum, call, card),
          rest = load_rest(op, steps, call, card)](const KernelCall& now, Stream stream) {
    einsum->run(now, nullptr, nullptr, stream);
    rest(now, stream);
  };
}

/// Whether the product may have the epilogue here. cuBLASLt's relu may lose a
/// NaN; its gradient reads bits.
bool may_be_joint(const EpilogueSteps& steps, const Gpu& card) {
  const bool loses_nan = steps.epilogue.function == Epilogue::Function::relu &&
                         !steps.epilogue.gradient && card.keeps_nan;
  return steps.joint && !loses_nan && card.epilogues != EpilogueForm::apart;
}

/// Times both with random operands; nothing without memory for that.
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
  const Trial::Outcome outcome = trial->run(
      {[&](Stream stream) { joint(call, stream); }, [&](Stream stream) { apart(call, stream); }});
  require(outcome.refusal.empty(), "{}", outcome.refusal);
  return outcome.fastest == 1;
}

/// `joint`, or a separate product and kernel if these were measured to be faster. Measures now
/// if that was not done yet.
Launch faster_of(const OpDef& op, const EpilogueSteps& steps, const KernelCall& call,
                 const Gpu& card, const MatmulProblem& product, Launch joint) {
  if (card.products->is_faster_unfused(product) == false) return joint;
  Launch apart = load_apart(op, steps, call, card);
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
