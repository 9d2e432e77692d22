// kernels/cpu/einsum_epilogue.cc — einsum_epilogue: runs the kernels of einsum, elementwise
// programs and reductions in sequence; the reference for fused kernels of other backends
#include <optional>

#include "alpa/base/error.h"
#include "kernels/cpu/block_io.h"
#include "kernels/cpu/kernels.h"
#include "kernels/plan/einsum_plan.h"
#include "kernels/plan/epilogue.h"
#include "src/base/thread_team.h"

namespace alpa::cpu {
namespace {

/// A kernel's call within ours; its tensors are some of ours.
struct Part {
  const KernelDef* kernel;
  Attributes attributes;
  std::vector<int> inputs, outputs;  ///< operands of ours; kResult and up: results
  std::int64_t workspace = 0;        ///< where its scratch begins
  mutable KernelCall call = {};      ///< a call belongs to one thread
};
constexpr int kResult = 16;

struct Prepared {
  Epilogue epilogue;
  std::vector<Part> parts;
  std::int64_t workspace_bytes = 0;
};

const KernelTensor& tensor_of(const KernelCall& call, int which) {
  return which >= kResult ? call.outputs.at(which - kResult) : call.inputs.at(which);
}

void add_part(Prepared& prepared, const KernelCall& call, Part part) {
  part.call.threads = call.threads;
  part.call.attributes = &part.attributes;
  for (int which : part.inputs) part.call.inputs.push_back(tensor_of(call, which));
  for (int which : part.outputs) part.call.outputs.push_back(tensor_of(call, which));
  if (part.kernel->prepare) part.call.prepared = part.kernel->prepare(part.call);
  part.workspace = prepared.workspace_bytes;
  if (part.kernel->workspace_bytes)
    prepared.workspace_bytes += (part.kernel->workspace_bytes(part.call) + 63) / 64 * 64;
  part.call.attributes = nullptr;  // the part moves; what it says has been read
  prepared.parts.push_back(std::move(part));
}

std::shared_ptr<const Prepared> prepare(const KernelCall& call) {
  auto prepared = std::make_shared<Prepared>();
  const Epilogue epilogue = prepared->epilogue =
      parse_epilogue(call.attributes->string("epilogue"));
  const std::string& equation = call.attributes->string("equation");
  add_part(*prepared, call, {&einsum, {{"equation", equation}}, {0, 1}, {kResult}});
  if (epilogue.sums_of >= 0) {
    const std::vector<std::int64_t> axes = kernels::summed_dims(equation, epilogue.sums_of);
    add_part(*prepared, call,
             {&reduce<ReduceOp::sum>, {{"axes", axes}}, {epilogue.sums_of}, {kResult + 1}});
  }
  const bool reads_bits = epilogue.gradient && epilogue.function == Epilogue::Function::relu;
  if (epilogue.sums_of >= 0 || reads_bits) return prepared;
  const ElementwiseProgram program = epilogue_program(epilogue, call.outputs[0].type.dtype);
  Part elementwise{&fused, to_attributes(program), {kResult}, {kResult}};
  if (program.num_inputs == 2) elementwise.inputs.push_back(2);
  if (program.outputs.size() == 2) elementwise.outputs.push_back(kResult + 1);
  add_part(*prepared, call, std::move(elementwise));
  return prepared;
}

/// visit(byte of the bits, element number of its first bit) for all bytes of `bits`.
template <class Visit>
void for_each_byte(const KernelCall& call, const KernelTensor& bits, const Visit& visit) {
  call.team->parallel_for(bits.type.elements(), 4096, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) visit(bits.data[i], 8 * i);
  });
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
  for (const Part& part : prepared.parts) {
    for (std::size_t i = 0; i < part.inputs.size(); ++i)
      part.call.inputs[i].data = tensor_of(call, part.inputs[i]).data;
    for (std::size_t o = 0; o < part.outputs.size(); ++o)
      part.call.outputs[o].data = tensor_of(call, part.outputs[o]).data;
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
