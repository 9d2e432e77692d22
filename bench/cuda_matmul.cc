// Matrix products as a program's einsums load them, against cuBLASLt called directly: with the first
// algorithm that it proposes, and with the fastest of 64, any workspace and reduction allowed.
//   bench_cuda_matmul [ROUNDS]      default: 15
// One JSON object per line: operations per second and, of the direct calls of the same shape, the ratios of
// their times to ours (above 1: ours is faster).
#include <cublasLt.h>
#include <cuda_runtime.h>
#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "alpa/base/error.h"
#include "alpa/ops/all_ops.h"
#include "alpa/spmd/program.h"
#include "interleave.h"
#include "kernels/cuda/random.h"
#include "kernels/cuda/scratch.h"
#include "src/cuda/kernel.h"
#include "src/cuda/lt_handles.h"
#include "src/cuda/product.h"
#include "src/cuda/status.h"

using namespace alpa;

namespace {

using cuda::check;

constexpr std::int64_t kWorkspaceBytes = std::int64_t{64} << 20;
constexpr int kCandidates = 64;

/// Random numbers of [-1, 1): products of zeros are faster than any real ones.
std::byte* random_tensor(const TensorType& type) {
  static const cuda::DeviceBlock step = [] {
    cuda::DeviceBlock block = cuda::allocate_device(sizeof(cuda::RandomStep));
    check(cudaMemset(block.get(), 0, sizeof(cuda::RandomStep)), "cudaMemset");
    return block;
  }();
  const std::int64_t elements = type.elements(), begin = 0;
  auto* const data = static_cast<std::byte*>(cuda::allocate_device(type.bytes()).release());
  if (!is_floating(type.dtype)) return data;
  cuda::RandomLaunch launch;
  static std::uint64_t stream = 0;
  require(cuda::plan_random(launch, cuda::Distribution::uniform, type.dtype, ++stream, -1, 1, 1, &elements,
                            &begin, &elements),
          "plan_random");
  check(static_cast<cudaError_t>(
            cuda::run_random(launch, static_cast<const cuda::RandomStep*>(step.get()), data, nullptr)),
        "run_random");
  return data;
}

constexpr int kRuns = 10;  ///< in a row, so that the gap before the first one is little

/// Seconds of the device for one run, without the host's.
double timed(const std::function<void()>& run) {
  static const cuda::EventHandle begin = cuda::make_event(true), end = cuda::make_event(true);
  check(cudaEventRecord(begin.get(), nullptr), "cudaEventRecord");
  for (int i = 0; i < kRuns; ++i) run();
  check(cudaEventRecord(end.get(), nullptr), "cudaEventRecord");
  return cuda::seconds_between(begin.get(), end.get()) / kRuns;
}

/// cuBLASLt's product of n × n matrices, column-major.
class Direct {
 public:
  Direct(std::int64_t n, DType dtype, bool tf32, cublasOperation_t a, cublasOperation_t b)
      : workspace_(cuda::allocate_device(kWorkspaceBytes)) {
    for (std::byte*& matrix : matrices_) matrix = random_tensor({dtype, {n, n}});
    cublasLtHandle_t lt = nullptr;
    check(cublasLtCreate(&lt), "cublasLtCreate");
    lt_.reset(lt);
    cublasLtMatmulDesc_t matmul = nullptr;
    check(cublasLtMatmulDescCreate(&matmul, tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F,
                                   CUDA_R_32F),
          "cublasLtMatmulDescCreate");
    matmul_.reset(matmul);
    check(cublasLtMatmulDescSetAttribute(matmul, CUBLASLT_MATMUL_DESC_TRANSA, &a, sizeof a), "TRANSA");
    check(cublasLtMatmulDescSetAttribute(matmul, CUBLASLT_MATMUL_DESC_TRANSB, &b, sizeof b), "TRANSB");
    cublasLtMatrixLayout_t layout = nullptr;
    const auto size = static_cast<std::uint64_t>(n);
    check(cublasLtMatrixLayoutCreate(&layout, dtype == bf16 ? CUDA_R_16BF : CUDA_R_32F, size, size, n),
          "cublasLtMatrixLayoutCreate");
    layout_.reset(layout);
    propose();
    std::vector<double> seconds;
    for (int i = 0; i < found_; ++i) seconds.push_back(median_of_five(i));
    best_ = static_cast<int>(std::min_element(seconds.begin(), seconds.end()) - seconds.begin());
  }

