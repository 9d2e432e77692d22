#pragma once
/// Matrix products through cuBLASLt: C[m, n] = epilogue(Σ_k A[m, k] B[k, n]), batched, of row-major tensors
/// (cuBLASLt computes the column-major Cᵀ = Bᵀ Aᵀ). Of the algorithms that cuBLASLt proposes the fastest on
/// this card is taken; those that add parts up in the result's place are left out, so that equal operands
/// give equal bits, run after run. Thread rule: a `Matmuls` and what it loads belong to one host thread.
#include <map>
#include <optional>
#include <string>

#include "alpa/base/dtype.h"
#include "alpa/base/error.h"
#include "kernels/cuda/launch.h"
#include "kernels/plan/epilogue.h"
#include "kernels/plan/matmul_shape.h"
#include "lt_handles.h"

namespace alpa::cuda {

/// A product as it is chosen and loaded: everything but the pointers.
struct MatmulProblem {
  kernels::MatmulShape matrices;  ///< at most one batch dimension
  DType operands = f32, result = f32;
  std::int64_t workspace_bytes = 0;  ///< at most
  std::int64_t alignment = 16;       ///< of all pointers, at least; the workspace's is 256
  /// A kept matrix has rows of n bits or elements: n is a multiple of 128, or of 8. Operand 0 is A.
  Epilogue epilogue;
};

/// "2048x2048x2048 f32 a 2048,1 b 2048,1 c 2048 …": equal texts are equal products.
std::string to_string(const MatmulProblem& shape);

struct MatmulBuffers {
  const void *a = nullptr, *b = nullptr;
  void* c = nullptr;
  void* vector = nullptr;  ///< the bias, or where the sums go
  void* kept = nullptr;
};

/// A product with its algorithm.
class Matmul {
 public:
  /// Queues it. Allocates nothing and waits for nothing. Throws Error with cuBLASLt's status.
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
  LtLayout a_, b_, c_;  ///< in the order of MatmulProblem, which cuBLASLt's is the reverse of
  cublasLtMatmulAlgo_t algorithm_{};
};

struct MatmulOptions {
  bool tf32 = false;  ///< f32 operands are rounded to TF32's 10 bits of fraction
  /// Candidates are timed when a product is loaded; those that cuBLASLt then refuses to run are left out.
  /// Else the first one that it proposes is taken: for tests, whose results must not depend on the
  /// machine's mood.
  bool measured = true;
  /// What was measured is kept in the cache folder (cache_folder.h), one file per card and version of
  /// cuBLASLt.
  bool cached = true;
};

/// cuBLASLt calls the description of a product CUBLAS_STATUS_INVALID_VALUE.
class InvalidMatmul : public Error {
 public:
  using Error::Error;
};

/// The products of one card: the device that is current when it is made and whenever it is used.
class Matmuls {
 public:
  explicit Matmuls(const MatmulOptions& options = {});

  /// The product, ready to run; nothing if cuBLASLt has no algorithm for it (or, with a line on stderr, if
  /// none that it proposed ran when measured). Equal shapes are measured once. Throws
  /// InvalidMatmul naming it, or Error with the status of what else failed.
  std::optional<Matmul> load(const MatmulProblem& shape);

  bool measures() const { return options_.measured; }
  /// Whether the product and a kernel behind it were measured to be faster than this product with its
  /// epilogue; nothing if that is not known. Remembered as algorithms are.
  std::optional<bool> is_faster_apart(const MatmulProblem& joint);
  void remember_form(const MatmulProblem& joint, bool apart);

 private:
  std::string key_of(const MatmulProblem& shape) const;
  std::optional<cublasLtMatmulAlgo_t> choose(const Matmul& product);
  std::optional<cublasLtMatmulAlgo_t> chosen_now(const Matmul& product, const std::string& key);
  std::vector<cublasLtMatmulAlgo_t> candidates(const Matmul& product) const;
  std::optional<cublasLtMatmulAlgo_t> remembered(const Matmul& product, const std::string& key);
  /// Null if nobody chose yet. The file is read whenever something is not known: other cards of this
  /// process and other processes write there, and equal cards shall take equal choices.
  const std::string* stored(const std::string& key);
  void remember(const std::string& key, const std::string& choice);

  MatmulOptions options_;
  LtHandle lt_;
  std::string file_;                           ///< of the cache folder
  std::map<std::string, std::string> stored_;  ///< what the file said, or says now: algorithms and forms
  std::map<std::string, std::optional<cublasLtMatmulAlgo_t>> chosen_;
};

}  // namespace alpa::cuda
