// Which of cuBLASLt's algorithms a product takes: measured here, or remembered.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <functional>

#include "alpa/base/error.h"
#include "cache_folder.h"
#include "choice_file.h"
#include "kernels/cuda/random.h"
#include "product.h"
#include "status.h"

namespace alpa::cuda {
namespace {

constexpr int kCandidates = 16;
constexpr int kRounds = 5;
constexpr double kRoundSeconds =
    5e-4;  ///< that a candidate runs in a round, at least, if it is a short one
constexpr std::int64_t kReserveBytes = std::int64_t{64} << 20;  ///< left free by trials
constexpr int kMostRuns = 20;                                   ///< of a candidate in a round
/// Another algorithm than cuBLASLt's first choice must be this much faster: less may be noise.
constexpr double kWorthIt = 0.99;

std::int64_t elements_between(std::int64_t rows, std::int64_t row_stride, std::int64_t columns,
                              std::int64_t column_stride) {
  return (rows - 1) * row_stride + (columns - 1) * column_stride + 1;
}

/// Memory of a product's own, with random operands: a product of zeros draws less power and is faster.
class Trial {
 public:
  /// Nothing if the card's memory is too full.
  static std::optional<Trial> of(const ProductShape& shape) {
    std::size_t free = 0, total = 0;
    check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    const Elements e = elements_of(shape);
    const std::int64_t operands = (e.a + e.b) * static_cast<std::int64_t>(size_of(shape.operands)),
                       results =
                           (e.c + e.vector + e.kept) * static_cast<std::int64_t>(size_of(shape.result));
    const std::int64_t bytes = operands + results + shape.workspace_bytes + kReserveBytes;
    if (bytes > static_cast<std::int64_t>(free)) return std::nullopt;
    return Trial(shape, e);
  }

  /// Seconds a run takes, of so many in a row.
  double seconds(const Product& product, const cublasLtMatmulAlgo_t& algorithm, int runs) const {
    check(cudaEventRecord(start_.get(), stream_.get()), "cudaEventRecord");
    for (int i = 0; i < runs; ++i) product.run(algorithm, buffers_, workspace_.get(), stream_.get());
    check(cudaEventRecord(stop_.get(), stream_.get()), "cudaEventRecord");
    return seconds_between(start_.get(), stop_.get()) / runs;
  }

 private:
  struct Elements {
    std::int64_t a, b, c, vector, kept;
  };
  static Elements elements_of(const ProductShape& shape) {
    const cpu::MatmulShape& s = shape.matrices;
    const cpu::BatchDim batch = s.batch.empty() ? cpu::BatchDim{} : s.batch[0];
    const std::int64_t last = batch.extent - 1;
    return {elements_between(s.m, s.a_m, s.k, s.a_k) + last * batch.a,
            elements_between(s.k, s.b_k, s.n, s.b_n) + last * batch.b,
            elements_between(s.m, s.c_m, s.n, 1) + last * batch.c, std::max(s.m, s.n), s.m * s.n};
  }

  Trial(const ProductShape& shape, const Elements& e)
      : step_(allocate_device(sizeof(RandomStep))),
        workspace_(allocate_device(shape.workspace_bytes)),
        stream_(make_stream()),
        start_(make_event(true)),
        stop_(make_event(true)) {
    check(cudaMemset(step_.get(), 0, sizeof(RandomStep)), "cudaMemset");
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");  // the stream does not wait for the memset
    buffers_.a = random(shape.operands, e.a);
    buffers_.b = random(shape.operands, e.b);
    buffers_.c = random(shape.result, e.c);
    if (shape.epilogue.has_vector()) buffers_.vector = random(shape.result, e.vector);
    if (shape.epilogue.has_kept()) buffers_.kept = random(shape.result, e.kept);
  }

  void* random(DType dtype, std::int64_t elements) {
    memory_.push_back(allocate_device(elements * static_cast<std::int64_t>(size_of(dtype))));
    RandomLaunch launch;
    const std::int64_t begin = 0;
    invariant(plan_random(launch, Distribution::uniform, dtype, memory_.size(), -1, 1, 1, &elements, &begin,
                          &elements),
              "product: random operand of {} elements", elements);
    check(static_cast<cudaError_t>(run_random(launch, static_cast<const RandomStep*>(step_.get()),
                                              memory_.back().get(), stream_.get())),
          "random operand of a product");
    return memory_.back().get();
  }

