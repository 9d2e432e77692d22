// kernels/cpu/einsum_epilogue.cc — einsum_epilogue: runs the kernels of einsum, elementwise
// programs and reductions in sequence; the reference for fused kernels of other backends

#include "kernels/cpu/block_io.h"
#include "kernels/cpu/kernels.h"
#include "kernels/plan/einsum_plan.h"
#include "kernels/plan/epilogue.h"
#include "src/base/thread_team.h"

namespace alpa::cpu {
namespace {

/// A kernel's call within ours; its tensors are some of ours.
struct InnerCall {
  const KernelDef* kernel;
  Attributes attributes;
  /// operands of ours; kResult and up: results; kScratch and up: tensors in the workspace
  std::vector<int> inputs, outputs;
  std::int64_t workspace = 0;    ///< where its scratch begins
  mutable KernelCall call = {};  ///< a call belongs to one thread
};
constexpr int kResult = 16, kScratch = 32;

/// A tensor in the workspace.
struct Scratch {
  KernelTensor tensor;
  std::int64_t offset;
};

struct Prepared {
  Epilogue epilogue;
  std::vector<InnerCall> parts;
  std::vector<Scratch> scratch;
  std::int64_t workspace_bytes = 0;

  std::int64_t take(std::int64_t bytes) {
    const std::int64_t offset = workspace_bytes;
    workspace_bytes += (bytes + 63) / 64 * 64;
    return offset;
  }
};

const KernelTensor& tensor_of(const Prepared& prepared, const KernelCall& call, int which) {
  if (which >= kScratch) return prepared.scratch.at(which - kScratch).tensor;
  return which >= kResult ? call.outputs.at(which - kResult) : call.inputs.at(which);
}

std::byte* data_of(const Prepared& prepared, const KernelCall& call, int which) {
  return which >= kScratch ? call.workspace + prepared.scratch[which - kScratch].offset
                           : tensor_of(prepared, call, which).data;
}

/// A tensor in the workspace, like result `result` but of this type. Returns its number.
int scratch_like(Prepared& prepared, const KernelCall& call, int result, DType dtype) {
  KernelTensor tensor = call.outputs.at(result);
  tensor.type.dtype = dtype;
  prepared.scratch.push_back({tensor, prepared.take(tensor.type.bytes())});
  return kScratch + static_cast<int>(prepared.scratch.size()) - 1;
}

void add_part(Prepared& prepared, const KernelCall& call, InnerCall part) {
  part.call.threads = call.threads;
  part.call.attributes = &part.attributes;
  for (int which : part.inputs) part.call.inputs.push_back(tensor_of(prepared, call, which));
  for (int which : part.outputs) part.call.outputs.push_back(tensor_of(prepared, call, which));
  if (part.kernel->prepare) part.call.prepared = part.kernel->prepare(part.call);
  part.workspace =
      prepared.take(part.kernel->workspace_bytes ? part.kernel->workspace_bytes(part.call) : 0);
  part.call.attributes = nullptr;  // the part moves; what it says has been read
  prepared.parts.push_back(std::move(part));
}

/// The sums, rounded to the operand's type as if they were stored.
void add_sums(Prepared& prepared, const KernelCall& call) {
  const int operand = prepared.epilogue.sums_of;
  const DType stored = call.inputs[operand].type.dtype;
  const bool converted = call.outputs.at(1).type.dtype != stored;
  const int sums = converted ? scratch_like(prepared, call, 1, stored) : kResult + 1;
  const std::vector<std::int64_t> axes =
      kernels::summed_dims(call.attributes->string("equation"), operand);
  add_part(prepared, call, {&reduce<ReduceOp::sum>, {{"axes", axes}}, {operand}, {sums}});
  if (!converted) return;
  ElementwiseProgram copy;
  copy.num_inputs = 1;
  copy.steps = {{static_cast<int>(ElementwiseOp::copy), 0, -1, -1}};
  copy.outputs = {1};
  add_part(prepared, call, {&fused, to_attributes(copy), {sums}, {kResult + 1}});
}

/// What an elementwise program computes of the product, which is `product`.
void add_elementwise(Prepared& prepared, const KernelCall& call, int product) {
  const Epilogue& epilogue = prepared.epilogue;
  const DType stored = call.inputs[0].type.dtype;
  InnerCall part{&fused, to_attributes(epilogue_program(epilogue, stored)), {product}, {kResult}};
  for (int input = 2; input < static_cast<int>(call.inputs.size()); ++input)
    part.inputs.push_back(input);
  if (epilogue.keep && epilogue.function == Epilogue::Function::gelu)
    part.outputs.push_back(kResult + 1);
  add_part(prepared, call, std::move(part));
}

/// The result may be in the addend's place, so the product is made in the workspace then.
std::shared_ptr<const Prepared> prepare(const KernelCall& call) {
  auto prepared = std::make_shared<Prepared>();
  const Epilogue epilogue = prepared->epilogue =
      parse_epilogue(call.attributes->string("epilogue"));
  const std::string& equation = call.attributes->string("equation");
  const int product =
      epilogue.add ? scratch_like(*prepared, call, 0, call.inputs[0].type.dtype) : kResult;
  add_part(*prepared, call, {&einsum, {{"equation", equation}}, {0, 1}, {product}});
  if (epilogue.sums_of >= 0) add_sums(*prepared, call);
  const bool reads_bits = epilogue.gradient && epilogue.function == Epilogue::Function::relu;
  if (!reads_bits && (epilogue.sums_of < 0 || epilogue.add))
    add_elementwise(*prepared, call, product);
  return prepared;
}

/// visit(byte of the bits, element number of its first bit) for all bytes of `bits`.
template <class Visit>
void for_each_byte(const KernelCall& call, const KernelTensor& bits, const Visit& visit) {
  call.team->for_each(bits.type.elements(), 4096,
                      [&](std::int64_t i) { visit(bits.data[i], 8 * i); });
}

void keep_relu_mask(const KernelCall& call) {
  const KernelTensor& z = call.outputs[0];
  for_each_byte(call, call.outputs[1], [&](std::byte& bits, std::int64_t first) {
    double values[8];  // reads every type
    load_block(values, z.data, z.type.dtype, first, 8);
    unsigned set = 0;
    for (unsigned i = 0; i < 8; ++i) set |= static_cast<unsigned>(values[i] > 0) << i;
    bits = static_cast<std::byte>(set);
  });
}

void apply_relu_mask(const KernelCall& call) {
  const KernelTensor& z = call.outputs[0];
  for_each_byte(call, call.inputs[2], [&](std::byte bits, std::int64_t first) {
    double values[8];  // reads every type
    load_block(values, z.data, z.type.dtype, first, 8);
    for (unsigned i = 0; i < 8; ++i)
      if ((std::to_integer<unsigned>(bits) >> i & 1) == 0) values[i] = 0;
    store_block(z.data, z.type.dtype, first, values, 8);
  });
}

void run(const KernelCall& call) {
  const Prepared& prepared = *static_cast<const Prepared*>(call.prepared.get());
  for (const InnerCall& part : prepared.parts) {
    for (std::size_t i = 0; i < part.inputs.size(); ++i)
      part.call.inputs[i].data = data_of(prepared, call, part.inputs[i]);
    for (std::size_t o = 0; o < part.outputs.size(); ++o)
      part.call.outputs[o].data = data_of(prepared, call, part.outputs[o]);
    part.call.workspace = call.workspace + part.workspace;
    part.call.team = call.team;
    part.kernel->run(part.call);
  }
  if (prepared.epilogue.function != Epilogue::Function::relu) return;
  if (prepared.epilogue.keep) keep_relu_mask(call);
  if (prepared.epilogue.gradient) apply_relu_mask(call);
}

std::shared_ptr<const void> prepare_call(const KernelCall& call) { return prepare(call); }

std::int64_t workspace_of(const KernelCall& call) {
  if (call.prepared) return static_cast<const Prepared*>(call.prepared.get())->workspace_bytes;
  return prepare(call)->workspace_bytes;
}

}  // namespace

const KernelDef einsum_epilogue{run, prepare_call, workspace_of};

}  // namespace alpa::cpu
