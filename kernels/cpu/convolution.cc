// kernels/cpu/convolution.cc — conv2d and its gradients: by oneDNN (dnnl_convolution.h), or, where
// it has no algorithm or sums have one order, as products with the matrix of windows: a row per
// pixel of the result, a column per tap and channel. A block of rows is gathered into scratch that
// stays in the cache, so the matrix never exists as a whole. Gradients of x scatter such a block.
// Depthwise convolutions without oneDNN are in depthwise.h. All partial sums are added in an order
// that depends on the shape alone: so do the tasks, as products of other extents may add in another
// order.
#include <algorithm>
#include <atomic>
#include <bit>

#include "kernels/cpu/block_io.h"
#include "kernels/cpu/depthwise.h"
#include "kernels/cpu/dnnl_convolution.h"
#include "kernels/cpu/in_chunks.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/matmul.h"
#include "kernels/plan/windows.h"
#include "src/base/thread_team.h"

namespace alpa::cpu {
namespace {

using kernels::ConvolutionShape;

constexpr std::int64_t kRows = 512;          ///< most rows of a block
constexpr std::int64_t kElements = 1 << 17;  ///< that a block of windows aims at
constexpr std::int64_t kColumns = 512;  ///< of the kernel's rows, that a task of its gradient takes
constexpr std::int64_t kTasks = 16;     ///< that a pass aims at

std::int64_t up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// Neighbouring columns of the matrix of windows: channels of one tap.
struct Piece {
  std::int64_t row, column;  ///< of the source, from the window's first element
  std::int64_t channel, width;
};

/// What is computed once, when a call is loaded.
struct Plan {
  ConvolutionShape s;
  int threads = 1;
  bool as_stored = true;   ///< tensors hold the type of computation
  bool is_matrix = false;  ///< x itself is the matrix of windows
  bool grouped = false;    ///< the whole convolution; a device may have a single group
  bool fixed = false;      ///< sums have one order
  std::shared_ptr<const DnnlConvolution> library = {};  ///< takes the call, unless null

  std::int64_t inputs() const { return s.channels / s.groups; }   ///< channels of a group
  std::int64_t outputs() const { return s.features / s.groups; }  ///< features of a group
  std::int64_t taps() const { return s.h.size * s.w.size; }
  std::int64_t columns() const { return taps() * inputs(); }
  std::int64_t pixels() const { return s.h.out * s.w.out; }  ///< of one image
  std::int64_t rows() const { return s.batch * pixels(); }
  bool is_empty() const { return rows() * s.channels * s.features == 0; }
  bool is_depthwise() const { return grouped && inputs() == 1 && outputs() == 1; }
  /// Taps gathered at a time by whole rows of the kernel's matrix.
  std::int64_t taps_at_once(std::int64_t channels) const {
    return std::clamp<std::int64_t>(kElements / (kRows * channels), 1, taps());
  }

  Piece piece(std::int64_t tap, std::int64_t channel, std::int64_t width) const {
    return {tap / s.w.size * s.h.dilation, tap % s.w.size * s.w.dilation, channel, width};
  }
  /// visit(piece, column) for the columns [begin, end), column counted from begin.
  template <class Visit>
  void for_pieces(std::int64_t begin, std::int64_t end, const Visit& visit) const {
    for (std::int64_t k = begin, next; k < end; k = next) {
      const std::int64_t tap = k / inputs();
      next = std::min(end, (tap + 1) * inputs());
      visit(piece(tap, k - tap * inputs(), next - k), k - begin);
    }
  }
};

/// One pixel of the result, and where its window begins in the source.
class Pixel {
 public:
  Pixel(const ConvolutionShape& s, std::int64_t row) : s_(s) {
    const std::int64_t pixels = s.h.out * s.w.out;
    image_ = row / pixels, row_ = row % pixels / s.w.out, column_ = row % s.w.out;
  }
  void next() {
    if (++column_ < s_.w.out) return;
    column_ = 0;
    if (++row_ < s_.h.out) return;
    row_ = 0, ++image_;
  }
  /// Pixel of the source, counted over all images; -1: padding.
  std::int64_t source(const Piece& piece) const {
    const std::int64_t r = row_ * s_.h.stride - s_.h.pad + piece.row,
                       c = column_ * s_.w.stride - s_.w.pad + piece.column;
    if (r < 0 || r >= s_.h.in || c < 0 || c >= s_.w.in) return -1;
    return (image_ * s_.h.in + r) * s_.w.in + c;
  }

