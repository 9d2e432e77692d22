// kernels/cpu/reduce.cc — reductions. The order of combination depends only on the shapes: pieces
// of fixed length, each carried in double, then the pieces in order.
#include <algorithm>

#include "alpa/base/error.h"
#include "kernels/cpu/block_io.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/strided_copy.h"
#include "src/base/thread_team.h"

namespace alpa::cpu {
namespace {

constexpr std::int64_t kPiece = 32 * 1024;  ///< elements that one piece aims at
constexpr std::int64_t kColumns = 1024;     ///< columns carried at once
constexpr std::int64_t kRows = 8;           ///< rows read side by side

/// A set of dimensions, walked in row-major order.
struct Walk {
  Shape extents;
  std::vector<std::int64_t> strides;
  std::int64_t count = 1;

  void add(std::int64_t extent, std::int64_t stride) {
    extents.push_back(extent);
    strides.push_back(stride);
    count *= extent;
  }
  std::int64_t element(std::int64_t index) const {
    std::int64_t at = 0;
    for (int d = static_cast<int>(extents.size()) - 1; d >= 0; --d) {
      const Division part = divide(index, extents[d]);
      at += part.remainder * strides[d];
      index = part.quotient;
    }
    return at;
  }
};

/// The input as kept × reduced × inner, inner being contiguous and either reduced or kept.
struct ReducePlan {
  ReduceOp op = ReduceOp::sum;
  Walk kept, reduced;
  std::int64_t inner = 1;
  bool inner_reduced = true;
  std::int64_t pieces = 1;     ///< of every result
  std::int64_t per_piece = 0;  ///< reduced rows, or inner elements if there is but one row
  std::int64_t columns = 1;    ///< results that one task carries
  std::int64_t results = 0;
  bool empty = false;  ///< nothing to reduce
};

// ---- analysis
// ------------------------------------------------------------------------------------------------

struct Dim {
  std::int64_t extent, stride;
  bool reduced;
};

/// Neighbours that are reduced, or kept, together become one. Dimensions of extent 1 are left out;
/// with sums of one order those that have it in the whole tensor.
std::vector<Dim> merged_dims(const KernelCall& call) {
  const Shape& shape = call.inputs[0].type.shape;
  const Shape& extents = call.sums.is_fixed() ? call.inputs[0].global_shape : shape;
  const std::vector<std::int64_t>& axes = call.attributes->integers("axes");
  const std::vector<std::int64_t> strides = kernels::dense_strides(shape);
  std::vector<Dim> dims;
  for (std::int64_t d = 0; d < static_cast<std::int64_t>(shape.size()); ++d) {
    const bool reduced = std::find(axes.begin(), axes.end(), d) != axes.end();
    if (extents[d] == 1) continue;
    if (!dims.empty() && dims.back().reduced == reduced)
      dims.back() = {dims.back().extent * shape[d], strides[d], reduced};
    else
      dims.push_back({shape[d], strides[d], reduced});
  }
  return dims;
}

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

void cut_lines(ReducePlan& plan) {
  plan.columns = 1;
  plan.per_piece =
      plan.reduced.count == 1 ? kPiece : std::max<std::int64_t>(1, kPiece / plan.inner);
  plan.pieces =
      divide_up(plan.reduced.count == 1 ? plan.inner : plan.reduced.count, plan.per_piece);
}

/// Few columns are many rows: those are cut so that there is work for several threads, unless sums
/// have one order, which must not depend on columns.
void cut_rows(ReducePlan& plan, bool fixed) {
  plan.columns = std::min(plan.inner, kColumns);
  const std::int64_t tasks = plan.kept.count * divide_up(plan.inner, kColumns);
  const std::int64_t wanted =
      fixed || tasks >= 8 ? 1
                          : std::min<std::int64_t>(8, plan.reduced.count * plan.columns / kPiece);
  plan.per_piece = divide_up(plan.reduced.count, std::max<std::int64_t>(1, wanted));
  plan.pieces = divide_up(plan.reduced.count, plan.per_piece);
}

ReducePlan plan_reduce(const KernelCall& call, ReduceOp op) {
  const TensorType &x = call.inputs.at(0).type, &y = call.outputs.at(0).type;
  ReducePlan plan;
  plan.op = op;
  plan.results = y.elements();
  plan.empty = x.elements() == 0;
  if (plan.empty) return plan;
  std::vector<Dim> dims = merged_dims(call);
  if (!dims.empty()) {
    plan.inner = dims.back().extent;
    plan.inner_reduced = dims.back().reduced;
    dims.pop_back();
  }
  for (const Dim& d : dims) (d.reduced ? plan.reduced : plan.kept).add(d.extent, d.stride);
  invariant(plan.results == plan.kept.count * (plan.inner_reduced ? 1 : plan.inner),
            "reduce: {} to {}", to_string(x), to_string(y));
  plan.inner_reduced ? cut_lines(plan) : cut_rows(plan, call.sums.is_fixed());
  return plan;
}

// ---- execution
// -----------------------------------------------------------------------------------------------

double neutral(ReduceOp op) {
  return reducing::with_op(op,
                           [](auto o) { return reducing::neutral<decltype(o)::value, double>(); });
}
double combine(ReduceOp op, double a, double b) {
  return reducing::with_op(op, [&](auto o) { return reducing::combine<decltype(o)::value>(a, b); });
}

template <class T>
class Reducer {
 public:
  Reducer(const KernelCall& call, const ReducePlan& plan)
      : x_(call.inputs[0]),
        plan_(plan),
        loops_(loops<T>(isa().reduce)[static_cast<int>(plan.op)]) {}

