// src/cuda/ceilings.cc — measures a device's best rates: a large matrix product and a large copy
#include <functional>

#include "alpa/base/error.h"
#include "discovery.h"
#include "matmul.h"
#include "src/base/timing.h"
#include "status.h"
#include "trial.h"

namespace alpa::cuda {
namespace {

/// Seconds the device takes for `work` on `stream`: the median over `seconds`, at least
/// three, after two to warm up.
double median_seconds(cudaStream_t stream, double seconds, const std::function<void()>& work) {
  const EventHandle start = make_event(true), stop = make_event(true);
  const auto timed = [&] {
    check(cudaEventRecord(start.get(), stream), "cudaEventRecord");
    work();
    check(cudaEventRecord(stop.get(), stream), "cudaEventRecord");
    return seconds_between(start.get(), stop.get());
  };
  timed(), timed();
  return median_over(seconds, timed);
}

}  // namespace

double matmul_rate(std::int32_t device, CudaMatmul kind, double seconds) {
  constexpr std::int64_t n = 8192, kWorkspaceBytes = std::int64_t{32} << 20;
  check(cudaSetDevice(device), "cudaSetDevice");
  const DType dtype = kind == CudaMatmul::bf16 ? bf16 : f32;
  const std::int64_t bytes = n * n * static_cast<std::int64_t>(size_of(dtype));
  const MatmulProblem problem{
      .matrices =
          {.m = n, .n = n, .k = n, .a_m = n, .a_k = 1, .b_k = n, .b_n = 1, .c_m = n, .batch = {}},
      .operands = dtype,
      .result = dtype,
      .workspace_bytes = kWorkspaceBytes,
      .epilogue = {}};
  Matmuls products({.tf32 = kind == CudaMatmul::tf32, .measured = false, .cached = false});
  const std::optional<Matmul> product = products.load(problem);
  require(product.has_value(), "cublasLtMatmulAlgoGetHeuristic: no algorithm for the product");
  std::optional<Trial> trial = Trial::of(3 * bytes + kWorkspaceBytes);
  require(trial.has_value(), "no memory for the product {}", to_string(problem));
  const MatmulBuffers buffers{.a = trial->random(dtype, n * n),
                              .b = trial->random(dtype, n * n),
                              .c = trial->scratch(bytes)};
  void* const workspace = trial->scratch(kWorkspaceBytes);
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  const StreamHandle stream = make_stream();
  const double time = median_seconds(stream.get(), seconds,
                                     [&] { product->run(buffers, workspace, stream.get()); });
  return 2.0 * n * n * n / time;
}

double copy_rate(std::int32_t device, double seconds) {
  constexpr std::int64_t bytes = std::int64_t{1} << 30;
  check(cudaSetDevice(device), "cudaSetDevice");
  const DeviceBlock from = allocate_device(bytes), to = allocate_device(bytes);
  check(cudaMemset(from.get(), 1, bytes), "cudaMemset");
  const StreamHandle stream = make_stream();
  const double time = median_seconds(stream.get(), seconds, [&] {
    check(cudaMemcpyAsync(to.get(), from.get(), bytes, cudaMemcpyDeviceToDevice, stream.get()),
          "cudaMemcpyAsync");
  });
  return 2.0 * static_cast<double>(bytes) / time;
}

}  // namespace alpa::cuda
