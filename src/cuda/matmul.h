#pragma once
/// Matrix products through cuBLASLt: C[m, n] = epilogue(Σ_k A[m, k] B[k, n]), batched, of row-major
/// tensors (cuBLASLt computes the column-major Cᵀ = Bᵀ Aᵀ). Takes the fastest on this card of the
/// algorithms that cuBLASLt proposes. Algorithms that accumulate partial sums in place in the
/// result are excluded, so that equal operands give equal bits in every run. Thread rule: a
/// `Matmuls` and what it loads belong to one host thread at a time.
#include <cublasLt.h>

#include <map>
#include <optional>
#include <string>

#include "alpa/base/dtype.h"
#include "alpa/base/error.h"
#include "choice_file.h"
#include "handles.h"
#include "kernels/cuda/launch.h"
#include "kernels/plan/epilogue.h"
#include "kernels/plan/matmul_shape.h"
#include "src/base/timing.h"

namespace alpa::cuda {

using LtHandle = Handle<Opaque<cublasLtHandle_t>, cublasLtDestroy>;
using LtMatmul = Handle<Opaque<cublasLtMatmulDesc_t>, cublasLtMatmulDescDestroy>;
using LtLayout = Handle<Opaque<cublasLtMatrixLayout_t>, cublasLtMatrixLayoutDestroy>;
using LtPreference = Handle<Opaque<cublasLtMatmulPreference_t>, cublasLtMatmulPreferenceDestroy>;

/// Description of a matrix product: everything except pointers.
struct MatmulProblem {
  kernels::MatmulShape matrices;  ///< at most one batch dimension
  DType operands = f32, result = f32;
  std::int64_t workspace_bytes = 0;  ///< at most
  std::int64_t alignment = 16;       ///< of all pointers, at least; the workspace's is 256
  /// A kept matrix has rows of n bits (n a multiple of 128) or n elements (a multiple of 8), and
  /// those of a batch are as far apart as the results. Operand 0 is A.
  Epilogue epilogue;
  std::int64_t vector_stride = 0;  ///< of a batch, between its biases or sums, in elements
};

/// "2048x2048x2048 f32 a 2048,1 b 2048,1 c 2048 …": equal texts mean equal problems.
std::string to_string(const MatmulProblem& shape);

struct MatmulBuffers {
  const void *a = nullptr, *b = nullptr;
  void* c = nullptr;
  void* vector = nullptr;  ///< the (first) bias, or destination of the sums
  void* kept = nullptr;
  const void* addend = nullptr;  ///< laid out as C; may be C
};

/// A matrix product with its algorithm chosen.
class Matmul {
 public:
  /// Queues the product; allocates nothing and does not wait. Throws Error with cuBLASLt's status.
  void run(const MatmulBuffers& buffers, void* workspace, Stream stream) const;

  /// As `run`, with another algorithm.
  void run(const cublasLtMatmulAlgo_t& algorithm, const MatmulBuffers& buffers, void* workspace,
           Stream stream) const;

 private:
  friend class Matmuls;
  Matmul(cublasLtHandle_t lt, const MatmulProblem& shape, bool tf32);

  cublasLtHandle_t lt_;
  MatmulProblem shape_;
  LtMatmul matmul_;
  LtLayout a_, b_, c_;  ///< in the order of MatmulProblem, the reverse of cuBLASLt's
  cublasLtMatmulAlgo_t algorithm_{};
};

struct MatmulOptions {
  bool tf32 = false;  ///< f32 operands are rounded to TF32's 10 bits of fraction
  /// Times candidates when a product is loaded, without those that cuBLASLt refuses to run. Off:
  /// takes the first proposal, for tests, whose results must not depend on timing.
  bool measured = true;
  /// Keeps measurements in the cache folder (cache_folder.h), one file per
  /// card and cuBLASLt version.
  bool cached = true;
  /// Choices to take, as `choices` of another process gives them; before those of the cache.
  std::string known = {};
};

/// cuBLASLt rejected the description of a product with CUBLAS_STATUS_INVALID_VALUE.
class InvalidMatmul : public Error {
 public:
  using Error::Error;
};

/// Creates the matrix products of one card. The card's device must be current at
/// construction and at every call.
class Matmuls {
 public:
  explicit Matmuls(const MatmulOptions& options = {});

  /// The product, ready to run; nullopt if cuBLASLt has no algorithm for it, or (with a line on
  /// stderr) if no proposed algorithm ran when measured. Equal shapes are measured once, for as
  /// long as kNodeSeconds (trial.h) leaves to `node`. Throws InvalidMatmul naming the product, or
  /// Error with the status of another failure.
  std::optional<Matmul> load(const MatmulProblem& shape, const Stopwatch& node = {});

  bool measures() const { return options_.measured; }
  /// The choices made so far, as a text.
  std::string choices() const { return choices_.text(); }
  /// True if a plain product followed by a kernel was measured to be faster than this product with
  /// its epilogue; nullopt if not known. Stored like algorithms.
  std::optional<bool> is_faster_unfused(const MatmulProblem& joint);
  void remember_form(const MatmulProblem& joint, bool apart);

 private:
  std::string key_of(const MatmulProblem& shape) const;
  std::optional<cublasLtMatmulAlgo_t> choose(const Matmul& product, const Stopwatch& node);
  std::optional<cublasLtMatmulAlgo_t> chosen_now(const Matmul& product, const std::string& key,
                                                 const Stopwatch& node);
  std::vector<cublasLtMatmulAlgo_t> candidates(const Matmul& product) const;
  std::optional<cublasLtMatmulAlgo_t> remembered(const Matmul& product, const std::string& key);

  MatmulOptions options_;
  LtHandle lt_;
  Choices choices_;  ///< of algorithms and forms
  std::map<std::string, std::optional<cublasLtMatmulAlgo_t>> chosen_;
};

}  // namespace alpa::cuda