  void run_first() const { run(0); }
  void run_best() const { run(best_); }

 private:
  void propose() {
    cublasLtMatmulPreference_t created = nullptr;
    check(cublasLtMatmulPreferenceCreate(&created), "cublasLtMatmulPreferenceCreate");
    const cuda::LtPreference preference(created);
    check(cublasLtMatmulPreferenceSetAttribute(created, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                               &kWorkspaceBytes, sizeof kWorkspaceBytes),
          "MAX_WORKSPACE_BYTES");
    check(cublasLtMatmulAlgoGetHeuristic(lt_.get(), matmul_.get(), layout_.get(), layout_.get(),
                                         layout_.get(), layout_.get(), created, kCandidates, results_,
                                         &found_),
          "cublasLtMatmulAlgoGetHeuristic");
    require(found_ > 0, "cublasLtMatmulAlgoGetHeuristic: no algorithm");
  }

  void run(int i) const {
    const float one = 1, zero = 0;
    check(cublasLtMatmul(lt_.get(), matmul_.get(), &one, matrices_[0], layout_.get(), matrices_[1],
                         layout_.get(), &zero, matrices_[2], layout_.get(), matrices_[2], layout_.get(),
                         &results_[i].algo, workspace_.get(), kWorkspaceBytes, nullptr),
          "cublasLtMatmul");
  }

  double median_of_five(int i) const {
    run(i);  // loads the kernel
    std::vector<double> rounds;
    for (int round = 0; round < 5; ++round) rounds.push_back(timed([&] { run(i); }));
    return bench::median(rounds);
  }

