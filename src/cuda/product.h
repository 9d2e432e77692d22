#pragma once
/// Matrix products through cuBLASLt: C[m, n] = epilogue(Σ_k A[m, k] B[k, n]), batched, of row-major tensors
/// (cuBLASLt computes the column-major Cᵀ = Bᵀ Aᵀ). Of the algorithms that cuBLASLt proposes the fastest on
/// this card is taken; those that add parts up in the result's place are left out, so that equal operands
/// give equal bits, run after run. Thread rule: a `Products` and what it loads belong to one host thread.
#include <map>
#include <optional>
#include <string>

#include "alpa/base/dtype.h"
#include "alpa/base/error.h"
#include "kernels/cpu/epilogue.h"
#include "kernels/cpu/matmul.h"
#include "kernels/cuda/launch.h"
#include "lt_handles.h"

namespace alpa::cuda {

/// A product as it is chosen and loaded: everything but the pointers.
struct ProductShape {
  cpu::MatmulShape matrices;  ///< at most one batch dimension
  DType operands = f32, result = f32;
  std::int64_t workspace_bytes = 0;  ///< at most
  std::int64_t alignment = 16;       ///< of all pointers, at least; the workspace's is 256
  /// A kept matrix has rows of n bits or elements: n is a multiple of 128, or of 8. Operand 0 is A.
  Epilogue epilogue;
};

/// "2048x2048x2048 f32 a 2048,1 b 2048,1 c 2048 …": equal texts are equal products.
std::string to_string(const ProductShape& shape);

struct ProductBuffers {
  const void *a = nullptr, *b = nullptr;
  void* c = nullptr;
  void* vector = nullptr;  ///< the bias, or where the sums go
  void* kept = nullptr;
};

/// A product with its algorithm.
class Product {
 public:
  /// Queues it. Allocates nothing and waits for nothing. Throws Error with cuBLASLt's status.
  void run(const ProductBuffers& buffers, void* workspace, Stream stream) const;

  /// As `run`, with another algorithm.
  void run(const cublasLtMatmulAlgo_t& algorithm, const ProductBuffers& buffers, void* workspace,
           Stream stream) const;

 private:
  friend class Products;
  Product(cublasLtHandle_t lt, const ProductShape& shape, bool tf32);

  cublasLtHandle_t lt_;
  ProductShape shape_;
  LtMatmul matmul_;
  LtLayout a_, b_, c_;  ///< in the order of ProductShape, which cuBLASLt's is the reverse of
  cublasLtMatmulAlgo_t algorithm_{};
};

struct ProductOptions {
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
class InvalidProduct : public Error {
 public:
  using Error::Error;
};

/// The products of one card: the device that is current when it is made and whenever it is used.
class Products {
 public:
  explicit Products(const ProductOptions& options = {});

  /// The product, ready to run; nothing if cuBLASLt has no algorithm for it (or, with a line on stderr, if
  /// none that it proposed ran when measured). Equal shapes are measured once. Throws
  /// InvalidProduct naming it, or Error with the status of what else failed.
  std::optional<Product> load(const ProductShape& shape);

  bool measures() const { return options_.measured; }
  /// Whether the product and a kernel behind it were measured to be faster than this product with its
  /// epilogue; nothing if that is not known. Remembered as algorithms are.
  std::optional<bool> is_faster_apart(const ProductShape& joint);
  void remember_form(const ProductShape& joint, bool apart);

 private:
  std::string key_of(const ProductShape& shape) const;
  std::optional<cublasLtMatmulAlgo_t> choose(const Product& product);
  std::optional<cublasLtMatmulAlgo_t> chosen_now(const Product& product, const std::string& key);
  std::vector<cublasLtMatmulAlgo_t> candidates(const Product& product) const;
  std::optional<cublasLtMatmulAlgo_t> remembered(const Product& product, const std::string& key);
  /// Null if nobody chose yet. The file is read whenever something is not known: other cards of this
  /// process and other processes write there, and equal cards shall take equal choices.
  const std::string* stored(const std::string& key);
  void remember(const std::string& key, const std::string& choice);

  ProductOptions options_;
  LtHandle lt_;
  std::string file_;                           ///< of the cache folder
  std::map<std::string, std::string> stored_;  ///< what the file said, or says now: algorithms and forms
  std::map<std::string, std::optional<cublasLtMatmulAlgo_t>> chosen_;
};

}  // namespace alpa::cuda