 private:
  const ConvolutionShape& s_;
  std::int64_t image_, row_, column_;
};

template <class T>
void read(T* out, const KernelTensor& x, std::int64_t at, std::int64_t n) {
  if (!is_stored_as<T>(x.type.dtype)) return load_block(out, x.data, x.type.dtype, at, n);
  const T* const from = x.as<T>() + at;
  if (n < 16)
    for (std::int64_t i = 0; i < n; ++i) out[i] = from[i];
  else
    std::copy_n(from, n, out);
}

/// Columns [begin, end) of rows [first, first + m) of group `group`'s windows, `lead` apart.
template <class T>
void gather(T* out, std::int64_t lead, const KernelTensor& x, const Plan& plan, std::int64_t group,
            std::int64_t first, std::int64_t m, std::int64_t begin, std::int64_t end) {
  const std::int64_t channel = group * plan.inputs();
  plan.for_pieces(begin, end, [&](const Piece& piece, std::int64_t column) {
    Pixel pixel(plan.s, first);
    T* to = out + column;
    for (std::int64_t r = 0; r < m; ++r, pixel.next(), to += lead) {
      const std::int64_t source = pixel.source(piece);
      if (source >= 0)
        read(to, x, source * plan.s.channels + channel + piece.channel, piece.width);
      else
        std::fill_n(to, piece.width, T(0));
    }
  });
}

/// task(index, worker) for all tasks; a worker runs one at a time.
template <class Task>
void for_tasks(const KernelCall& call, std::int64_t tasks, const Task& task) {
  std::atomic<std::int64_t> next{0};
  call.team->for_each(std::min<std::int64_t>(call.threads, tasks), 1, [&](std::int64_t worker) {
    for (std::int64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < tasks;)
      task(i, worker);
  });
}

/// Elements of scratch, in this order: a tensor that all share, then blocks of each thread.
struct Scratch {
  std::int64_t shared = 0, windows = 0, values = 0;

  static std::int64_t aligned(std::int64_t elements) { return up(elements, 16) * 16; }
  std::int64_t bytes(const Plan& plan, std::size_t size) const {
    return (aligned(shared) + plan.threads * (aligned(windows) + aligned(values))) *
           static_cast<std::int64_t>(size);
  }
};
template <class T>
struct Space {
  T *shared, *first;
  std::int64_t windows_size, values_size;

