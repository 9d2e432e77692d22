// kernels/cpu/norms.cc — squared_norms: sums each operand in pieces of fixed length, carried in
// double, then adds the pieces in order, so that a result depends only on its operand
#include <algorithm>
#include <numeric>

#include "kernels/cpu/block_io.h"
#include "kernels/cpu/kernels.h"
#include "src/base/thread_team.h"

namespace alpa::cpu {
namespace {

constexpr std::int64_t kPiece = 32 * 1024;
constexpr std::int64_t kBlock = 1024;
constexpr int kLanes = 8;

std::int64_t pieces_of(const KernelTensor& x) { return (x.type.elements() + kPiece - 1) / kPiece; }

/// In several sums at a time, which a processor adds side by side.
double square_piece(const KernelTensor& x, std::int64_t piece) {
  const std::int64_t end = std::min((piece + 1) * kPiece, x.type.elements());
  double sums[kLanes] = {}, block[kBlock];
  for (std::int64_t i = piece * kPiece, n; i < end; i += n) {
    n = std::min(kBlock, end - i);
    load_block(block, x.data, x.type.dtype, i, n);
    std::fill(block + n, block + (n + kLanes - 1) / kLanes * kLanes, 0.0);
    for (std::int64_t k = 0; k < n; k += kLanes)
      for (int lane = 0; lane < kLanes; ++lane) sums[lane] += block[k + lane] * block[k + lane];
  }
  return std::accumulate(sums, sums + kLanes, 0.0);
}

void run_squared_norms(const KernelCall& call) {
  auto* const pieces = reinterpret_cast<double*>(call.workspace);
  for (std::size_t t = 0; t < call.inputs.size(); ++t) {
    const KernelTensor& x = call.inputs[t];
    call.team->for_each(pieces_of(x), 1,
                        [&](std::int64_t piece) { pieces[piece] = square_piece(x, piece); });
    double sum = 0;
    for (std::int64_t piece = 0; piece < pieces_of(x); ++piece) sum += pieces[piece];
    store_block(call.outputs[t].data, call.outputs[t].type.dtype, 0, &sum, 1);
  }
}

std::int64_t workspace_bytes(const KernelCall& call) {
  std::int64_t most = 0;
  for (const KernelTensor& x : call.inputs) most = std::max(most, pieces_of(x));
  return most * static_cast<std::int64_t>(sizeof(double));
}

}  // namespace

const KernelDef squared_norms{run_squared_norms, nullptr, workspace_bytes};

}  // namespace alpa::cpu
