// kernels/cuda/write_rows.cu — rows to their positions: a thread per word
#include "kernels/cuda/write_rows.h"

#include "kernels/cuda/device.h"

namespace alpa::cuda {
namespace {

constexpr int kThreads = 256;

/// W: what a thread moves at a time, which divides a row.
template <class W>
__global__ void __launch_bounds__(kThreads)
    move_rows(const __grid_constant__ kernels::WrittenRows s, const W* rows,
              const std::int32_t* positions, W* y) {
  const std::int64_t words = s.bytes / static_cast<std::int64_t>(sizeof(W));
  for_share(s.batch * s.count * words, [&](std::int64_t i) {
    const Division row = divide(i, words), at = divide(row.quotient, s.count);
    const std::int64_t place = positions[at.quotient] + at.remainder;
    if (place >= 0 && place < s.extent)
      y[(at.quotient * s.extent + place) * words + row.remainder] = rows[i];
  });
}

template <class W>
Status move(const kernels::WrittenRows& s, const void* rows, const std::int32_t* positions, void* y,
            Stream stream) {
  const std::int64_t words = s.batch * s.count * (s.bytes / static_cast<std::int64_t>(sizeof(W)));
  return launch(move_rows<W>, blocks_for(words, kThreads), kThreads, 0, stream, s,
                static_cast<const W*>(rows), positions, static_cast<W*>(y));
}

}  // namespace

Status run_write_rows(const kernels::WrittenRows& s, const void* rows,
                      const std::int32_t* positions, void* y, Stream stream) {
  if (s.bytes % 16 == 0 && aligned16(rows) && aligned16(y))
    return move<uint4>(s, rows, positions, y, stream);
  return move<unsigned char>(s, rows, positions, y, stream);
}

}  // namespace alpa::cuda
