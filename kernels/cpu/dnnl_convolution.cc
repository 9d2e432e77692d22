// kernels/cpu/dnnl_convolution.cc — convolutions through oneDNN: a task takes some images. Each
// task of the kernel's gradient has sums of its own, which are added in the order of the tasks.
#include "kernels/cpu/dnnl_convolution.h"

#include <algorithm>
#include <optional>

#include "src/base/thread_team.h"

namespace alpa::cpu {
namespace {

using kernels::ConvolutionShape;

constexpr std::int64_t kFewestImages = 4;  ///< fewer leave threads idle
constexpr std::int64_t kMostTasks = 16;
constexpr std::int64_t kPixels = 512;             ///< for which a copy of all sums is worth while
constexpr std::int64_t kMostSumBytes = 32 << 20;  ///< of all tasks

std::int64_t up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
std::int64_t aligned(std::int64_t bytes) { return up(bytes, 64) * 64; }

std::int64_t images_of_task(const ConvolutionShape& s, ConvolutionPass pass) {
  std::int64_t tasks = kMostTasks;
  if (pass == ConvolutionPass::grad_kernel)
    tasks = std::clamp(s.batch * s.h.out * s.w.out / kPixels, kFewestImages, kMostTasks);
  return up(s.batch, tasks);
}

/// True for gradients of strided 1 × 1 kernels over few channels: oneDNN 2.6 writes past the
/// scratch that it asks for, on AVX2.
bool exceeds_scratch(const ConvolutionShape& s, ConvolutionPass pass) {
  constexpr std::int64_t kVector = 8;
  return pass == ConvolutionPass::grad_kernel && s.h.size == 1 && s.w.size == 1 &&
         (s.h.stride > 1 || s.w.stride > 1) && s.channels / s.groups < kVector;
}

/// The convolution of so many images at a time.
struct Images {
  Primitive primitive;
  std::vector<std::unique_ptr<Execution>> of_thread = {};

  Images(ConvolutionShape s, std::int64_t images, ConvolutionPass pass, DType dtype,
         const dnnl_memory_desc_t& kernel, int threads) {
    s.batch = images;
    primitive = convolution_primitive(s, pass, dtype, kernel);
    for (int t = 0; t < threads && primitive.usable(); ++t)
      of_thread.push_back(std::make_unique<Execution>(primitive));
  }
  bool usable() const { return primitive.usable() && !primitive.implementation_has("gemm"); }
  const dnnl_memory_desc_t& kernel() const { return primitive.arguments()[1].layout; }
};

/// The kernel from one layout to another.
struct Reorder {
  Primitive primitive;
  Execution execution;

  Reorder(const dnnl_memory_desc_t& from, const dnnl_memory_desc_t& to)
      : primitive(reorder_primitive(from, to)), execution(primitive) {}
};

}  // namespace

struct DnnlConvolution::Impl {
  ConvolutionShape shape;
  ConvolutionPass pass;
  int threads;
  std::int64_t element, at_once;
  std::optional<Images> whole, rest;  ///< tasks of `at_once` images, and the last one
  std::optional<Reorder> reorder;
  std::int64_t kernel_bytes = 0;   ///< in the library's layout
  std::int64_t scratch_bytes = 0;  ///< of a thread

  std::int64_t tasks() const { return up(shape.batch, at_once); }
  bool is_gradient_of_kernel() const { return pass == ConvolutionPass::grad_kernel; }
  std::int64_t kernels() const { return is_gradient_of_kernel() ? tasks() : 1; }
  std::int64_t x_bytes() const { return shape.h.in * shape.w.in * shape.channels * element; }
  std::int64_t y_bytes() const { return shape.h.out * shape.w.out * shape.features * element; }

