// kernels/cuda/epilogue_plan.cc — decides whether a cuBLASLt product can take over an epilogue
#include "kernels/cuda/epilogue_plan.h"

#include <algorithm>
#include <memory>

#include "alpa/base/error.h"
#include "kernels/cuda/rounded_up.h"

namespace alpa::cuda {
namespace {

// cuBLASLt's requirement on the rows of a kept matrix, in bits or elements.
constexpr std::int64_t kBitsMultiple = 128, kElementsMultiple = 8;

bool has(const std::string& letters, char letter) {
  return letters.find(letter) != std::string::npos;
}

/// Letters of the result that one operand has and the other has not: the product's rows or columns.
std::string own_letters(const kernels::EinsumPlan& plan, const kernels::EinsumOperand& own,
                        const kernels::EinsumOperand& other) {
  std::string letters = plan.c;
  std::erase_if(letters, [&](char l) { return !has(own.layout, l) || has(other.layout, l); });
  return letters;
}

/// Products that are made where the result is, perhaps onto an addend.
bool is_made_in_place(const EinsumSteps& e) {
  return e.kind == EinsumSteps::Kind::product && e.product == kNowhere;
}

/// One call for a product, or a batch of them, made where the result is: m × n each, rows densely
/// one after another.
bool is_dense_product(const EinsumSteps& e) {
  const kernels::MatmulShape& s = e.shape;
  return is_made_in_place(e) && e.outer.empty() && s.n > 1 && (s.m == 1 || s.c_m == s.n);
}

/// Whether cuBLASLt takes a matrix of bits, or of elements, that is laid out as the result.
bool is_kept_aligned(const kernels::MatmulShape& s, bool bits) {
  const std::int64_t multiple = bits ? kBitsMultiple : kElementsMultiple;
  return s.n % multiple == 0 && (s.batch.empty() || s.batch[0].c % multiple == 0);
}

/// Whether the bias has an element for every column, and all products of a batch the same.
bool is_bias_of_columns(const EinsumSteps& e, const KernelCall& call) {
  const std::string& equation = call.attributes->string("equation");
  std::string letters =
      equation.substr(equation.size() - static_cast<std::size_t>(call.inputs[2].type.rank()));
  std::erase_if(letters, [&](char l) { return e.plan.extents.at(l) == 1; });
  return call.inputs[2].type.elements() == e.shape.n &&
         letters == own_letters(e.plan, e.plan.b, e.plan.a);
}

/// Whether the sums of a matrix over k have the order of the second result.
bool are_sums_in_order(const EinsumSteps& e, int operand) {
  const kernels::EinsumPlan& plan = e.plan;
  const kernels::EinsumOperand &own = operand == 0 ? plan.a : plan.b,
                               &other = operand == 0 ? plan.b : plan.a;
  std::string kept = own.layout;
  std::erase_if(kept, [&](char l) { return !has(plan.c, l); });
  return e.shape.batch.empty() && own.summed.empty() &&
         (operand == 0 ? e.a : e.b).converted == kNowhere && kept == own_letters(plan, own, other);
}

bool is_joint(const EpilogueSteps& steps, const KernelCall& call) {
  const EinsumSteps& e = steps.einsum;
  const Epilogue& epilogue = steps.of_product;
  if (e.operands == f64) return false;
  if (epilogue.is_plain()) return is_made_in_place(e);
  if (!is_dense_product(e)) return false;
  const DType vector = epilogue.bias ? call.inputs[2].type.dtype : e.product_type;
  if (vector != e.product_type || (epilogue.bias && !is_bias_of_columns(e, call))) return false;
  if (epilogue.sums_of >= 0) return are_sums_in_order(e, epilogue.sums_of);
  const bool bits = epilogue.function == Epilogue::Function::relu;
  return !epilogue.has_kept() || is_kept_aligned(e.shape, bits);
}

ReduceLaunch sums_of(const KernelCall& call, int operand) {
  const TensorType& type = call.inputs.at(operand).type;
  const auto reduce = std::make_unique<bool[]>(type.shape.size() + 1);
  for (std::int64_t d : kernels::summed_dims(call.attributes->string("equation"), operand))
    reduce[d] = true;
  ReduceLaunch launch;
  require(plan_reduce(launch, ReduceOp::sum, type.dtype, call.outputs.at(1).type.dtype, type.rank(),
                      type.shape.data(), reduce.get()),
          "einsum_epilogue: the sums of {} have more than {} dimensions", to_string(type),
          kMaxDims);
  return launch;
}

}  // namespace

EpilogueSteps plan_epilogue(const KernelCall& call) {
  EpilogueSteps steps;
  steps.einsum = plan_einsum_steps(call);
  steps.epilogue = steps.of_product = parse_epilogue(call.attributes->string("epilogue"));
  if (steps.epilogue.sums_of >= 0 && steps.einsum.plan.swapped)
    steps.of_product.sums_of = 1 - steps.epilogue.sums_of;
  steps.joint = is_joint(steps, call);
  steps.scratch_bytes = steps.einsum.scratch_bytes;
  if (steps.epilogue.add && !is_made_in_place(steps.einsum)) {
    steps.before_addend = steps.scratch_bytes;
    steps.scratch_bytes += rounded_up(call.outputs.at(0).type.bytes(), kScratchAlignment);
  }
  if (steps.epilogue.sums_of < 0) return steps;
  steps.sums_workspace = steps.scratch_bytes;
  steps.sums = sums_of(call, steps.epilogue.sums_of);
  steps.scratch_bytes += reduce_workspace_bytes(*steps.sums);
  return steps;
}

}  // namespace alpa::cuda
