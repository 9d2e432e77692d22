// src/cuda/ceilings.cc — measures a device's best rates: a large matrix product and a large copy
#include <algorithm>
#include <functional>
#include <random>
#include <vector>

#include "alpa/base/error.h"
#include "discovery.h"
#include "lt_handles.h"
#include "src/base/timing.h"
#include "status.h"

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

/// Random numbers of [-1, 1): a product of zeros draws less power and runs
/// faster than any real one.
template <class Bits>
std::vector<Bits> random_numbers(std::size_t count) {
  std::minstd_rand random(1);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<Bits> numbers(count);
  for (Bits& number : numbers) {
    const float value = uniform(random);
    std::uint32_t bits = 0;
    std::copy_n(reinterpret_cast<const char*>(&value), sizeof bits, reinterpret_cast<char*>(&bits));
    // the upper half of an f32 is a bf16
    number = static_cast<Bits>(bits >> (32 - 8 * sizeof(Bits)));
  }
  return numbers;
}

template <class Bits>
void fill(void* data, std::int64_t count) {
  const std::vector<Bits> numbers = random_numbers<Bits>(std::size_t{1} << 20);
  for (std::int64_t at = 0; at < count; at += static_cast<std::int64_t>(numbers.size())) {
    const std::size_t part = std::min(numbers.size(), static_cast<std::size_t>(count - at));
    check(cudaMemcpy(static_cast<Bits*>(data) + at, numbers.data(), part * sizeof(Bits),
                     cudaMemcpyHostToDevice),
          "cudaMemcpy");
  }
}

constexpr std::int64_t kWorkspaceBytes = std::int64_t{32} << 20;

/// C = A·B of n × n matrices, column-major, through cuBLASLt.
class SquareProduct {
 public:
  SquareProduct(CudaMatmul kind, std::int64_t n)
      : type_(kind == CudaMatmul::bf16 ? CUDA_R_16BF : CUDA_R_32F),
        workspace_(allocate_device(kWorkspaceBytes)) {
    const std::int64_t bytes = kind == CudaMatmul::bf16 ? 2 : 4;
    for (DeviceBlock& matrix : matrices_) matrix = allocate_device(n * n * bytes);
    for (int i = 0; i < 2; ++i)
      bytes == 2 ? fill<std::uint16_t>(matrices_[i].get(), n * n)
                 : fill<std::uint32_t>(matrices_[i].get(), n * n);
    describe(kind, n);
    choose();
  }

  void run(cudaStream_t stream) const {
    const float one = 1, zero = 0;
    check(cublasLtMatmul(lt_.get(), description_.get(), &one, matrices_[0].get(), layout_.get(),
                         matrices_[1].get(), layout_.get(), &zero, matrices_[2].get(),
                         layout_.get(), matrices_[2].get(), layout_.get(), &algorithm_,
                         workspace_.get(), kWorkspaceBytes, stream),
          "cublasLtMatmul");
  }

 private:
  void describe(CudaMatmul kind, std::int64_t n) {
    cublasLtHandle_t lt = nullptr;
    check(cublasLtCreate(&lt), "cublasLtCreate");
    lt_.reset(lt);
    cublasLtMatmulDesc_t description = nullptr;
    const auto compute =
        kind == CudaMatmul::tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    check(cublasLtMatmulDescCreate(&description, compute, CUDA_R_32F), "cublasLtMatmulDescCreate");
    description_.reset(description);
    cublasLtMatrixLayout_t layout = nullptr;
    check(cublasLtMatrixLayoutCreate(&layout, type_, n, n, n), "cublasLtMatrixLayoutCreate");
    layout_.reset(layout);
  }

  void choose() {
    cublasLtMatmulPreference_t created = nullptr;
    check(cublasLtMatmulPreferenceCreate(&created), "cublasLtMatmulPreferenceCreate");
    const LtPreference preference(created);
    check(cublasLtMatmulPreferenceSetAttribute(created, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                               &kWorkspaceBytes, sizeof kWorkspaceBytes),
          "cublasLtMatmulPreferenceSetAttribute");
    cublasLtMatmulHeuristicResult_t result{};
    int found = 0;
    check(
        cublasLtMatmulAlgoGetHeuristic(lt_.get(), description_.get(), layout_.get(), layout_.get(),
                                       layout_.get(), layout_.get(), created, 1, &result, &found),
        "cublasLtMatmulAlgoGetHeuristic");
    require(found > 0, "cublasLtMatmulAlgoGetHeuristic: no algorithm for the product");
    algorithm_ = result.algo;
  }

  cudaDataType_t type_;
  DeviceBlock matrices_[3], workspace_;
  LtHandle lt_;
  LtMatmul description_;
  LtLayout layout_;
  cublasLtMatmulAlgo_t algorithm_{};
};

}  // namespace

double matmul_rate(std::int32_t device, CudaMatmul kind, double seconds) {
  constexpr std::int64_t n = 8192;
  check(cudaSetDevice(device), "cudaSetDevice");
  const SquareProduct product(kind, n);
  const StreamHandle stream = make_stream();
  const double time = median_seconds(stream.get(), seconds, [&] { product.run(stream.get()); });
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
