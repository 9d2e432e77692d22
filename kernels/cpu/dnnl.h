#pragma once
/// Calls of oneDNN. The library would run on its own OpenMP threads, which keep spinning on cores
/// that the device's team needs next, and which ThreadSanitizer cannot analyse. So every call is
/// single-threaded, and the team shares the work.
#include <dnnl.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/cpu/matmul.h"
#include "kernels/plan/windows.h"
#include "src/base/thread_team.h"

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

/// Calls body(task, thread) for all tasks, as `SingleThread`. A slice owns the scratch of a thread,
/// not tasks: any running thread takes them.
template <class Body>
void run_tasks(std::int64_t tasks, int threads, ThreadTeam& team, const Body& body) {
  std::atomic<std::int64_t> next{0};
  team.parallel_for(
      std::min<std::int64_t>(threads, tasks), 1, [&](std::int64_t begin, std::int64_t end) {
        const SingleThread single;
        for (std::int64_t thread = begin; thread < end; ++thread)
          for (std::int64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < tasks;)
            body(i, static_cast<int>(thread));
      });
}

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

/// What a primitive reads or writes: its name in oneDNN, DNNL_ARG_…, and its layout.
struct PrimitiveArgument {
  int name;
  dnnl_memory_desc_t layout;
  std::int64_t bytes() const {
    return static_cast<std::int64_t>(dnnl_memory_desc_get_size(&layout));
  }
};

/// A primitive of oneDNN in the implementation that the library chose.
class Primitive {
 public:
  /// Not usable.
  Primitive() = default;
  /// Takes `chosen`, if not null. The last of `arguments` is set: the scratch.
  Primitive(dnnl_primitive_desc_t chosen, std::vector<PrimitiveArgument> arguments);
  ~Primitive();
  Primitive(Primitive&& other) noexcept;
  Primitive& operator=(Primitive&& other) noexcept;

  /// False where oneDNN has no implementation, or only its slow reference.
  bool usable() const { return primitive_ != nullptr; }
  /// Known of products of matrices without gaps between rows, and of convolutions.
  bool uses_matrix_unit() const { return implementation_has("amx"); }
  bool implementation_has(std::string_view word) const;
  /// In the order in which `Execution::run` takes them, the last one is the scratch.
  const std::vector<PrimitiveArgument>& arguments() const { return arguments_; }
  std::int64_t scratch_bytes() const { return arguments_.back().bytes(); }

 private:
  friend class Execution;
  std::vector<PrimitiveArgument> arguments_;
  std::string implementation_;
  dnnl_primitive_t primitive_ = nullptr;
};

/// A, B, C: `count` products, the innermost batch dimension's strides apart.
Primitive matmul_primitive(const kernels::MatmulShape& shape, const kernels::BatchDim& batch,
                           std::int64_t count, ProductTypes types);

enum class ConvolutionPass { forward, grad_x, grad_kernel };

/// x, kernel, y of a convolution or of a gradient, whose images are NHWC of type `images`.
/// `kernel`: of any layout, where oneDNN chooses it.
Primitive convolution_primitive(const kernels::ConvolutionShape& shape, ConvolutionPass pass,
                                DType images, const dnnl_memory_desc_t& kernel);
/// [kh, kw, C / groups, F] as it is stored, or of the layout that a convolution chooses.
dnnl_memory_desc_t stored_kernel(const kernels::ConvolutionShape& shape, DType dtype);
dnnl_memory_desc_t any_kernel(const kernels::ConvolutionShape& shape, DType dtype);

/// A tensor's elements in another layout or type.
Primitive reorder_primitive(const dnnl_memory_desc_t& from, const dnnl_memory_desc_t& to);

/// One thread's memory objects and stream for executing a usable primitive, which must outlive it.
class Execution {
 public:
  explicit Execution(const Primitive& primitive);
  ~Execution();
  Execution(const Execution&) = delete;
  Execution& operator=(const Execution&) = delete;

  /// `data`: of every argument, in their order. Needs a `SingleThread`.
  void run(std::initializer_list<const std::byte*> data) const;

 private:
  dnnl_primitive_t primitive_;
  std::vector<dnnl_exec_arg_t> arguments_;
  dnnl_stream_t stream_ = nullptr;
};

}  // namespace alpa::cpu
