// kernels/cpu/take_along_axis.cc — take_along_axis and take_along_axis_grad. A device may hold only
// some of x's elements along the axis; ids of others are left to the devices that hold them.
#include <algorithm>

#include "alpa/base/error.h"
#include "kernels/cpu/block_io.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/lines.h"
#include "src/base/thread_team.h"

namespace alpa::cpu {
namespace {

constexpr std::int64_t kGrain = 16 * 1024;  ///< elements worth a thread
constexpr std::int64_t kColumns = 256;      ///< inner elements of one task

/// The elements along the axis that a device holds.
class Held {
 public:
  Held(const KernelTensor& x, std::int64_t axis)
      : all_(x.global_shape[axis]), first_(x.offset[axis]), held_(x.type.shape[axis]) {}

  /// Local index, -1 if another device holds it. Throws Error if there is no such element.
  std::int64_t local(std::int32_t id) const {
    require(id >= 0 && id < all_, "id {} is outside of 0 to {}; give ids of elements that exist",
            id, all_ - 1);
    const std::int64_t index = id - first_;
    return index >= 0 && index < held_ ? index : -1;
  }

 private:
  std::int64_t all_, first_, held_;
};

template <class T>
void take(const KernelCall& call) {
  const std::int64_t axis = call.attributes->integer("axis");
  const Lines x(call.inputs[0].type, axis), y(call.outputs[0].type, axis);
  const Held held(call.inputs[0], axis);
  const T* const from = call.inputs[0].as<T>();
  const auto* const ids = call.inputs[1].as<std::int32_t>();
  T* const to = call.outputs[0].as<T>();
  call.team->for_each(y.outer * y.extent, kGrain / std::max<std::int64_t>(1, y.inner) + 1,
                      [&](std::int64_t row) {
                        const T* const line = from + row / y.extent * x.extent * x.inner;
                        for (std::int64_t i = 0; i < y.inner; ++i) {
                          const std::int64_t at = row * y.inner + i, e = held.local(ids[at]);
                          to[at] = e >= 0 ? line[e * x.inner + i] : T();
                        }
                      });
}

void run_take(const KernelCall& call) {
  switch (size_of(call.inputs[0].type.dtype)) {
    case 2: return take<std::uint16_t>(call);
    case 4: return take<std::uint32_t>(call);
    default: return take<std::uint64_t>(call);
  }
}

// ---- gradient

/// Adds dy's elements up, carried as S in `sums` of dx's shape: whole columns of up to kColumns.
template <class T, class S>
void add_up(const KernelCall& call, S* sums) {
  const std::int64_t axis = call.attributes->integer("axis");
  const Lines dy(call.inputs[0].type, axis), dx(call.outputs[0].type, axis);
  const Held held(call.outputs[0], axis);
  const T* const from = call.inputs[0].as<T>();
  const auto* const ids = call.inputs[1].as<std::int32_t>();
  const std::int64_t blocks = (dx.inner + kColumns - 1) / kColumns;
  const std::int64_t work = std::min(kColumns, dx.inner) * (dx.extent + dy.extent);
  call.team->for_each(
      dx.outer * blocks, kGrain / std::max<std::int64_t>(1, work) + 1, [&](std::int64_t task) {
        const std::int64_t o = task / blocks, first = task % blocks * kColumns,
                           last = std::min(dx.inner, first + kColumns);
        S* const line = sums + o * dx.extent * dx.inner;
        for (std::int64_t e = 0; e < dx.extent; ++e)
          std::fill(line + e * dx.inner + first, line + e * dx.inner + last, S(0));
        for (std::int64_t j = 0; j < dy.extent; ++j)
          for (std::int64_t i = first; i < last; ++i) {
            const std::int64_t at = (o * dy.extent + j) * dy.inner + i, e = held.local(ids[at]);
            if (e >= 0) line[e * dx.inner + i] += static_cast<S>(widen(from[at]));
          }
      });
}

/// 16-bit types are added up in the workspace.
template <class T>
void add_up_half(const KernelCall& call) {
  auto* const sums = reinterpret_cast<float*>(call.workspace);
  add_up<T>(call, sums);
  const KernelTensor& dx = call.outputs[0];
  call.team->parallel_for(dx.type.elements(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    store_block(dx.data, dx.type.dtype, begin, sums + begin, end - begin);
  });
}

void run_take_grad(const KernelCall& call) {
  switch (call.outputs[0].type.dtype) {
    case bf16: return add_up_half<Bf16>(call);
    case f16: return add_up_half<F16>(call);
    case f64: return add_up<double>(call, call.outputs[0].as<double>());
    default: return add_up<float>(call, call.outputs[0].as<float>());
  }
}

std::int64_t take_grad_workspace(const KernelCall& call) {
  const TensorType& dx = call.outputs.at(0).type;
  return size_of(dx.dtype) == 2 ? dx.elements() * static_cast<std::int64_t>(sizeof(float)) : 0;
}

}  // namespace

const KernelDef take_along_axis{run_take};
const KernelDef take_along_axis_grad{run_take_grad, nullptr, take_grad_workspace};

}  // namespace alpa::cpu
