// kernels/cpu/einsum.cc — einsum: sums, converts and packs operands as planned, multiplies, and
// writes the result in its layout
#include <algorithm>
#include <optional>

#include "alpa/base/error.h"
#include "kernels/cpu/block_io.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/matmul.h"
#include "kernels/cpu/strided_copy.h"
#include "kernels/plan/einsum_plan.h"
#include "src/base/thread_team.h"

namespace alpa::cpu {
namespace {

constexpr std::int64_t kNone = -1;

/// Hands out parts of the workspace.
class Workspace {
 public:
  std::int64_t take(std::int64_t bytes) {
    const std::int64_t offset = size_;
    size_ += (bytes + 63) / 64 * 64;
    return offset;
  }
  std::int64_t size() const { return size_; }

 private:
  std::int64_t size_ = 0;
};

/// Sums an operand over its own letters, through the kernel of reductions.
struct OwnSum {
  mutable KernelCall call;  ///< pointers are set for every run; a call belongs to one thread
  std::int64_t workspace = kNone;
};

/// How an operand becomes a matrix; offsets are into the workspace.
struct OperandSteps {
  int input = 0;
  DType type = f32;  ///< of the matrix
  std::optional<OwnSum> sum = {};
  std::int64_t converted = kNone;
  std::optional<kernels::StridedCopy> pack = {};
  std::int64_t packed = kNone;
};

struct Prepared {
  kernels::EinsumPlan plan;
  DType compute = f32;  ///< in which operands are multiplied
  DType made = f32;     ///< of the product
  OperandSteps a, b;
  std::int64_t product = kNone;  ///< where the product is made if not in the result
  std::optional<kernels::StridedCopy> unpack;
  /// the product in the result's layout, if it must be converted then
  std::int64_t unpacked = kNone;
  bool by_rows = false;              ///< few rows times a large b, by `multiply_rows`
  std::unique_ptr<DnnlMatmul> dnnl;  ///< of other products, but those of f64 and in a fixed order
  std::int64_t dnnl_workspace = kNone;
  std::int64_t workspace_bytes = 0;
  std::int64_t results = 0;
  bool empty_sum = false;
  int chunks = 0;  ///< in which the product is summed; 0: in any order
};

// ---- preparation
// ---------------------------------------------------------------------------------------------

OwnSum prepare_sum(const Prepared& prepared, const kernels::EinsumOperand& operand,
                   const KernelCall& call, int input, Workspace& space) {
  invariant(!call.sums.is_fixed(), "einsum: sums of one operand have no fixed order");
  const std::string letters =
      kernels::stored_letters(prepared.plan, call.attributes->string("equation"), input);
  std::vector<std::int64_t> axes;
  for (std::size_t d = 0; d < letters.size(); ++d)
    if (operand.summed.find(letters[d]) != std::string::npos)
      axes.push_back(static_cast<std::int64_t>(d));
  const Attributes attributes{{"axes", axes}};
  OwnSum sum;
  sum.call = call;
  sum.call.attributes = &attributes;
  sum.call.inputs = {call.inputs[input]};
  sum.call.inputs[0].type.shape = kernels::extents_of(prepared.plan, letters);
  sum.call.outputs = {
      {.data = nullptr,
       .type = {prepared.compute, kernels::extents_of(prepared.plan, operand.layout)},
       .offset = {},
       .global_shape = {}}};
  sum.call.prepared = reduce<ReduceOp::sum>.prepare(sum.call);
  sum.workspace = space.take(reduce<ReduceOp::sum>.workspace_bytes(sum.call));
  sum.call.attributes = nullptr;  // read while preparing only
  return sum;
}

/// Of type `compute`; with `as_stored` the operand stays as it is if it needs no other step.
OperandSteps prepare_operand(const Prepared& prepared, const kernels::EinsumOperand& operand,
                             const KernelCall& call, int input, bool as_stored, Workspace& space) {
  const DType stored = call.inputs[input].type.dtype;
  if (as_stored && is_floating(stored) && operand.summed.empty() && operand.packed.empty())
    return {.input = input, .type = stored};
  OperandSteps steps{.input = input, .type = prepared.compute};
  const std::int64_t element = static_cast<std::int64_t>(size_of(prepared.compute));
  const std::int64_t bytes = prepared.plan.extent_of(operand.layout) * element;
  if (!operand.summed.empty()) steps.sum = prepare_sum(prepared, operand, call, input, space);
  if (!operand.summed.empty() || stored != prepared.compute) steps.converted = space.take(bytes);
  if (operand.packed.empty()) return steps;
  steps.pack =
      kernels::plan_strided_copy(kernels::extents_of(prepared.plan, operand.packed),
                                 kernels::strides_of(prepared.plan, operand.layout, operand.packed),
                                 static_cast<std::size_t>(element));
  steps.packed = space.take(bytes);
  return steps;
}

void prepare_result(Prepared& prepared, const KernelCall& call, Workspace& space) {
  const kernels::EinsumPlan& plan = prepared.plan;
  const std::size_t element = size_of(prepared.made);
  const std::int64_t bytes = prepared.results * static_cast<std::int64_t>(element);
  const bool convert = call.outputs[0].type.dtype != prepared.made;
  if (!plan.c_packed.empty()) {
    prepared.product = space.take(bytes);
    prepared.unpack =
        kernels::plan_strided_copy(kernels::extents_of(plan, plan.c),
                                   kernels::strides_of(plan, plan.c_packed, plan.c), element);
    if (convert) prepared.unpacked = space.take(bytes);
  } else if (convert) {
    prepared.product = space.take(bytes);
  }
}

/// The product of operands as they are stored, by the processor's matrix unit; null where it can't.
std::unique_ptr<DnnlMatmul> product_by_matrix_unit(const kernels::EinsumPlan& plan, DType x,
                                                   DType y, DType z, int threads) {
  const bool whole = plan.a.summed.empty() && plan.b.summed.empty();
  if (!whole || x != y || (z != x && z != f32) || !has_matrix_unit(x)) return nullptr;
  auto product = std::make_unique<DnnlMatmul>(plan.shape, ProductTypes{x, z}, threads);
  return product->usable() ? std::move(product) : nullptr;
}

std::shared_ptr<const Prepared> prepare(const KernelCall& call) {
  auto prepared = std::make_shared<Prepared>();
  const TensorType &x = call.inputs.at(0).type, &y = call.inputs.at(1).type,
                   &z = call.outputs.at(0).type;
  prepared->plan = kernels::plan_einsum(call.attributes->string("equation"), x.shape, y.shape,
                                        z.shape, {.fixed_sums = call.sums.is_fixed()});
  prepared->chunks = call.sums.chunks;
  prepared->results = z.elements();
  prepared->empty_sum = x.elements() == 0 || y.elements() == 0;
  if (prepared->results == 0 || prepared->empty_sum) return prepared;
  const bool wide = needs_double(x.dtype) || needs_double(y.dtype) || needs_double(z.dtype),
             fixed = call.sums.is_fixed();
  prepared->compute = prepared->made = wide ? f64 : f32;
  prepared->by_rows = !wide && !fixed && suits_row_product(prepared->plan.shape);
  if (!fixed && !prepared->by_rows)
    prepared->dnnl =
        product_by_matrix_unit(prepared->plan, x.dtype, y.dtype, z.dtype, call.threads);
  if (prepared->dnnl) {
    prepared->compute = x.dtype;
    prepared->made = z.dtype;
  }
  Workspace space;
  const bool swapped = prepared->plan.swapped;
  prepared->a = prepare_operand(*prepared, prepared->plan.a, call, swapped ? 1 : 0, false, space);
  prepared->b =
      prepare_operand(*prepared, prepared->plan.b, call, swapped ? 0 : 1, prepared->by_rows, space);
  prepare_result(*prepared, call, space);
  if (!wide && !fixed && !prepared->by_rows) {
    if (!prepared->dnnl)
      prepared->dnnl =
          std::make_unique<DnnlMatmul>(prepared->plan.shape, ProductTypes{}, call.threads);
    prepared->dnnl_workspace = space.take(prepared->dnnl->workspace_bytes());
  }
  prepared->workspace_bytes = space.size();
  return prepared;
}

std::shared_ptr<const void> prepare_einsum(const KernelCall& call) { return prepare(call); }

std::int64_t einsum_workspace(const KernelCall& call) {
  if (call.prepared) return static_cast<const Prepared*>(call.prepared.get())->workspace_bytes;
  return prepare(call)->workspace_bytes;
}

// ---- execution
// -----------------------------------------------------------------------------------------------

/// n elements of one type as another, of which one is T.
template <class T>
void convert(std::byte* out, DType to, const std::byte* in, DType from, std::int64_t n,
             ThreadTeam& team) {
  constexpr std::int64_t kBlock = 1024;
  team.parallel_for((n + kBlock - 1) / kBlock, 16, [&](std::int64_t begin, std::int64_t end) {
    T buffer[kBlock];
    for (std::int64_t i = begin * kBlock; i < std::min(end * kBlock, n); i += kBlock) {
      const std::int64_t length = std::min(kBlock, n - i);
      load_block(buffer, in, from, i, length);
      store_block(out, to, i, buffer, length);
    }
  });
}

/// T: the type in which the operands are added, if they are.
template <class T>
const std::byte* bring(const KernelCall& call, const Prepared& prepared,
                       const OperandSteps& steps) {
  const KernelTensor& input = call.inputs[steps.input];
  const std::byte* data = input.data;
  if (steps.sum) {
    KernelCall& sum = steps.sum->call;
    sum.team = call.team;
    sum.inputs[0].data = input.data;
    sum.outputs[0].data = call.workspace + steps.converted;
    sum.workspace = call.workspace + steps.sum->workspace;
    reduce<ReduceOp::sum>.run(sum);
    data = call.workspace + steps.converted;
  } else if (steps.converted != kNone) {
    convert<T>(call.workspace + steps.converted, prepared.compute, data, input.type.dtype,
               input.type.elements(), *call.team);
    data = call.workspace + steps.converted;
  }
  if (steps.pack) {
    strided_copy(*steps.pack, call.workspace + steps.packed, data, *call.team);
    data = call.workspace + steps.packed;
  }
  return data;
}

template <class T>
void deliver(const KernelCall& call, const Prepared& prepared, const std::byte* product) {
  const KernelTensor& z = call.outputs[0];
  const bool direct = z.type.dtype == prepared.made;
  if (prepared.unpack) {
    std::byte* const to = direct ? z.data : call.workspace + prepared.unpacked;
    strided_copy(*prepared.unpack, to, product, *call.team);
    product = to;
  }
  if (!direct)
    convert<T>(z.data, z.type.dtype, product, prepared.made, prepared.results, *call.team);
}

template <class T>
void run_as(const KernelCall& call, const Prepared& prepared) {
  const std::byte* const a = bring<T>(call, prepared, prepared.a);
  const std::byte* const b = bring<T>(call, prepared, prepared.b);
  std::byte* const product =
      prepared.product == kNone ? call.outputs[0].data : call.workspace + prepared.product;
  if constexpr (sizeof(T) == 8)
    matmul_f64(prepared.plan.shape, reinterpret_cast<T*>(product), reinterpret_cast<const T*>(a),
               reinterpret_cast<const T*>(b), *call.team);
  else if (prepared.dnnl)
    prepared.dnnl->run(product, a, b, call.workspace + prepared.dnnl_workspace, *call.team);
  else if (call.sums.is_fixed())
    ordered_matmul(prepared.plan.shape, prepared.chunks, reinterpret_cast<T*>(product),
                   reinterpret_cast<const T*>(a), reinterpret_cast<const T*>(b), *call.team);
  else
    multiply_rows(prepared.plan.shape, reinterpret_cast<T*>(product), reinterpret_cast<const T*>(a),
                  {b, prepared.b.type}, *call.team);
  deliver<T>(call, prepared, product);
}

void run_einsum(const KernelCall& call) {
  const Prepared& prepared = *static_cast<const Prepared*>(call.prepared.get());
  if (prepared.results == 0) return;
  if (prepared.empty_sum)
    std::fill_n(call.outputs[0].data, call.outputs[0].type.bytes(), std::byte{0});
  else if (prepared.compute == f64)
    run_as<double>(call, prepared);
  else
    run_as<float>(call, prepared);
}

}  // namespace

const KernelDef einsum{run_einsum, prepare_einsum, einsum_workspace};

}  // namespace alpa::cpu
