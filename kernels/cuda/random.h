#pragma once
/// Random numbers on the device: contracts of `cpu::random_normal` and `cpu::random_uniform`.
/// Everything is computed in double by operations that IEEE 754 rounds exactly, none of them fused,
/// so the numbers are bit for bit those of the CPU, whichever part of the tensor the device holds.
/// (Where the compiler of the CPU kernels fuses the last a + b·x, as on processors that always have
/// FMA, the last bit may differ before rounding to the element type.)
#include "kernels/cuda/step_numbers.h"

namespace alpa::cuda {

/// kept: elements of an operand, kept where a uniform number is at least a rate (dropout).
enum class Distribution : std::uint8_t { uniform, normal, kept };

/// Positions of the local elements in the whole tensor: rows of neighbours.
struct RandomLaunch {
  DType dtype = DType::f32;
  Distribution distribution = Distribution::uniform;
  std::uint64_t stream = 0;
  /// element = offset + scale · number; kept: scale · x where the number is at least offset, else 0
  double offset = 0, scale = 1;
  /// their first elements' indices in the whole tensor, less `begin`
  Walk rows;
  std::int64_t row_count = 1, columns = 1;
  std::int64_t begin = 0;  ///< index of the first element
};

/// Numbers between a and b, or with mean a and standard deviation b, or dropout at rate a, for the
/// local part `extent` at `at` of a tensor of shape `whole`, all `rank` numbers. Returns false if
/// more than kMaxDims dimensions remain after merging.
bool plan_random(RandomLaunch& launch, Distribution distribution, DType dtype, std::uint64_t stream,
                 double a, double b, int rank, const std::int64_t* extent, const std::int64_t* at,
                 const std::int64_t* whole);

/// `step` is device memory; `x` is the operand of dropout, which y may overwrite.
Status run_random(const RandomLaunch& launch, const StepNumbers* step, void* y, Stream stream,
                  const void* x = nullptr);

}  // namespace alpa::cuda
