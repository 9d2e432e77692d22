// kernels/cuda/einsum_plan.cc — divides an einsum into conversion, packing, matrix products and
// unpacking, with their scratch memory
#include "kernels/cuda/einsum_plan.h"

#include <algorithm>
#include <memory>

#include "alpa/base/error.h"
#include "kernels/cuda/rounded_up.h"
#include "kernels/elementwise.h"

namespace alpa::cuda {
namespace {

/// Hands out parts of the workspace.
class Workspace {
 public:
  std::int64_t take(std::int64_t bytes) {
    const std::int64_t offset = size_;
    size_ += rounded_up(bytes, kScratchAlignment);
    return offset;
  }
  std::int64_t size() const { return size_; }

 private:
  std::int64_t size_ = 0;
};

bool is_half(DType dtype) { return dtype == bf16 || dtype == f16; }
bool is_product_type(DType dtype) { return dtype == f32 || dtype == f64 || is_half(dtype); }

/// The types that cuBLASLt multiplies as they are; all else goes through f32,
/// or f64 if a type is wide.
void choose_types(EinsumSteps& steps, DType x, DType y, DType z) {
  const bool summed = !steps.plan.a.summed.empty() || !steps.plan.b.summed.empty();
  const bool direct = x == y && is_product_type(x) && (z == x || (z == f32 && is_half(x))) &&
                      !(summed && is_half(x));
  steps.operands = direct ? x : needs_double(x) || needs_double(y) || needs_double(z) ? f64 : f32;
  steps.product_type = direct ? z : steps.operands;
}

CopyLaunch copy_between(const kernels::EinsumPlan& plan, const std::string& from,
                        const std::string& to, DType dtype) {
  const std::vector<std::int64_t> extents = kernels::extents_of(plan, to),
                                  x = kernels::strides_of(plan, from, to),
                                  y = kernels::strides_of(plan, to, to);
  CopyLaunch launch;
  require(plan_copy(launch, static_cast<int>(size_of(dtype)), static_cast<int>(extents.size()),
                    extents.data(), x.data(), y.data()),
          "einsum: bringing letters {} into the order {} has more than {} dimensions", from, to,
          kMaxDims);
  return launch;
}

ReduceLaunch sum_of(const kernels::EinsumPlan& plan, const std::string& letters,
                    const std::string& summed, DType from, DType to) {
  const std::vector<std::int64_t> extents = kernels::extents_of(plan, letters);
  const auto reduce = std::make_unique<bool[]>(letters.size() + 1);
  for (std::size_t d = 0; d < letters.size(); ++d)
    reduce[d] = summed.find(letters[d]) != std::string::npos;
  ReduceLaunch launch;
  require(plan_reduce(launch, ReduceOp::sum, from, to, static_cast<int>(letters.size()),
                      extents.data(), reduce.get()),
          "einsum: the sum of letters {} over {} has more than {} dimensions", letters, summed,
          kMaxDims);
  return launch;
}

OperandSteps operand_steps(const EinsumSteps& steps, const kernels::EinsumOperand& operand,
                           const KernelCall& call, int input, Workspace& scratch) {
  OperandSteps o;
  o.input = input;
  o.elements = steps.plan.extent_of(operand.layout);
  const DType stored = call.inputs[input].type.dtype;
  const std::int64_t bytes = o.elements * static_cast<std::int64_t>(size_of(steps.operands));
  if (!operand.summed.empty()) {
    const std::string letters =
        kernels::stored_letters(steps.plan, call.attributes->string("equation"), input);
    o.sum = sum_of(steps.plan, letters, operand.summed, stored, steps.operands);
    o.sum_workspace = scratch.take(reduce_workspace_bytes(*o.sum));
  }
  if (o.sum || stored != steps.operands) o.converted = scratch.take(bytes);
  if (operand.packed.empty()) return o;
  o.pack = copy_between(steps.plan, operand.layout, operand.packed, steps.operands);
  o.packed = scratch.take(bytes);
  return o;
}

void place_result(EinsumSteps& steps, DType z, Workspace& scratch) {
  const kernels::EinsumPlan& plan = steps.plan;
  const std::int64_t bytes =
      plan.extent_of(plan.c) * static_cast<std::int64_t>(size_of(steps.product_type));
  const bool convert = z != steps.product_type;
  if (!plan.c_packed.empty()) {
    steps.product = scratch.take(bytes);
    steps.unpack = copy_between(plan, plan.c_packed, plan.c, steps.product_type);
    if (convert) steps.unpacked = scratch.take(bytes);
  } else if (convert) {
    steps.product = scratch.take(bytes);
  }
}

/// cuBLASLt knows one batch dimension: the largest; over the others the product is repeated.
void divide_batch(EinsumSteps& steps) {
  steps.shape = steps.plan.shape;
  steps.outer = std::move(steps.shape.batch);
  steps.shape.batch.clear();
  if (steps.outer.empty()) return;
  const auto largest = std::max_element(
      steps.outer.begin(), steps.outer.end(),
      [](const kernels::BatchDim& a, const kernels::BatchDim& b) { return a.extent < b.extent; });
  steps.shape.batch = {*largest};
  steps.outer.erase(largest);
}

std::int64_t repetitions(const EinsumSteps& steps) {
  std::int64_t count = 1;
  for (const kernels::BatchDim& dim : steps.outer) count *= dim.extent;
  return count;
}

/// Whether the letters come in the order of `result`.
bool in_order(const std::string& letters, const std::string& result) {
  std::size_t at = 0;
  for (char l : letters) {
    at = result.find(l, at);
    if (at == std::string::npos) return false;
  }
  return true;
}

bool is_multiplication(const kernels::EinsumPlan& plan) {
  return plan.a.summed.empty() && plan.b.summed.empty() && in_order(plan.a.layout, plan.c) &&
         in_order(plan.b.layout, plan.c);
}

void plan_product(EinsumSteps& steps, const KernelCall& call) {
  divide_batch(steps);
  if (repetitions(steps) > kMaxProducts) {
    steps.plan = kernels::plan_einsum(call.attributes->string("equation"),
                                      call.inputs[0].type.shape, call.inputs[1].type.shape,
                                      call.outputs[0].type.shape, {.one_batch = true});
    divide_batch(steps);
  }
  Workspace scratch;
  const bool swapped = steps.plan.swapped;
  steps.a = operand_steps(steps, steps.plan.a, call, swapped ? 1 : 0, scratch);
  steps.b = operand_steps(steps, steps.plan.b, call, swapped ? 0 : 1, scratch);
  place_result(steps, call.outputs[0].type.dtype, scratch);
  steps.workspace_bytes =
      product_workspace_bytes(steps.shape.m * steps.shape.n * steps.shape.batches());
  steps.workspace = scratch.take(steps.workspace_bytes + kProductAlignment - kScratchAlignment);
  steps.scratch_bytes = scratch.size();
}

}  // namespace

std::int64_t product_workspace_bytes(std::int64_t results) {
  constexpr std::int64_t kMost = std::int64_t{32} << 20, kPerResult = 8 * 4;
  return std::min(kMost, rounded_up(results * kPerResult, kProductAlignment));
}

EinsumSteps plan_einsum_steps(const KernelCall& call) {
  const TensorType &x = call.inputs.at(0).type, &y = call.inputs.at(1).type,
                   &z = call.outputs.at(0).type;
  EinsumSteps steps;
  steps.plan = kernels::plan_einsum(call.attributes->string("equation"), x.shape, y.shape, z.shape);
  choose_types(steps, x.dtype, y.dtype, z.dtype);
  if (z.elements() == 0) return steps;
  steps.kind = x.elements() == 0 || y.elements() == 0 ? EinsumSteps::Kind::zeros
               : is_multiplication(steps.plan)        ? EinsumSteps::Kind::multiply
                                                      : EinsumSteps::Kind::product;
  if (steps.kind == EinsumSteps::Kind::product) plan_product(steps, call);
  return steps;
}

MultiplyCall multiply_call(const EinsumSteps& steps, const KernelCall& call) {
  const kernels::EinsumPlan& plan = steps.plan;
  MultiplyCall m;
  m.program.num_inputs = 2;
  m.program.steps = {{static_cast<int>(ElementwiseOp::mul), 0, 1, -1}};
  m.program.outputs = {2};
  const auto tensor = [&](DType dtype, const std::string& letters) {
    const Shape shape = kernels::extents_of(plan, letters);
    return KernelTensor{nullptr, {dtype, shape}, Shape(shape.size(), 0), shape};
  };
  for (int input : {0, 1}) {
    const kernels::EinsumOperand& operand = (input == 0) != plan.swapped ? plan.a : plan.b;
    for (char l : operand.layout)
      m.program.dims.push_back(static_cast<std::int64_t>(plan.c.find(l)));
    m.call.inputs.push_back(tensor(call.inputs[input].type.dtype, operand.layout));
  }
  m.call.outputs = {tensor(call.outputs[0].type.dtype, plan.c)};
  return m;
}

}  // namespace alpa::cuda
