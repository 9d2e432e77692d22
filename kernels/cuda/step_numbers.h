#pragma once
/// Values that change with steps and micro-batches, read from device memory, so that a captured
/// list of instructions serves all of them.
#include "kernels/cuda/launch.h"

namespace alpa::cuda {

/// The numbers that a list of a device is run with (StepContext of src/tensor/kernel.h).
struct StepNumbers {
  std::uint64_t seed = 0;
  std::int64_t step = 0;
  std::int64_t micro_batch = 0;
};

/// The list's next run is that of the next micro-batch. `now` is device memory, as everywhere here.
Status run_next_micro_batch(StepNumbers* now, Stream stream);

/// Tells the host where a list is: `to`, mapped memory that it reads at any time, becomes `place`,
/// with the micro-batch in the upper 32 bits. `now` null: without it.
Status run_mark(const StepNumbers* now, std::uint64_t place, std::uint64_t* to, Stream stream);

/// y = part `now->micro_batch` of `parts`, which has `bytes` for every micro-batch, one after the
/// other. `parts` and y begin at multiples of 16 bytes and do not overlap.
Status run_load_part(const StepNumbers* now, const void* parts, std::int64_t bytes, void* y,
                     Stream stream);

}  // namespace alpa::cuda
