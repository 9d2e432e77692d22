// kernels/cuda/kernels.cc — looks up CUDA kernels by operator, and the scratch memory they need
#include "kernels/cuda/kernels.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "kernels/cuda/attention_plan.h"
#include "kernels/cuda/channel_sums.h"
#include "kernels/cuda/convolution_plan.h"
#include "kernels/cuda/einsum_group_plan.h"
#include "kernels/cuda/einsum_plan.h"
#include "kernels/cuda/embedding.h"
#include "kernels/cuda/epilogue_plan.h"
#include "kernels/cuda/layer_norm.h"
#include "kernels/cuda/reduce_call.h"
#include "kernels/cuda/update.h"
#include "kernels/plan/channel_rows.h"

namespace alpa::cuda {
namespace {

/// The rows without `load`: what it points to is not linked with this file, so it is
/// left behind by the compiler.
consteval auto planned_rows() {
  std::array<KernelRow, std::size(kKernels)> rows{};
  for (std::size_t i = 0; i < rows.size(); ++i)
    rows[i] = {kKernels[i].op, nullptr, kKernels[i].scratch, kKernels[i].rows};
  return rows;
}

constexpr auto kRows = planned_rows();

const KernelRow* row_of(std::string_view op) {
  const auto row = std::find_if(kRows.begin(), kRows.end(),
                                [&](const KernelRow& known) { return known.op == op; });
  return row == kRows.end() ? nullptr : &*row;
}

}  // namespace

std::int64_t einsum_scratch(std::string_view, const KernelCall& call) {
  return plan_einsum_steps(call).scratch_bytes;
}

std::int64_t epilogue_scratch(std::string_view, const KernelCall& call) {
  return plan_epilogue(call).scratch_bytes;
}

std::int64_t einsum_group_scratch(std::string_view, const KernelCall& call) {
  return plan_einsum_group(call).scratch_bytes;
}

std::vector<TensorRow> einsum_group_rows(const Attributes& attributes) {
  return rows_of(einsum_group_of(attributes));
}

/// The same for all reductions.
std::int64_t reduce_scratch(std::string_view op, const KernelCall& call) {
  return reduce_workspace_bytes(reduce_call(op, ReduceOp::sum, call));
}

/// A double per chunk of every operand.
std::int64_t norms_scratch(std::string_view, const KernelCall& call) {
  std::int64_t chunks = 0;
  for (const KernelTensor& x : call.inputs) chunks += chunks_of(x.type.elements());
  return chunks * static_cast<std::int64_t>(sizeof(double));
}

std::int64_t channel_sums_scratch(std::string_view, const KernelCall& call) {
  const std::int64_t channels = call.outputs.at(0).type.elements();
  return column_pieces_bytes(kernels::channel_rows(call.inputs.at(0).type), channels);
}

std::int64_t layer_norm_grad_scratch(std::string_view, const KernelCall& call) {
  return column_pieces_bytes(call.inputs[3].type.elements(), call.inputs[2].type.elements());
}

std::int64_t embedding_grad_scratch(std::string_view, const KernelCall& call) {
  return embedding_grad_bytes(call.inputs[1].type.elements());
}

std::int64_t convolution_scratch(std::string_view op, const KernelCall& call) {
  return convolution_scratch(convolution_launch(op, call)).bytes;
}

std::int64_t attention_scratch(std::string_view, const KernelCall& call) {
  return attention_scratch(attention_launch(call)).bytes;
}

bool has_row(std::string_view op) { return row_of(op) != nullptr; }

std::int64_t scratch_bytes(std::string_view op, const KernelCall& call) {
  const KernelRow* row = row_of(op);
  return row && row->scratch ? row->scratch(op, call) : 0;
}

std::vector<TensorRow> rows_side_by_side(std::string_view op, const Attributes& attributes) {
  const KernelRow* row = row_of(op);
  return row && row->rows ? row->rows(attributes) : std::vector<TensorRow>();
}

}  // namespace alpa::cuda
