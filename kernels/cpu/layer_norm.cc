// kernels/cpu/layer_norm.cc — layer_norm and rms_norm with their gradients. rms_norm is layer_norm
// with mean 0 and bias 0. Rows are read in blocks, once per pass. Statistics and sums are carried
// in double.
#include <algorithm>
#include <cmath>

#include "kernels/cpu/block_io.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/row_pieces.h"
#include "src/base/thread_team.h"

namespace alpa::cpu {
namespace {

/// Which normalisation: layer_norm centres rows and adds a bias.
enum class Norm : std::uint8_t { layer, rms };

template <class T>
double mean_of_row(const KernelTensor& x, std::int64_t begin, std::int64_t width) {
  Block<T> xs;
  double sum = 0;
  for_blocks(width, [&](std::int64_t i, std::int64_t n) {
    sum +=
        loops<T>(isa().reduce)[static_cast<int>(ReduceOp::sum)].line(xs.read(x, begin + i, n), n);
  });
  return sum / static_cast<double>(width);
}

template <class T>
constexpr T kNoBias[Block<T>::kSize] = {};

template <class T, Norm kind>
void normalize_row(const KernelCall& call, std::int64_t row, std::int64_t width, double epsilon) {
  const KernelTensor &x = call.inputs[0], &y = call.outputs[0];
  const std::int64_t begin = row * width;
  const auto& norm = loops<T>(isa().layer_norm);
  Block<T> xs, scales, biases, ys;
  double squares = 0;
  const double mean = kind == Norm::layer ? mean_of_row<T>(x, begin, width) : 0;
  for_blocks(width, [&](std::int64_t i, std::int64_t n) {
    squares += norm.squares_from(xs.read(x, begin + i, n), mean, n);
  });
  const double rstd = 1 / std::sqrt(squares / static_cast<double>(width) + epsilon);
  if (kind == Norm::layer) put_element(call.outputs[1], row, mean);
  put_element(call.outputs.back(), row, rstd);
  for_blocks(width, [&](std::int64_t i, std::int64_t n) {
    norm.normalize(ys.target(y, begin + i), xs.read(x, begin + i, n),
                   scales.read(call.inputs[1], i, n),
                   kind == Norm::layer ? biases.read(call.inputs[2], i, n) : kNoBias<T>,
                   static_cast<T>(mean), static_cast<T>(rstd), n);
    ys.written(y, begin + i, n);
  });
}

template <class T, Norm kind>
void run_rows(const KernelCall& call) {
  const std::int64_t width = call.inputs[1].type.elements(), rows = call.outputs[1].type.elements();
  const double epsilon = call.attributes->real("epsilon");
  call.team->for_each(rows, std::max<std::int64_t>(1, kRowPiece / width),
                      [&](std::int64_t row) { normalize_row<T, kind>(call, row, width, epsilon); });
}

/// How the rows of a backward call are cut.
RowPieces pieces_of(const KernelCall& call) {
  return row_pieces(call.inputs[3].type.elements(), call.inputs[2].type.elements(),
                    call.sums.is_fixed());
}

template <class T, Norm kind>
void differentiate_row(const KernelCall& call, std::int64_t row, std::int64_t width, double* dscale,
                       double* dbias) {
  const KernelTensor &dy = call.inputs[0], &x = call.inputs[1], &scale = call.inputs[2];
  constexpr std::size_t rstds = kind == Norm::layer ? 4 : 3;
  const double mean = kind == Norm::layer ? element(call.inputs[3], row) : 0;
  const double rstd = element(call.inputs[rstds], row);
  const std::int64_t begin = row * width;
  const auto& norm = loops<T>(isa().layer_norm);
  Block<T> dys, xs, scales, addends, dxs;
  double means[2] = {0, 0};
  for_blocks(width, [&](std::int64_t i, std::int64_t n) {
    norm.dots(means, dys.read(dy, begin + i, n), xs.read(x, begin + i, n), scales.read(scale, i, n),
              mean, rstd, n);
  });
  for (double& sum : means) sum /= static_cast<double>(width);
  if (kind == Norm::rms) means[0] = 0;  // the mean does not depend on x
  for_blocks(width, [&](std::int64_t i, std::int64_t n) {
    const T *g = dys.read(dy, begin + i, n), *values = xs.read(x, begin + i, n);
    T* const dx = dxs.target(call.outputs[0], begin + i);
    norm.gradient(dx, g, values, scales.read(scale, i, n), static_cast<T>(mean),
                  static_cast<T>(rstd), means, n);
    if (call.inputs.size() > rstds + 1) {
      const T* const addend = addends.read(call.inputs[rstds + 1], begin + i, n);
      for (std::int64_t j = 0; j < n; ++j) dx[j] += addend[j];
    }
    dxs.written(call.outputs[0], begin + i, n);
    norm.add_columns(dscale + i, dbias + i, g, values, mean, rstd, n);
  });
}

/// The sums of pieces are those of dscale and then of dbias.
template <class T, Norm kind>
void run_pieces(const KernelCall& call, const RowPieces& pieces) {
  sum_pieces(call, pieces,
             [&](std::int64_t begin, std::int64_t end, double* dscale, double* dbias) {
               for (std::int64_t row = begin; row < end; ++row)
                 differentiate_row<T, kind>(call, row, pieces.width, dscale, dbias);
             });
}

template <Norm kind>
void run_norm_grad(const KernelCall& call) {
  const RowPieces pieces = pieces_of(call);
  call.inputs[1].type.dtype == f64 ? run_pieces<double, kind>(call, pieces)
                                   : run_pieces<float, kind>(call, pieces);
  add_pieces(call, pieces, 1);
}

std::int64_t grad_workspace(const KernelCall& call) { return pieces_of(call).workspace_bytes(); }

template <Norm kind>
constexpr KernelDef kGradAtOnce{run_norm_grad<kind>, nullptr, grad_workspace};

}  // namespace

const KernelDef layer_norm{
    run_floating<run_rows<float, Norm::layer>, run_rows<double, Norm::layer>>};
const KernelDef layer_norm_grad = in_chunks<kGradAtOnce<Norm::layer>>;
const KernelDef rms_norm{run_floating<run_rows<float, Norm::rms>, run_rows<double, Norm::rms>>};
const KernelDef rms_norm_grad = in_chunks<kGradAtOnce<Norm::rms>>;

}  // namespace alpa::cpu
