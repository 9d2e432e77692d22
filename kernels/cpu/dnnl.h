#pragma once
/// Calls of oneDNN. The library would run on its own OpenMP threads, which keep spinning on cores
/// that the device's team needs next, and which ThreadSanitizer cannot analyse. So every call is
/// single-threaded, and the team shares the work.
#include <dnnl.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/cpu/matmul.h"

namespace alpa::cpu {

/// Makes oneDNN use the calling thread only, for the lifetime of this object.
class SingleThread {
 public:
  SingleThread();
  ~SingleThread();
  SingleThread(const SingleThread&) = delete;
  SingleThread& operator=(const SingleThread&) = delete;

 private:
  int saved_;
};

/// Throws std::bad_alloc or InternalError unless oneDNN succeeded.
void check_dnnl(dnnl_status_t status, const char* what);

/// A two-dimensional operand as sgemm wants it: transposed or not, and the distance of its lines.
struct Layout {
  char transposed = 'N';
  std::int64_t lead = 1;
};

/// A matrix in memory.
struct Operand {
  const float* data;
  Layout layout;
};

/// c = a b + beta c. Needs a `SingleThread`.
void call_sgemm(const Operand& a, const Operand& b, std::int64_t m, std::int64_t n, std::int64_t k,
                float beta, float* c, std::int64_t c_lead);

/// oneDNN's matmul primitive for `count` products, the innermost batch dimension's strides apart.
class MatmulPrimitive {
 public:
  MatmulPrimitive(const kernels::MatmulShape& shape, const kernels::BatchDim& batch,
                  std::int64_t count, ProductTypes types);
  ~MatmulPrimitive();
  MatmulPrimitive(const MatmulPrimitive&) = delete;
  MatmulPrimitive& operator=(const MatmulPrimitive&) = delete;

  /// False where oneDNN has only its slow reference implementation for these strides.
  bool usable() const { return primitive_ != nullptr; }
  /// Known of matrices without gaps between rows only.
  bool uses_matrix_unit() const { return matrix_unit_; }
  std::int64_t scratch_bytes() const;

 private:
  friend class MatmulExecution;
  void create(dnnl_primitive_desc_t chosen);

  std::array<dnnl_memory_desc_t, 3> descriptors_;
  dnnl_memory_desc_t scratch_ = {};
  dnnl_primitive_t primitive_ = nullptr;
  bool matrix_unit_ = false;
};

/// One thread's memory objects and stream for executing a usable primitive.
class MatmulExecution {
 public:
  explicit MatmulExecution(const MatmulPrimitive& primitive);
  ~MatmulExecution();
  MatmulExecution(const MatmulExecution&) = delete;
  MatmulExecution& operator=(const MatmulExecution&) = delete;

  /// `scratch`: `scratch_bytes` of the primitive. Needs a `SingleThread`.
  void run(std::byte* c, const std::byte* a, const std::byte* b, std::byte* scratch) const;

 private:
  dnnl_primitive_t primitive_;
  std::array<dnnl_memory_t, 4> memory_ = {};
  dnnl_stream_t stream_ = nullptr;
};

}  // namespace alpa::cpu