  bool prepare(DType dtype);
  void convolve(std::byte* x, std::byte* y, std::byte* workspace, ThreadTeam& team) const;
  void add_up(std::byte* sums, ThreadTeam& team) const;
};

bool DnnlConvolution::Impl::prepare(DType dtype) {
  if (exceeds_scratch(shape, pass)) return false;
  const DType summed = is_gradient_of_kernel() ? f32 : dtype;
  whole.emplace(shape, at_once, pass, dtype, any_kernel(shape, summed), threads);
  if (!whole->usable()) return false;
  kernel_bytes = aligned(whole->primitive.arguments()[1].bytes());
  scratch_bytes = aligned(whole->primitive.scratch_bytes());
  if (is_gradient_of_kernel() && tasks() * kernel_bytes > kMostSumBytes) return false;
  if (const std::int64_t images = shape.batch % at_once) {
    rest.emplace(shape, images, pass, dtype, whole->kernel(), threads);
    if (!rest->usable()) return false;
    scratch_bytes = std::max(scratch_bytes, aligned(rest->primitive.scratch_bytes()));
  }
  const dnnl_memory_desc_t stored = stored_kernel(shape, dtype);
  if (is_gradient_of_kernel())
    reorder.emplace(whole->kernel(), stored);
  else
    reorder.emplace(stored, whole->kernel());
  return reorder->primitive.usable() && reorder->primitive.scratch_bytes() <= scratch_bytes;
}

/// All tasks. Each reads the kernel in the workspace, or writes its own there.
void DnnlConvolution::Impl::convolve(std::byte* x, std::byte* y, std::byte* workspace,
                                     ThreadTeam& team) const {
  std::byte* const scratch = workspace + kernels() * kernel_bytes;
  run_tasks(tasks(), threads, team, [&](std::int64_t i, int thread) {
    const bool is_rest = (i + 1) * at_once > shape.batch;
    (is_rest ? rest : whole)
        ->of_thread[thread]
        ->run({x + i * at_once * x_bytes(),
               workspace + (is_gradient_of_kernel() ? i * kernel_bytes : 0),
               y + i * at_once * y_bytes(), scratch + thread * scratch_bytes});
  });
}

/// The sums of all tasks, in those of the first.
void DnnlConvolution::Impl::add_up(std::byte* sums, ThreadTeam& team) const {
  const auto size = static_cast<std::int64_t>(sizeof(float)), lead = kernel_bytes / size;
  float* const all = reinterpret_cast<float*>(sums);
  constexpr std::int64_t kBlock = 1024;
  team.parallel_for(lead, 4 * kBlock, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t block = begin; block < end; block += kBlock)
      for (std::int64_t task = 1; task < tasks(); ++task)
        for (std::int64_t i = block; i < std::min(block + kBlock, end); ++i)
          all[i] += all[task * lead + i];
  });
}

DnnlConvolution::DnnlConvolution(const ConvolutionShape& shape, ConvolutionPass pass, DType dtype,
                                 int threads)
    : impl_(new Impl{.shape = shape,
                     .pass = pass,
                     .threads = threads,
                     .element = static_cast<std::int64_t>(size_of(dtype)),
                     .at_once = images_of_task(shape, pass),
                     .whole = {},
                     .rest = {},
                     .reorder = {}}) {
  if (shape.batch < kFewestImages || !impl_->prepare(dtype)) impl_.reset();
}

DnnlConvolution::~DnnlConvolution() = default;

bool DnnlConvolution::usable() const { return impl_ != nullptr; }

std::int64_t DnnlConvolution::workspace_bytes() const {
  return impl_->kernels() * impl_->kernel_bytes + impl_->threads * impl_->scratch_bytes;
}

void DnnlConvolution::run(std::byte* x, std::byte* kernel, std::byte* y, std::byte* workspace,
                          ThreadTeam& team) const {
  std::byte* const scratch = workspace + impl_->kernels() * impl_->kernel_bytes;
  const auto reorder = [&](std::byte* from, std::byte* to) {
    const SingleThread single;
    impl_->reorder->execution.run({from, to, scratch});
  };
  if (!impl_->is_gradient_of_kernel()) reorder(kernel, workspace);
  impl_->convolve(x, y, workspace, team);
  if (!impl_->is_gradient_of_kernel()) return;
  impl_->add_up(workspace, team);
  reorder(workspace, kernel);
}

}  // namespace alpa::cpu