  /// Piece `piece` of the result of kept index `kept`, inner being reduced.
  double line_piece(std::int64_t kept, std::int64_t piece) const {
    const std::int64_t start = plan_.kept.element(kept), first = piece * plan_.per_piece;
    if (plan_.reduced.count == 1)
      return line(start + first, std::min(plan_.per_piece, plan_.inner - first));
    double result = neutral(plan_.op);
    for (std::int64_t r = first; r < std::min(first + plan_.per_piece, plan_.reduced.count); ++r)
      result = combine(plan_.op, result, line(start + plan_.reduced.element(r), plan_.inner));
    return result;
  }

  /// Piece `piece` of the results of columns [column, column + n), inner being kept.
  void row_piece(double* results, std::int64_t kept, std::int64_t piece, std::int64_t column,
                 std::int64_t n) const {
    const std::int64_t start = plan_.kept.element(kept) + column, first = piece * plan_.per_piece;
    const std::int64_t end = std::min(first + plan_.per_piece, plan_.reduced.count);
    const std::int64_t run = plan_.reduced.extents.empty() ? 1 : plan_.reduced.extents.back();
    std::fill(results, results + n, neutral(plan_.op));
    for (std::int64_t r = first, rows; r < end; r += rows) {
      rows = std::min({kRows, run - r % run, end - r});
      add_rows(results, start + plan_.reduced.element(r), rows, n);
    }
  }

 private:
  double line(std::int64_t element, std::int64_t n) const {
    if (is_stored_as<T>(x_.type.dtype)) return loops_.line(x_.as<T>() + element, n);
    T buffer[kColumns];
    double result = neutral(plan_.op);
    for (std::int64_t i = 0; i < n; i += kColumns) {
      const std::int64_t length = std::min(kColumns, n - i);
      load_block(buffer, x_.data, x_.type.dtype, element + i, length);
      result = combine(plan_.op, result, loops_.line(buffer, length));
    }
    return result;
  }

  void add_rows(double* results, std::int64_t element, std::int64_t rows, std::int64_t n) const {
    const std::int64_t stride = plan_.reduced.strides.empty() ? 0 : plan_.reduced.strides.back();
    if (is_stored_as<T>(x_.type.dtype))
      return loops_.rows(results, x_.as<T>() + element, rows, stride, n);
    T buffer[kRows * kColumns];
    for (std::int64_t r = 0; r < rows; ++r)
      load_block(buffer + r * kColumns, x_.data, x_.type.dtype, element + r * stride, n);
    loops_.rows(results, buffer, rows, kColumns, n);
  }

