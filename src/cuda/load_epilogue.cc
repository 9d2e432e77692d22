// einsum_epilogue: in one product where cuBLASLt has it, else an einsum and what follows it.
#include "einsum.h"
#include "kernels/cuda/bits.h"
#include "kernels/cuda/epilogue_plan.h"
#include "loads.h"

namespace alpa::cuda {
namespace {

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
                             const Card& card) {
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

/// What follows the einsum.
Launch load_rest(const OpDef& op, const EpilogueSteps& steps, const KernelCall& call, const Card& card) {
  const Epilogue& epilogue = steps.epilogue;
  if (steps.sums)
    return [sums = *steps.sums, operand = epilogue.sums_of, scratch = steps.sums_workspace](
               const KernelCall& now, Stream stream) {
      check_queued(
          run_reduce(sums, now.inputs[operand].data, now.outputs[1].data, now.workspace + scratch, stream),
          "sums of an einsum's operand");
    };
  const bool relu = epilogue.function == Epilogue::Function::relu;
  if (relu && epilogue.gradient)
    return [](const KernelCall& now, Stream stream) {
      const KernelTensor &z = now.outputs[0], &bits = now.inputs[2];
      check_queued(run_apply_bits(z.type.dtype, bits.type.elements(), bits.data, z.data, stream),
                   "relu's gradient");
    };
  const Launch elementwise = load_elementwise_part(op, epilogue, call, card);
  if (!(relu && epilogue.keep)) return elementwise;
  return [elementwise](const KernelCall& now, Stream stream) {
    elementwise(now, stream);
    const KernelTensor &z = now.outputs[0], &bits = now.outputs[1];
    check_queued(run_keep_bits(z.type.dtype, bits.type.elements(), z.data, bits.data, stream),
                 "bits of relu");
  };
}

/// Null if cuBLASLt has no algorithm for it.
Launch load_joint(const OpDef& op, const EpilogueSteps& steps, const KernelCall& call, const Card& card) {
  const auto joint = EinsumLaunch::load(op.name, steps.einsum, call, card, steps.of_product);
  if (joint == nullptr) return nullptr;
  return [joint, epilogue = steps.epilogue](const KernelCall& now, Stream stream) {
    joint->run(now, vector_of(epilogue, now), kept_of(epilogue, now), stream);
  };
}

Launch load_apart(const OpDef& op, const EpilogueSteps& steps, const KernelCall& call, const Card& card) {
  return [einsum = EinsumLaunch::load(op.name, steps.einsum, call, card),
          rest = load_rest(op, steps, call, card)](const KernelCall& now, Stream stream) {
    einsum->run(now, nullptr, nullptr, stream);
    rest(now, stream);
  };
}

}  // namespace

Launch load_einsum_epilogue(const OpDef& op, const KernelCall& call, const Card& card) {
  const EpilogueSteps steps = plan_epilogue(call);
  if (!steps.joint || card.epilogues == EpilogueForm::apart) return load_apart(op, steps, call, card);
  Launch joint = load_joint(op, steps, call, card);
  if (joint != nullptr) return joint;
  require(card.epilogues != EpilogueForm::joint,
          "{}: cuBLASLt has no algorithm for \"{}\" in {} on this card", op.name,
          to_string(steps.of_product), name_of(steps.einsum.operands));
  return load_apart(op, steps, call, card);
}

}  // namespace alpa::cuda
