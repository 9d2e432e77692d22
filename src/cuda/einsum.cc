// src/cuda/einsum.cc — loads and queues the steps of an einsum
#include "einsum.h"

#include <numeric>

#include "kernels/elementwise.h"
#include "loads.h"

namespace alpa::cuda {
namespace {

std::int64_t bytes_of(DType dtype) { return static_cast<std::int64_t>(size_of(dtype)); }

KernelTensor line_of(DType dtype, std::int64_t elements) {
  return {nullptr, {dtype, {elements}}, {0}, {elements}};
}

/// Common alignment of all pointers of the repeated product.
std::int64_t alignment_of(const EinsumSteps& steps) {
  std::int64_t alignment = kScratchAlignment;
  for (const kernels::BatchDim& dim : steps.outer) {
    alignment = std::gcd(alignment, std::gcd(dim.a, dim.b) * bytes_of(steps.operands));
    alignment = std::gcd(alignment, dim.c * bytes_of(steps.product_type));
  }
  return alignment;
}

}  // namespace

MatmulProblem product_shape(const EinsumSteps& steps, const Epilogue& epilogue) {
  return {.matrices = steps.shape,
          .operands = steps.operands,
          .result = steps.product_type,
          .workspace_bytes = steps.workspace_bytes,
          .alignment = alignment_of(steps),
          .epilogue = epilogue};
}

void EinsumLaunch::Pass::run(std::initializer_list<std::byte*> inputs, std::byte* output,
                             Stream stream) const {
  std::size_t i = 0;
  for (std::byte* input : inputs) call.inputs[i++].data = input;
  call.outputs[0].data = output;
  launch(call, stream);
}

std::shared_ptr<const EinsumLaunch> EinsumLaunch::load(std::string_view op,
                                                       const EinsumSteps& steps,
                                                       const KernelCall& call, const Gpu& card,
                                                       const Epilogue& epilogue) {
  const std::shared_ptr<EinsumLaunch> loaded(new EinsumLaunch(steps));
  const auto load_pass = [&](Pass& pass, ElementwiseProgram program) {
    pass.launch = load_program(op, std::move(program), pass.call, card);
  };
  const auto load_conversion = [&](Pass& pass, DType from, DType to, std::int64_t elements) {
    pass.call.inputs = {line_of(from, elements)};
    pass.call.outputs = {line_of(to, elements)};
    ElementwiseProgram copy;  // storing converts
    copy.num_inputs = 1;
    copy.outputs = {0};
    load_pass(pass, copy);
  };
  if (steps.kind == EinsumSteps::Kind::multiply) {
    MultiplyCall m = multiply_call(steps, call);
    loaded->a_.call = std::move(m.call);
    load_pass(loaded->a_, std::move(m.program));
  }
  if (steps.kind != EinsumSteps::Kind::product) return loaded;
  for (const auto& [pass, operand] :
       {std::pair(&loaded->a_, &steps.a), std::pair(&loaded->b_, &steps.b)})
    if (operand->converted != kNowhere && !operand->sum)
      load_conversion(*pass, call.inputs[operand->input].type.dtype, steps.operands,
                      operand->elements);
  const TensorType& z = call.outputs[0].type;
  if (z.dtype != steps.product_type)
    load_conversion(loaded->result_, steps.product_type, z.dtype, z.elements());
  if (card.sources != nullptr) return loaded;
  invariant(card.products != nullptr, "{}: the card has no matrix products", op);
  const MatmulProblem shape = product_shape(steps, epilogue);
  loaded->product_ = card.products->load(shape, card.node);
  if (loaded->product_) return loaded;
  require(!epilogue.is_plain(), "{}: cuBLASLt has no algorithm for the product {} on this card", op,
          to_string(shape));
  return nullptr;
}

std::byte* EinsumLaunch::bring(const KernelCall& call, const OperandSteps& o,
                               const Pass& conversion, Stream stream) const {
  std::byte* data = call.inputs[o.input].data;
  std::byte* const converted = call.workspace + o.converted;
  if (o.sum)
    check_queued(run_reduce(*o.sum, data, converted, call.workspace + o.sum_workspace, stream),
                 "sum of an einsum's operand");
  else if (o.converted != kNowhere)
    conversion.run({data}, converted, stream);
  if (o.converted != kNowhere) data = converted;
  if (!o.pack) return data;
  check_queued(run_copy(*o.pack, data, call.workspace + o.packed, stream),
               "packing an einsum's operand");
  return call.workspace + o.packed;
}

void EinsumLaunch::multiply(const KernelCall& call, std::byte* result,
                            const EpilogueBuffers& epilogue, Stream stream) const {
  const std::byte* const a = bring(call, steps_.a, a_, stream);
  const std::byte* const b = bring(call, steps_.b, b_, stream);
  std::byte* const c = steps_.product == kNowhere ? result : call.workspace + steps_.product;
  std::byte* const workspace = aligned(call.workspace + steps_.workspace, kProductAlignment);
  std::int64_t count = 1;
  for (const kernels::BatchDim& dim : steps_.outer) count *= dim.extent;
  for (std::int64_t i = 0; i < count; ++i) {
    const kernels::BatchOffsets at = kernels::batch_offsets(steps_.outer, i);
    const std::int64_t offset = at.c * bytes_of(steps_.product_type);
    product_->run({.a = a + at.a * bytes_of(steps_.operands),
                   .b = b + at.b * bytes_of(steps_.operands),
                   .c = c + offset,
                   .vector = epilogue.vector,
                   .kept = epilogue.kept,
                   .addend = epilogue.addend ? epilogue.addend + offset : nullptr},
                  workspace, stream);
  }
}

void EinsumLaunch::deliver(const KernelCall& call, std::byte* z, Stream stream) const {
  const bool convert = call.outputs[0].type.dtype != steps_.product_type;
  std::byte* made = steps_.product == kNowhere ? z : call.workspace + steps_.product;
  if (steps_.unpack) {
    std::byte* const to = convert ? call.workspace + steps_.unpacked : z;
    check_queued(run_copy(*steps_.unpack, made, to, stream), "unpacking an einsum's result");
    made = to;
  }
  if (convert) result_.run({made}, z, stream);
}

void EinsumLaunch::run(const KernelCall& call, std::byte* result, const EpilogueBuffers& epilogue,
                       Stream stream) const {
  const TensorType& z = call.outputs[0].type;
  switch (steps_.kind) {
    case EinsumSteps::Kind::nothing: return;
    case EinsumSteps::Kind::zeros:
      return check_queued(run_fill(result, z.dtype, z.elements(), 0, stream), "zeros");
    case EinsumSteps::Kind::multiply:
      return a_.run({call.inputs[0].data, call.inputs[1].data}, result, stream);
    case EinsumSteps::Kind::product:
      multiply(call, result, epilogue, stream);
      return deliver(call, result, stream);
  }
}

Launch load_einsum(const OpDef& op, const KernelCall& call, const Gpu& card) {
  const EinsumSteps steps = plan_einsum_steps(call);
  return [einsum = EinsumLaunch::load(op.name, steps, call, card)](const KernelCall& now,
                                                                   Stream stream) {
    einsum->run(now, now.outputs[0].data, {}, stream);
  };
}

}  // namespace alpa::cuda