  Space(const KernelCall& call, const Scratch& scratch)
      : shared(reinterpret_cast<T*>(call.workspace)),
        first(shared + Scratch::aligned(scratch.shared)),
        windows_size(Scratch::aligned(scratch.windows)),
        values_size(Scratch::aligned(scratch.values)) {}
  T* windows(std::int64_t worker) const { return first + worker * (windows_size + values_size); }
  T* values(std::int64_t worker) const { return windows(worker) + windows_size; }
};

/// All of `x` as T: in place, or converted into `to`.
template <class T>
const T* whole(const KernelCall& call, const KernelTensor& x, T* to) {
  if (is_stored_as<T>(x.type.dtype)) return x.as<T>();
  call.team->parallel_for(x.type.elements(), 1 << 14, [&](std::int64_t begin, std::int64_t end) {
    load_block(to + begin, x.data, x.type.dtype, begin, end - begin);
  });
  return to;
}

void fill_zero(const KernelCall& call) {
  const KernelTensor& y = call.outputs[0];
  std::fill_n(y.data, y.type.bytes(), std::byte{0});
}

const Plan& plan_of(const KernelCall& call) {
  return *static_cast<const Plan*>(call.prepared.get());
}

// ---- y = windows · kernel

Scratch forward_scratch(const Plan& plan) {
  const std::int64_t at_once = plan.taps_at_once(plan.inputs()) * plan.inputs();
  return {.shared = plan.as_stored ? 0 : plan.columns() * plan.s.features,
          .windows = plan.is_matrix && plan.as_stored ? 0 : kRows * at_once,
          .values = plan.as_stored ? 0 : kRows * plan.s.features};
}

/// Rows [first, first + m) of the result, all groups.
template <class T>
void forward_block(const KernelCall& call, const Plan& plan, const T* kernel, T* windows, T* y,
                   std::int64_t first, std::int64_t m) {
  const std::int64_t features = plan.s.features,
                     at_once = plan.taps_at_once(plan.inputs()) * plan.inputs();
  for (std::int64_t g = 0; g < plan.s.groups; ++g)
    for (std::int64_t k = 0; k < plan.columns(); k += at_once) {
      const std::int64_t width = std::min(at_once, plan.columns() - k);
      Panel<T> left{windows, width};
      if (plan.is_matrix && plan.as_stored)
        left = {call.inputs[0].as<T>() + first * plan.s.channels + g * plan.inputs() + k,
                plan.s.channels};
      else
        gather(windows, width, call.inputs[0], plan, g, first, m, k, k + width);
      gemm(m, plan.outputs(), width, left, {kernel + k * features + g * plan.outputs(), features},
           k > 0, y + g * plan.outputs(), features, plan.fixed);
    }
}

template <class T>
void forward(const KernelCall& call) {
  const Plan& plan = plan_of(call);
  const KernelTensor& y = call.outputs[0];
  if (plan.is_empty()) return fill_zero(call);
  if (plan.is_depthwise()) return depthwise_forward<T>(call, plan.s);
  const Space<T> space(call, forward_scratch(plan));
  const T* const kernel = whole(call, call.inputs[1], space.shared);
  constexpr std::int64_t kFewest = 32;
  const std::int64_t rows = std::clamp(up(plan.rows(), 2 * kTasks * 16) * 16, kFewest, kRows);
  for_tasks(call, up(plan.rows(), rows), [&](std::int64_t task, std::int64_t worker) {
    const std::int64_t first = task * rows, m = std::min(rows, plan.rows() - first),
                       at = first * plan.s.features;
    T* const block = plan.as_stored ? y.as<T>() + at : space.values(worker);
    forward_block(call, plan, kernel, space.windows(worker), block, first, m);
    if (!plan.as_stored) store_block(y.data, y.type.dtype, at, block, m * plan.s.features);
  });
}

// ---- dx: a block of rows of dy · kernelᵀ is added to the elements that its windows show

/// Channels of x that a task takes: all, or fewer where images are few.
std::int64_t channels_at_once(const Plan& plan) {
  constexpr std::int64_t kFewest = 32;
  if (plan.s.groups > 1 || plan.s.batch >= kTasks) return plan.s.channels;
  return std::max(kFewest, up(plan.s.channels, up(kTasks, plan.s.batch)));
}

/// Taps times channels of a product.
std::int64_t grad_x_taps(const Plan& plan) {
  const std::int64_t channels = channels_at_once(plan);
  if (channels < plan.s.channels) return 1;
  return plan.taps_at_once(plan.inputs());
}

Scratch grad_x_scratch(const Plan& plan) {
  const std::int64_t channels = std::min(channels_at_once(plan), plan.s.channels),
                     group = plan.s.groups > 1 ? plan.inputs() : channels,
                     image = plan.s.h.in * plan.s.w.in * channels, dy = kRows * plan.s.features;
  return {.shared = plan.as_stored ? 0 : plan.columns() * plan.s.features,
          .windows = kRows * grad_x_taps(plan) * group,
          .values = plan.as_stored ? 0 : Scratch::aligned(image) + dy};
}

/// Channels [channel, channel + count) of the elements of one image; T is added to.
template <class T>
struct Target {
  T* data;              ///< of the image's first pixel and channel 0
  std::int64_t stride;  ///< of pixels
};

template <class T>
void scatter(const Target<T>& to, const T* windows, std::int64_t lead, const Plan& plan,
             const Piece& piece, std::int64_t first, std::int64_t m) {
  Pixel pixel(plan.s, first);
  for (std::int64_t r = 0; r < m; ++r, pixel.next(), windows += lead) {
    const std::int64_t source = pixel.source(piece);
    if (source < 0) continue;
    T* const sums = to.data + source * to.stride + piece.channel;
    for (std::int64_t i = 0; i < piece.width; ++i) sums[i] += windows[i];
  }
}

/// Channels [begin, end) of dx of an image, whose pixels are counted from 0.
template <class T>
struct ImageTask {
  const T *dy, *kernel;  ///< dy: of rows [first, first + m)
  T* windows;
  Target<T> dx;
  std::int64_t begin, end;
};

template <class T>
void grad_x_block(const Plan& plan, const ImageTask<T>& t, std::int64_t first, std::int64_t m) {
  const std::int64_t features = plan.s.features, at_once = grad_x_taps(plan);
  const bool grouped = plan.s.groups > 1;
  for (std::int64_t g = 0; g < plan.s.groups; ++g)
    for (std::int64_t tap = 0; tap < plan.taps(); tap += at_once) {
      const std::int64_t taps = std::min(at_once, plan.taps() - tap),
                         channels = grouped ? plan.inputs() : t.end - t.begin,
                         line = tap * plan.inputs() + (grouped ? 0 : t.begin);
      gemm(m, taps * channels, plan.outputs(), {t.dy + g * plan.outputs(), features},
           {t.kernel + line * features + g * plan.outputs(), features, true}, false, t.windows,
           taps * channels, plan.fixed);
      for (std::int64_t i = 0; i < taps; ++i)
        scatter(t.dx, t.windows + i * channels, taps * channels, plan,
                plan.piece(tap + i, grouped ? g * plan.inputs() : t.begin, channels), first, m);
    }
}

/// Rows [first, first + m) of dy: in place, or converted into `to`.
template <class T>
const T* rows_of(const KernelTensor& dy, std::int64_t first, std::int64_t m, T* to) {
  const std::int64_t width = dy.type.shape[3];
  if (is_stored_as<T>(dy.type.dtype)) return dy.as<T>() + first * width;
  load_block(to, dy.data, dy.type.dtype, first * width, m * width);
  return to;
}

/// dx of channels [begin, end) of one image.
template <class T>
void grad_x_image(const KernelCall& call, const Plan& plan, const T* kernel, const Space<T>& space,
                  std::int64_t worker, std::int64_t image, std::int64_t begin, std::int64_t end) {
  const KernelTensor& dx = call.outputs[0];
  const std::int64_t pixels = plan.s.h.in * plan.s.w.in, at = image * pixels * plan.s.channels,
                     width = end - begin;
  T* const own = space.values(worker);
  const Target<T> target =
      plan.as_stored ? Target<T>{dx.as<T>() + at, plan.s.channels} : Target<T>{own - begin, width};
  for (std::int64_t p = 0; p < pixels; ++p)
    std::fill_n(target.data + p * target.stride + begin, width, T(0));
  T* const converted =
      own + Scratch::aligned(pixels * std::min(channels_at_once(plan), plan.s.channels));
  for (std::int64_t first = 0; first < plan.pixels(); first += kRows) {
    const std::int64_t m = std::min(kRows, plan.pixels() - first);
    const T* const dy = rows_of(call.inputs[0], image * plan.pixels() + first, m, converted);
    grad_x_block<T>(plan, {dy, kernel, space.windows(worker), target, begin, end}, first, m);
  }
  if (plan.as_stored) return;
  for (std::int64_t p = 0; p < pixels; ++p)
    store_block(dx.data, dx.type.dtype, at + p * plan.s.channels + begin, own + p * width, width);
}

template <class T>
void grad_x(const KernelCall& call) {
  const Plan& plan = plan_of(call);
  if (plan.is_empty()) return fill_zero(call);
  if (plan.is_depthwise()) return depthwise_grad_x<T>(call, plan.s);
  const Space<T> space(call, grad_x_scratch(plan));
  const T* const kernel = whole(call, call.inputs[1], space.shared);
  const std::int64_t width = std::min(channels_at_once(plan), plan.s.channels),
                     parts = up(plan.s.channels, width);
  for_tasks(call, plan.s.batch * parts, [&](std::int64_t task, std::int64_t worker) {
    const std::int64_t begin = task % parts * width;
    grad_x_image(call, plan, kernel, space, worker, task / parts, begin,
                 std::min(begin + width, plan.s.channels));
  });
}

// ---- dkernel = windowsᵀ · dy: a task takes some columns of the windows and some features

struct KernelParts {
  std::int64_t columns, features;  ///< of a task; multiples of 16 but for the last
};

/// Every task of a column gathers the same windows, and every one of a feature reads the same dy.
KernelParts kernel_parts(const Plan& plan) {
  constexpr std::int64_t kFewestColumns = 64, kFewestFeatures = 128;
  const std::int64_t lines = plan.columns();
  const auto wanted = static_cast<std::int64_t>(std::bit_floor(
      static_cast<std::uint64_t>(std::clamp<std::int64_t>(lines / kFewestColumns, 2, kTasks))));
  const std::int64_t columns = std::min({lines, up(lines, wanted * 16) * 16, kColumns}),
                     side_by_side = up(kTasks, up(lines, columns) * plan.s.groups),
                     features =
                         std::max(kFewestFeatures, up(plan.outputs(), side_by_side * 16) * 16);
  return {columns, std::min(plan.outputs(), features)};
}

Scratch grad_kernel_scratch(const Plan& plan) {
  const KernelParts parts = kernel_parts(plan);
  return {.shared = plan.as_stored ? 0 : plan.columns() * plan.s.features,
          .windows = plan.is_matrix && plan.as_stored ? 0 : kRows * parts.columns,
          .values = plan.as_stored ? 0 : kRows * parts.features};
}

/// Columns and features [begin, end) of one group.
struct KernelTask {
  std::int64_t group, begin, end, first_feature, features;
};

template <class T>
Panel<T> features_of(const KernelTensor& dy, const Plan& plan, const KernelTask& t,
                     std::int64_t first, std::int64_t m, T* to) {
  const std::int64_t all = plan.s.features,
                     at = first * all + t.group * plan.outputs() + t.first_feature;
  if (plan.as_stored) return {dy.as<T>() + at, all};
  for (std::int64_t r = 0; r < m; ++r)
    load_block(to + r * t.features, dy.data, dy.type.dtype, at + r * all, t.features);
  return {to, t.features};
}

template <class T>
void grad_kernel_task(const KernelCall& call, const Plan& plan, const KernelTask& t, T* dkernel,
                      T* windows, T* values) {
  const std::int64_t width = t.end - t.begin, features = plan.s.features;
  T* const out = dkernel + t.begin * features + t.group * plan.outputs() + t.first_feature;
  for (std::int64_t first = 0; first < plan.rows(); first += kRows) {
    const std::int64_t m = std::min(kRows, plan.rows() - first);
    Panel<T> left{windows, width, true};
    if (plan.is_matrix && plan.as_stored)
      left = {call.inputs[0].as<T>() + first * plan.s.channels + t.group * plan.inputs() + t.begin,
              plan.s.channels, true};
    else
      gather(windows, width, call.inputs[0], plan, t.group, first, m, t.begin, t.end);
    gemm(width, t.features, m, left, features_of(call.inputs[1], plan, t, first, m, values),
         first > 0, out, features, plan.fixed);
  }
}

template <class T>
void grad_kernel(const KernelCall& call) {
  const Plan& plan = plan_of(call);
  const KernelTensor& dkernel = call.outputs[0];
  if (plan.is_empty()) return fill_zero(call);
  if (plan.is_depthwise()) return depthwise_grad_kernel<T>(call, plan.s);
  const Space<T> space(call, grad_kernel_scratch(plan));
  T* const sums = plan.as_stored ? dkernel.as<T>() : space.shared;
  const KernelParts parts = kernel_parts(plan);
  const std::int64_t down = up(plan.columns(), parts.columns),
                     across = up(plan.outputs(), parts.features);
  for_tasks(call, plan.s.groups * down * across, [&](std::int64_t task, std::int64_t worker) {
    const std::int64_t begin = task / across % down * parts.columns,
                       feature = task % across * parts.features;
    const KernelTask part{task / (across * down), begin,
                          std::min(begin + parts.columns, plan.columns()), feature,
                          std::min(parts.features, plan.outputs() - feature)};
    grad_kernel_task(call, plan, part, sums, space.windows(worker), space.values(worker));
  });
  if (plan.as_stored) return;
  call.team->parallel_for(
      dkernel.type.elements(), 1 << 14, [&](std::int64_t begin, std::int64_t end) {
        store_block(dkernel.data, dkernel.type.dtype, begin, sums + begin, end - begin);
      });
}

// ---- the operators

Plan make_plan(const KernelCall& call, const KernelTensor& x, const KernelTensor& kernel,
               const KernelTensor& y) {
  Plan plan{.s = kernels::convolution_shape(x, kernel, y, *call.attributes),
            .threads = call.threads,
            .as_stored = x.type.dtype == f32 || x.type.dtype == f64,
            .grouped = call.attributes->integer("groups") > 1,
            .fixed = call.sums.is_fixed()};
  const auto is_plain = [](const kernels::WindowDim& d) {
    return d.size == 1 && d.stride == 1 && d.pad == 0 && d.in == d.out;
  };
  plan.is_matrix = is_plain(plan.s.h) && is_plain(plan.s.w);
  return plan;
}

/// oneDNN's convolution, or null where it has none, or one order of sums is wanted.
std::shared_ptr<const DnnlConvolution> library_of(const Plan& plan, DType dtype,
                                                  ConvolutionPass pass) {
  if (plan.fixed || plan.is_empty()) return nullptr;
  if (dtype != f32 && !has_matrix_unit(dtype)) return nullptr;
  auto library = std::make_shared<DnnlConvolution>(plan.s, pass, dtype, plan.threads);
  return library->usable() ? library : nullptr;
}

/// The tensors of a convolution, of which a pass computes one.
struct Tensors {
  const KernelTensor &x, &kernel, &y;
};

template <ConvolutionPass pass>
Tensors tensors_of(const KernelCall& call) {
  const KernelTensor &a = call.inputs[0], &b = call.inputs[1], &result = call.outputs[0];
  if constexpr (pass == ConvolutionPass::forward) return {a, b, result};
  if constexpr (pass == ConvolutionPass::grad_x) return {result, b, a};
  return {a, result, b};
}

template <ConvolutionPass pass>
Plan plan_pass(const KernelCall& call) {
  const auto [x, kernel, y] = tensors_of<pass>(call);
  Plan plan = make_plan(call, x, kernel, y);
  plan.library = library_of(plan, x.type.dtype, pass);
  return plan;
}

template <ConvolutionPass pass>
std::shared_ptr<const void> prepare(const KernelCall& call) {
  return std::make_shared<Plan>(plan_pass<pass>(call));
}

template <ConvolutionPass pass, Scratch (*scratch)(const Plan&)>
std::int64_t workspace(const KernelCall& call) {
  const Plan plan = call.prepared ? plan_of(call) : plan_pass<pass>(call);
  if (plan.library) return plan.library->workspace_bytes();
  if (plan.is_empty() || plan.is_depthwise()) return 0;
  return scratch(plan).bytes(plan,
                             call.inputs[0].type.dtype == f64 ? sizeof(double) : sizeof(float));
}

template <ConvolutionPass pass, void (*in_float)(const KernelCall&),
          void (*in_double)(const KernelCall&)>
void run(const KernelCall& call) {
  const Plan& plan = plan_of(call);
  if (!plan.library) return (call.inputs[0].type.dtype == f64 ? in_double : in_float)(call);
  const auto [x, kernel, y] = tensors_of<pass>(call);
  plan.library->run(x.data, kernel.data, y.data, call.workspace, *call.team);
}

template <ConvolutionPass pass, void (*in_float)(const KernelCall&),
          void (*in_double)(const KernelCall&), Scratch (*scratch)(const Plan&)>
constexpr KernelDef kPass{run<pass, in_float, in_double>, prepare<pass>, workspace<pass, scratch>};

constexpr KernelDef kGradKernel = kPass<ConvolutionPass::grad_kernel, grad_kernel<float>,
                                        grad_kernel<double>, grad_kernel_scratch>;

}  // namespace

const KernelDef conv2d =
    kPass<ConvolutionPass::forward, forward<float>, forward<double>, forward_scratch>;
const KernelDef conv2d_grad_x =
    kPass<ConvolutionPass::grad_x, grad_x<float>, grad_x<double>, grad_x_scratch>;
const KernelDef conv2d_grad_kernel = in_chunks<kGradKernel>;

}  // namespace alpa::cpu
