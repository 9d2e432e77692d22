// src/cuda/matmul_autotune.cc — chooses cuBLASLt's algorithm of a product, by
// measurement or from the cache
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstdio>

#include "alpa/base/error.h"
#include "choice_file.h"
#include "matmul.h"
#include "status.h"
#include "trial.h"

namespace alpa::cuda {
namespace {

constexpr int kMatmulCandidates = 16;
constexpr std::string_view kJoint = "joint", kApart = "apart";

std::int64_t element_bytes(DType dtype) { return static_cast<std::int64_t>(size_of(dtype)); }

/// Operands, results and workspace of a product in a trial; nothing without memory for them.
struct MatmulTrial {
  Trial trial;
  MatmulBuffers buffers;
  void* workspace;

  static std::optional<MatmulTrial> of(const MatmulProblem& shape);
  Trial::Outcome run(const Matmul& product, const std::vector<cublasLtMatmulAlgo_t>& algorithms,
                     const Stopwatch& node) const;
};

std::int64_t elements_between(std::int64_t rows, std::int64_t row_stride, std::int64_t columns,
                              std::int64_t column_stride) {
  return (rows - 1) * row_stride + (columns - 1) * column_stride + 1;
}

std::optional<MatmulTrial> MatmulTrial::of(const MatmulProblem& shape) {
  const kernels::MatmulShape& s = shape.matrices;
  const kernels::BatchDim batch = s.batch.empty() ? kernels::BatchDim{} : s.batch[0];
  const std::int64_t last = batch.extent - 1,
                     a = elements_between(s.m, s.a_m, s.k, s.a_k) + last * batch.a,
                     b = elements_between(s.k, s.b_k, s.n, s.b_n) + last * batch.b,
                     c = elements_between(s.m, s.c_m, s.n, 1) + last * batch.c,
                     vector = shape.epilogue.has_vector()
                                  ? std::max(s.m, s.n) + last * shape.vector_stride
                                  : 0,
                     kept = shape.epilogue.has_kept() ? c : 0, addend = shape.epilogue.add ? c : 0;
  std::optional<Trial> trial =
      Trial::of((a + b) * element_bytes(shape.operands) +
                (c + vector + kept + addend) * element_bytes(shape.result) + shape.workspace_bytes);
  if (!trial) return std::nullopt;
  MatmulBuffers buffers;
  buffers.a = trial->random(shape.operands, a);
  buffers.b = trial->random(shape.operands, b);
  buffers.c = trial->random(shape.result, c);
  if (vector > 0) buffers.vector = trial->random(shape.result, vector);
  if (kept > 0) buffers.kept = trial->random(shape.result, kept);
  if (addend > 0) buffers.addend = trial->random(shape.result, addend);
  void* const workspace = trial->scratch(shape.workspace_bytes);
  return MatmulTrial{std::move(*trial), buffers, workspace};
}

Trial::Outcome MatmulTrial::run(const Matmul& product,
                                const std::vector<cublasLtMatmulAlgo_t>& algorithms,
                                const Stopwatch& node) const {
  std::vector<Way> ways;
  for (const cublasLtMatmulAlgo_t& algorithm : algorithms)
    ways.push_back([&](Stream stream) { product.run(algorithm, buffers, workspace, stream); });
  return trial.run(ways, node);
}

template <class T>
void set(const LtPreference& preference, cublasLtMatmulPreferenceAttributes_t attribute, T value) {
  check(cublasLtMatmulPreferenceSetAttribute(preference.get(), attribute, &value, sizeof value),
        "cublasLtMatmulPreferenceSetAttribute");
}

LtPreference preference_of(const MatmulProblem& shape) {
  cublasLtMatmulPreference_t created = nullptr;
  check(cublasLtMatmulPreferenceCreate(&created), "cublasLtMatmulPreferenceCreate");
  LtPreference preference(created);
  set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
      static_cast<std::uint64_t>(shape.workspace_bytes));
  set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE |
                    CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE});
  for (const auto matrix :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    set(preference, matrix, static_cast<std::uint32_t>(shape.alignment));
  return preference;
}

}  // namespace

Matmuls::Matmuls(const MatmulOptions& options) : options_(options) {
  cublasLtHandle_t created = nullptr;
  check(cublasLtCreate(&created), "cublasLtCreate");
  lt_.reset(created);
  if (options_.measured && options_.cached)
    choices_ = Choices(choice_file_name("products", cublasLtGetVersion()), options_.known);
}