  DeviceBlock step_, workspace_;
  std::vector<DeviceBlock> memory_;
  StreamHandle stream_;
  EventHandle start_, stop_;
  ProductBuffers buffers_;
};

/// The fastest of these: medians of rounds in which all run, so that the card's changes of speed hit all
/// alike.
std::size_t fastest(const Product& product, const std::vector<cublasLtMatmulAlgo_t>& candidates,
                    const Trial& trial) {
  std::vector<std::array<double, kRounds>> seconds(candidates.size());
  std::vector<int> runs(candidates.size());
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    trial.seconds(product, candidates[i], 1);  // loads the kernel
    const double once = trial.seconds(product, candidates[i], 1);
    runs[i] = static_cast<int>(std::clamp(kRoundSeconds / std::max(once, 1e-9), 1.0, 1.0 * kMostRuns));
  }
  for (int round = 0; round < kRounds; ++round)
    for (std::size_t i = 0; i < candidates.size(); ++i)
      seconds[i][round] = trial.seconds(product, candidates[i], runs[i]);
  std::vector<double> median;
  for (auto& rounds : seconds) {
    std::nth_element(rounds.begin(), rounds.begin() + kRounds / 2, rounds.end());
    median.push_back(rounds[kRounds / 2]);
  }
  const auto best = std::min_element(median.begin(), median.end());
  return *best < kWorthIt * median[0] ? static_cast<std::size_t>(best - median.begin()) : 0;
}

template <class T>
void set(const LtPreference& preference, cublasLtMatmulPreferenceAttributes_t attribute, T value) {
  check(cublasLtMatmulPreferenceSetAttribute(preference.get(), attribute, &value, sizeof value),
        "cublasLtMatmulPreferenceSetAttribute");
}

LtPreference preference_of(const ProductShape& shape) {
  cublasLtMatmulPreference_t created = nullptr;
  check(cublasLtMatmulPreferenceCreate(&created), "cublasLtMatmulPreferenceCreate");
  LtPreference preference(created);
  set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
      static_cast<std::uint64_t>(shape.workspace_bytes));
  set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE | CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE});
  for (const auto matrix :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    set(preference, matrix, static_cast<std::uint32_t>(shape.alignment));
  return preference;
}

std::string card_file() {
  int device = 0;
  cudaDeviceProp properties;
  check(cudaGetDevice(&device), "cudaGetDevice");
  check(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
  return choice_file_name(properties.name, cublasLtGetVersion());
}

}  // namespace

Products::Products(const ProductOptions& options) : options_(options) {
  cublasLtHandle_t created = nullptr;
  check(cublasLtCreate(&created), "cublasLtCreate");
  lt_.reset(created);
  if (!options_.measured || !options_.cached) return;
  file_ = card_file();
  stored_ = read_choices(file_);
}

std::optional<Product> Products::load(const ProductShape& shape) {
  Product product(lt_.get(), shape, options_.tf32);
  const std::optional<cublasLtMatmulAlgo_t> algorithm = choose(product);
  if (!algorithm) return std::nullopt;
  product.algorithm_ = *algorithm;
  return product;
}

std::vector<cublasLtMatmulAlgo_t> Products::candidates(const Product& p) const {
  const LtPreference preference = preference_of(p.shape_);
  std::array<cublasLtMatmulHeuristicResult_t, kCandidates> results{};
  int found = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      lt_.get(), p.matmul_.get(), p.b_.get(), p.a_.get(), p.c_.get(), p.c_.get(), preference.get(),
      options_.measured ? kCandidates : 1, results.data(), &found);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE) return {};
  check(status, "cublasLtMatmulAlgoGetHeuristic");
  std::vector<cublasLtMatmulAlgo_t> algorithms;
  for (int i = 0; i < found; ++i)
    if (results[i].state == CUBLAS_STATUS_SUCCESS) algorithms.push_back(results[i].algo);
  return algorithms;
}

std::optional<cublasLtMatmulAlgo_t> Products::choose(const Product& product) {
  const std::string key = (options_.tf32 ? "tf32 " : "") + to_string(product.shape_);
  if (const auto known = chosen_.find(key); known != chosen_.end()) return known->second;
  std::optional<cublasLtMatmulAlgo_t>& chosen = chosen_[key];
  if (chosen = remembered(product, key); chosen) return chosen;
  const std::vector<cublasLtMatmulAlgo_t> algorithms = candidates(product);
  if (!algorithms.empty()) chosen = algorithms[0];
  if (!options_.measured || algorithms.size() < 2) return chosen;
  const std::optional<Trial> trial = Trial::of(product.shape_);
  if (!trial) return chosen;
  chosen = algorithms[fastest(product, algorithms, *trial)];
  remember(key, *chosen);
  return chosen;
}

std::optional<cublasLtMatmulAlgo_t> Products::remembered(const Product& p, const std::string& key) const {
  const auto found = stored_.find(key);
  if (found == stored_.end()) return std::nullopt;
  cublasLtMatmulAlgo_t algorithm{};
  if (!from_text(found->second, &algorithm, sizeof algorithm)) return std::nullopt;
  cublasLtMatmulHeuristicResult_t result{};
  const cublasStatus_t status = cublasLtMatmulAlgoCheck(lt_.get(), p.matmul_.get(), p.b_.get(), p.a_.get(),
                                                        p.c_.get(), p.c_.get(), &algorithm, &result);
  const bool fits = status == CUBLAS_STATUS_SUCCESS &&
                    result.workspaceSize <= static_cast<std::size_t>(p.shape_.workspace_bytes);
  return fits ? std::optional(algorithm) : std::nullopt;
}

void Products::remember(const std::string& key, const cublasLtMatmulAlgo_t& algorithm) {
  if (file_.empty()) return;
  stored_[key] = to_text(&algorithm, sizeof algorithm);
  add_choice(file_, key, stored_[key]);
}

}  // namespace alpa::cuda
