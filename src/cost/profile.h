#pragma once
/// Measurements of the machine the program runs on.
#include <cstdint>

namespace alpa::cost {

/// Result of `measure_copy`. Rates count each byte twice: read and written.
struct CopyRate {
  double median_bytes_per_second = 0;
  double best_bytes_per_second = 0;
  int rounds = 0;
};

/// Copies `bytes` from one buffer to another with a team of `num_threads`, at least three times and
/// until `seconds` have passed. Buffers far larger than the caches give the rate of main memory.
/// Throws Error unless num_threads >= 1 and bytes >= 1.
CopyRate measure_copy(int num_threads, std::int64_t bytes = std::int64_t{64} << 20,
                      double seconds = 0.25);

}  // namespace alpa::cost
