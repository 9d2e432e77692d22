#pragma once
/// Random numbers of parts of tensors.
#include <cstdint>

#include "src/base/philox.h"
#include "src/tensor/kernel.h"

namespace alpa::cpu {

/// Most numbers of one call of `draw_uniform`.
inline constexpr std::int64_t kMostDrawn = 512;

/// The stream of this call's attribute "stream", in this step and micro-batch.
RandomStream stream_of(const KernelCall& call);

/// Numbers [first, first + n) of a stream, in [0, 1); n is at most kMostDrawn.
void draw_uniform(const RandomStream& stream, std::uint64_t first, double* values, std::int64_t n);
/// The same of standard normal numbers.
void draw_normal(const RandomStream& stream, std::uint64_t first, double* values, std::int64_t n);

/// Index in the whole tensor of the local element (row, column); columns are the last dimension.
std::int64_t global_index(const KernelTensor& y, std::int64_t row, std::int64_t column);

}  // namespace alpa::cpu