  const KernelTensor& x_;
  const ReducePlan& plan_;
  const ReduceLoops<T>& loops_;
};

/// result r = the pieces [r + p·results] combined.
void combine_pieces(const KernelCall& call, const ReducePlan& plan) {
  const double* const pieces = reinterpret_cast<const double*>(call.workspace);
  call.team->for_each(plan.results, 4096, [&](std::int64_t r) {
    double result = pieces[r];
    for (std::int64_t p = 1; p < plan.pieces; ++p)
      result = combine(plan.op, result, pieces[r + p * plan.results]);
    store_block(call.outputs[0].data, call.outputs[0].type.dtype, r, &result, 1);
  });
}

/// Destination of results: the output, or the workspace if there are several pieces.
void write_results(const KernelCall& call, const ReducePlan& plan, std::int64_t piece,
                   std::int64_t first, const double* results, std::int64_t n) {
  if (plan.pieces == 1)
    store_block(call.outputs[0].data, call.outputs[0].type.dtype, first, results, n);
  else
    std::copy(results, results + n,
              reinterpret_cast<double*>(call.workspace) + piece * plan.results + first);
}

template <class T>
void reduce_lines(const KernelCall& call, const ReducePlan& plan) {
  const Reducer<T> reducer(call, plan);
  const std::int64_t line = std::min(plan.inner * plan.reduced.count, kPiece);
  call.team->for_each(plan.results * plan.pieces, divide_up(kPiece, line), [&](std::int64_t i) {
    const double result = reducer.line_piece(i / plan.pieces, i % plan.pieces);
    write_results(call, plan, i % plan.pieces, i / plan.pieces, &result, 1);
  });
}

template <class T>
void reduce_rows(const KernelCall& call, const ReducePlan& plan) {
  const Reducer<T> reducer(call, plan);
  const std::int64_t blocks = divide_up(plan.inner, plan.columns);
  const std::int64_t tasks = plan.kept.count * blocks * plan.pieces;
  const std::int64_t grain = divide_up(kPiece, plan.columns * plan.per_piece);
  call.team->parallel_for(tasks, grain, [&](std::int64_t begin, std::int64_t end) {
    double results[kColumns];
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t column = i % blocks * plan.columns, piece = i / blocks % plan.pieces;
      const std::int64_t kept = i / blocks / plan.pieces,
                         n = std::min(plan.columns, plan.inner - column);
      reducer.row_piece(results, kept, piece, column, n);
      write_results(call, plan, piece, kept * plan.inner + column, results, n);
    }
  });
}

template <class T>
void reduce(const KernelCall& call, const ReducePlan& plan) {
  plan.inner_reduced ? reduce_lines<T>(call, plan) : reduce_rows<T>(call, plan);
  if (plan.pieces > 1) combine_pieces(call, plan);
}

}  // namespace

namespace detail {

void run_reduce(const KernelCall& call) {
  const ReducePlan& plan = *static_cast<const ReducePlan*>(call.prepared.get());
  if (plan.empty) {
    const double nothing = neutral(plan.op);
    for (std::int64_t r = 0; r < plan.results; ++r)
      store_block(call.outputs[0].data, call.outputs[0].type.dtype, r, &nothing, 1);
    return;
  }
  if (needs_double(call.inputs[0].type.dtype))
    reduce<double>(call, plan);
  else
    reduce<float>(call, plan);
}

std::shared_ptr<const void> prepare_reduce(const KernelCall& call, ReduceOp op) {
  return std::make_shared<ReducePlan>(plan_reduce(call, op));
}

std::int64_t reduce_workspace(const KernelCall& call) {
  const ReducePlan plan = plan_reduce(call, ReduceOp::sum);
  return plan.pieces > 1 ? plan.pieces * plan.results * static_cast<std::int64_t>(sizeof(double))
                         : 0;
}

}  // namespace detail
}  // namespace alpa::cpu