  cuda::DeviceBlock workspace_;
  std::byte* matrices_[3] = {};
  cuda::LtHandle lt_;
  cuda::LtMatmul matmul_;
  cuda::LtLayout layout_;
  cublasLtMatmulHeuristicResult_t results_[kCandidates] = {};
  int found_ = 0, best_ = 0;
};

/// An einsum, or one with an epilogue, as the executor loads and queues it.
std::function<void()> loaded(const OpDef& op, const Attributes& attributes,
                             const std::vector<TensorType>& operands, const cuda::Card& card) {
  const auto call = std::make_shared<KernelCall>();
  const auto kept = std::make_shared<Attributes>(attributes);
  const auto tensor = [](const TensorType& type) {
    return KernelTensor{random_tensor(type), type, Shape(type.shape.size(), 0), type.shape};
  };
  call->attributes = kept.get();
  for (const TensorType& type : operands) call->inputs.push_back(tensor(type));
  for (const TensorType& type : result_types(op, {operands, attributes}))
    call->outputs.push_back(tensor(type));
  call->workspace =
      static_cast<std::byte*>(cuda::allocate_device(cuda::scratch_bytes(op.name, *call) + 1).release());
  return [call, kept, launch = cuda::find_kernel(op)(op, *call, card)] { launch(*call, nullptr); };
}

struct Measured {
  std::string name;
  std::int64_t n;
  std::function<void()> ours, first, best;
  std::vector<double> ours_seconds = {}, first_seconds = {}, best_seconds = {};
};

struct Kind {
  const char* name;
  DType dtype;
  bool tf32;
};

/// The products of a dense layer's forward and backward pass, on their own and with what follows them.
void add_layer(std::vector<Measured>& all, std::int64_t n, const Kind& kind, const cuda::Card& card) {
  const TensorType matrix{kind.dtype, {n, n}}, vector{kind.dtype, {n}}, bits{u8, {n, n / 8}};
  struct Row {
    const char *what, *equation, *epilogue;
    cublasOperation_t a, b;
    std::vector<TensorType> more = {};
  };
  const Row rows[] = {
      {"forward", "mk,kn->mn", "", CUBLAS_OP_N, CUBLAS_OP_N},
      {"dx", "mn,kn->mk", "", CUBLAS_OP_T, CUBLAS_OP_N},
      {"dw", "mk,mn->kn", "", CUBLAS_OP_N, CUBLAS_OP_T},
      {"forward", "mk,kn->mn", "bias relu keep", CUBLAS_OP_N, CUBLAS_OP_N, {vector}},
      {"forward", "mk,kn->mn", "bias gelu keep", CUBLAS_OP_N, CUBLAS_OP_N, {vector}},
      {"dx", "mn,kn->mk", "relu gradient", CUBLAS_OP_T, CUBLAS_OP_N, {bits}},
      {"dx", "mn,kn->mk", "gelu gradient", CUBLAS_OP_T, CUBLAS_OP_N, {matrix}},
      {"dw", "mk,mn->kn", "sums1", CUBLAS_OP_N, CUBLAS_OP_T},
  };
  std::map<std::string, std::shared_ptr<Direct>> directs;  // by `what`
  for (const Row& row : rows) {
    const std::string epilogue = row.epilogue;
    Attributes attributes{{"equation", row.equation}};
    if (!epilogue.empty()) attributes.set("epilogue", epilogue);
    std::vector<TensorType> operands{matrix, matrix};
    operands.insert(operands.end(), row.more.begin(), row.more.end());
    std::shared_ptr<Direct>& direct = directs[row.what];
    if (!direct) direct = std::make_shared<Direct>(n, kind.dtype, kind.tf32, row.a, row.b);
    all.push_back(
        {fmt::format("{} {} {}{}{}", n, kind.name, row.what, epilogue.empty() ? "" : " + ", epilogue), n,
         loaded(epilogue.empty() ? ops::einsum : ops::einsum_epilogue, attributes, operands, card),
         [direct] { direct->run_first(); }, [direct] { direct->run_best(); }});
  }
}

void print(const Measured& m) {
  const double ours = bench::median(m.ours_seconds), n = static_cast<double>(m.n);
  fmt::print(R"({{"name": "{}", "teraflops": {:.1f}, "ratio_to_first": {:.3f}, "ratio_to_best": {:.3f}}})"
             "\n",
             m.name, 2 * n * n * n / ours * 1e-12, bench::median(m.first_seconds) / ours,
             bench::median(m.best_seconds) / ours);
}

}  // namespace

int main(int argc, char** argv) {
  int devices = 0;
  const cudaError_t status = cudaGetDeviceCount(&devices);
  if (status != cudaSuccess || devices == 0) {
    fmt::print("skipped: no CUDA device: {}\n", cudaGetErrorString(status));
    return 0;
  }
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 15;
  cudaDeviceProp device;
  check(cudaGetDeviceProperties(&device, 0), "cudaGetDeviceProperties");
  cuda::Products exact({.tf32 = false, .measured = true, .cached = false}),
      rounded({.tf32 = true, .measured = true, .cached = false});
  const cuda::Card card{0, device.major * 10 + device.minor, &exact};
  cuda::Card tf32_card = card;
  tf32_card.products = &rounded;
  std::vector<Measured> all;
  for (const Kind& kind : {Kind{"f32", f32, false}, Kind{"tf32", f32, true}, Kind{"bf16", bf16, false}})
    add_layer(all, 2048, kind, kind.tf32 ? tf32_card : card);
  for (int round = -1; round < rounds; ++round)
    for (Measured& m : all) {
      const double ours = timed(m.ours), first = timed(m.first), best = timed(m.best);
      if (round < 0) continue;
      m.ours_seconds.push_back(ours), m.first_seconds.push_back(first), m.best_seconds.push_back(best);
    }
  for (const Measured& m : all) print(m);
}