std::optional<Matmul> Matmuls::load(const MatmulProblem& shape, const Stopwatch& node) {
  Matmul product(lt_.get(), shape, options_.tf32);
  const std::optional<cublasLtMatmulAlgo_t> algorithm = choose(product, node);
  if (!algorithm) return std::nullopt;
  product.algorithm_ = *algorithm;
  return product;
}

std::vector<cublasLtMatmulAlgo_t> Matmuls::candidates(const Matmul& p) const {
  const LtPreference preference = preference_of(p.shape_);
  std::array<cublasLtMatmulHeuristicResult_t, kMatmulCandidates> results{};
  int found = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      lt_.get(), p.matmul_.get(), p.b_.get(), p.a_.get(), p.c_.get(), p.c_.get(), preference.get(),
      options_.measured ? kMatmulCandidates : 1, results.data(), &found);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED) return {};
  const std::string call = fmt::format("cublasLtMatmulAlgoGetHeuristic({})", to_string(p.shape_));
  if (status == CUBLAS_STATUS_INVALID_VALUE)
    throw InvalidMatmul(fmt::format("{}: {} ({}): {}", call, cublasGetStatusName(status),
                                    static_cast<int>(status), cublasGetStatusString(status)));
  check(status, call.c_str());
  std::vector<cublasLtMatmulAlgo_t> algorithms;
  for (int i = 0; i < found; ++i)
    if (results[i].state == CUBLAS_STATUS_SUCCESS) algorithms.push_back(results[i].algo);
  return algorithms;
}

std::optional<cublasLtMatmulAlgo_t> Matmuls::choose(const Matmul& product, const Stopwatch& node) {
  const std::string key = key_of(product.shape_);
  if (const auto known = chosen_.find(key); known != chosen_.end()) return known->second;
  std::optional<cublasLtMatmulAlgo_t> chosen = remembered(product, key);
  if (!chosen) chosen = chosen_now(product, key, node);
  chosen_[key] = chosen;
  return chosen;
}

std::optional<cublasLtMatmulAlgo_t> Matmuls::chosen_now(const Matmul& product,
                                                        const std::string& key,
                                                        const Stopwatch& node) {
  const std::vector<cublasLtMatmulAlgo_t> algorithms = candidates(product);
  if (algorithms.empty()) return std::nullopt;
  if (!options_.measured) return algorithms[0];
  const std::optional<MatmulTrial> trial = MatmulTrial::of(product.shape_);
  if (!trial) return algorithms[0];
  const Trial::Outcome outcome = trial->run(product, algorithms, node);
  if (outcome.fastest < 0) {
    fmt::print(stderr, "alpa: none of {} algorithms that cuBLASLt proposes runs: {}\n",
               algorithms.size(), outcome.refusal);
    return std::nullopt;
  }
  const cublasLtMatmulAlgo_t& chosen = algorithms[outcome.fastest];
  choices_.remember(key, to_text(&chosen, sizeof chosen));
  return chosen;
}

std::string Matmuls::key_of(const MatmulProblem& shape) const {
  return (options_.tf32 ? "tf32 " : "") + to_string(shape);
}

std::optional<bool> Matmuls::is_faster_unfused(const MatmulProblem& joint) {
  const std::string* const form = choices_.find("form of " + key_of(joint));
  if (form == nullptr || (*form != kApart && *form != kJoint)) return std::nullopt;
  return *form == kApart;
}

void Matmuls::remember_form(const MatmulProblem& joint, bool apart) {
  choices_.remember("form of " + key_of(joint), std::string(apart ? kApart : kJoint));
}

std::optional<cublasLtMatmulAlgo_t> Matmuls::remembered(const Matmul& p, const std::string& key) {
  const std::string* const text = choices_.find(key);
  if (text == nullptr) return std::nullopt;
  cublasLtMatmulAlgo_t algorithm{};
  if (!from_text(*text, &algorithm, sizeof algorithm)) return std::nullopt;
  cublasLtMatmulHeuristicResult_t result{};
  const cublasStatus_t status =
      cublasLtMatmulAlgoCheck(lt_.get(), p.matmul_.get(), p.b_.get(), p.a_.get(), p.c_.get(),
                              p.c_.get(), &algorithm, &result);
  const bool fits = status == CUBLAS_STATUS_SUCCESS &&
                    result.workspaceSize <= static_cast<std::size_t>(p.shape_.workspace_bytes);
  return fits ? std::optional(algorithm) : std::nullopt;
}

}  // namespace alpa::cuda
