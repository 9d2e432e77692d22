#pragma once
/// A call of `write_rows`, as CPU and CUDA kernels see it.
#include <cstdint>

namespace alpa {
struct KernelCall;
}

namespace alpa::kernels {

/// `count` rows of `bytes` bytes go to each of `batch` tensors of `extent` rows.
struct WrittenRows {
  std::int64_t batch = 0, count = 0, extent = 0, bytes = 0;
};

WrittenRows written_rows(const KernelCall& call);

}  // namespace alpa::kernels
