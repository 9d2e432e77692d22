// src/cuda/ceilings.cc — measures a device's best rates: a large matrix product and a large copy
#include <algorithm>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "alpa/base/error.h"
#include "discovery.h"
#include "matmul.h"
#include "src/base/timing.h"
#include "status.h"
#include "trial.h"

namespace alpa::cuda {
namespace {

using TimedWork = std::function<void(cudaStream_t)>;

/// Times work on a stream of its own.
class Timer {
 public:
  /// Seconds the device takes for `work`.
  double operator()(const TimedWork& work) const {
    check(cudaEventRecord(start_.get(), stream_.get()), "cudaEventRecord");
    work(stream_.get());
    check(cudaEventRecord(stop_.get(), stream_.get()), "cudaEventRecord");
    return seconds_between(start_.get(), stop_.get());
  }

 private:
  StreamHandle stream_ = make_stream();
  EventHandle start_ = make_event(true), stop_ = make_event(true);
};

/// Sizes grow until work would take longer. Cards do all that is measured here in some 20 ms, and
/// reach the last size. A processor that stands in for one, as in the emulation, takes minutes.
constexpr double kLongestSeconds = 0.3;

struct Measured {
  std::int64_t size;
  double seconds;
};

/// Work of the last of `sizes`, each eight times as much work as the one before, or of the last
/// that is not expected to take too long. The median over `seconds`, at least three, after three to
/// warm up. The first of these loads kernels.
Measured largest(const std::vector<std::int64_t>& sizes, double seconds,
                 const std::function<TimedWork(std::int64_t size)>& work_of) {
  const Timer timed;
  for (const std::int64_t size : sizes) {
    const TimedWork work = work_of(size);
    timed(work);
    const double once = std::min(timed(work), timed(work));
    if (size == sizes.back() || 8 * once > kLongestSeconds)
      return {size, median_over(seconds, [&] { return timed(work); })};
  }
  bug("no sizes to measure");
}

constexpr std::int64_t kWorkspaceBytes = std::int64_t{32} << 20;

MatmulProblem square_product(std::int64_t n, DType dtype) {
  return {
      .matrices =
          {.m = n, .n = n, .k = n, .a_m = n, .a_k = 1, .b_k = n, .b_n = 1, .c_m = n, .batch = {}},
      .operands = dtype,
      .result = dtype,
      .workspace_bytes = kWorkspaceBytes,
      .epilogue = {}};
}

/// A product of random matrices, with memory of its own.
TimedWork product_work(Matmuls& products, const MatmulProblem& problem) {
  const std::int64_t elements = problem.matrices.m * problem.matrices.n;
  const std::int64_t bytes = elements * static_cast<std::int64_t>(size_of(problem.operands));
  std::optional<Matmul> product = products.load(problem);
  require(product.has_value(), "cublasLtMatmulAlgoGetHeuristic: no algorithm for the product");
  std::optional<Trial> trial = Trial::of(3 * bytes + kWorkspaceBytes);
  require(trial.has_value(), "no memory for the product {}", to_string(problem));
  const MatmulBuffers buffers{.a = trial->random(problem.operands, elements),
                              .b = trial->random(problem.operands, elements),
                              .c = trial->scratch(bytes)};
  void* const workspace = trial->scratch(kWorkspaceBytes);
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  return [=, memory = std::make_shared<Trial>(std::move(*trial)),
          matmul = std::make_shared<Matmul>(std::move(*product))](cudaStream_t stream) {
    matmul->run(buffers, workspace, stream);
  };
}

/// A copy, with memory of its own.
TimedWork copy_work(std::int64_t bytes) {
  const auto blocks = std::make_shared<std::pair<DeviceBlock, DeviceBlock>>(allocate_device(bytes),
                                                                            allocate_device(bytes));
  check(cudaMemset(blocks->first.get(), 1, bytes), "cudaMemset");
  return [=](cudaStream_t stream) {
    check(cudaMemcpyAsync(blocks->second.get(), blocks->first.get(), bytes,
                          cudaMemcpyDeviceToDevice, stream),
          "cudaMemcpyAsync");
  };
}

}  // namespace

double matmul_rate(std::int32_t device, CudaMatmul kind, double seconds) {
  check(cudaSetDevice(device), "cudaSetDevice");
  const DType dtype = kind == CudaMatmul::bf16 ? bf16 : f32;
  Matmuls products({.tf32 = kind == CudaMatmul::tf32, .measured = false, .cached = false});
  const Measured product =
      largest({256, 512, 1024, 2048, 4096, 8192}, seconds,
              [&](std::int64_t n) { return product_work(products, square_product(n, dtype)); });
  const auto n = static_cast<double>(product.size);
  return 2 * n * n * n / product.seconds;
}

double copy_rate(std::int32_t device, double seconds) {
  constexpr std::int64_t kMiB = std::int64_t{1} << 20;
  check(cudaSetDevice(device), "cudaSetDevice");
  const Measured copy = largest({2 * kMiB, 16 * kMiB, 128 * kMiB, 1024 * kMiB}, seconds, copy_work);
  return 2 * static_cast<double>(copy.size) / copy.seconds;
}

}  // namespace alpa::cuda
