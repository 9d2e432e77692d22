// kernels/cuda/lines.cu — kernels along one dimension
#include "kernels/cuda/lines.h"

#include <type_traits>

#include "kernels/cuda/floating.h"
#include "kernels/order.h"

namespace alpa::cuda {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kSelected = 64;  ///< most elements found one after the other

/// What is compared: i32 and double in double, which holds both.
template <class T>
using Compared =
    std::conditional_t<std::is_same_v<T, double> || std::is_same_v<T, std::int32_t>, double, float>;

// ---- lookups

template <class T>
__global__ void __launch_bounds__(kThreads)
    take(const __grid_constant__ Lines y_lines, const __grid_constant__ HeldPart part, const T* x,
         const std::int32_t* ids, T* y) {
  for_share(y_lines.outer * y_lines.extent * y_lines.inner, [&](std::int64_t at) {
    const Division row = divide(at, y_lines.inner);
    const std::int64_t id = ids[at], e = id - part.first,
                       outer = divide(row.quotient, y_lines.extent).quotient;
    T value = Element<T>::narrow(id >= 0 && id < part.all ? 0.0f : NAN);
    if (id >= 0 && id < part.all && e >= 0 && e < part.held)
      value = x[(outer * part.held + e) * y_lines.inner + row.remainder];
    y[at] = value;
  });
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    add_taken(const __grid_constant__ Lines dy_lines, const __grid_constant__ HeldPart part,
              const T* dy, const std::int32_t* ids, T* dx) {
  for_share(dy_lines.outer * part.held * dy_lines.inner, [&](std::int64_t at) {
    const Division row = divide(at, dy_lines.inner), place = divide(row.quotient, part.held);
    const std::int64_t own = part.first + place.remainder,
                       line = place.quotient * dy_lines.extent * dy_lines.inner + row.remainder;
    double sum = 0;
    for (std::int64_t j = 0; j < dy_lines.extent; ++j) {
      const std::int64_t from = line + j * dy_lines.inner;
      if (ids[from] == own) sum += Element<T>::template widen<double>(dy[from]);
    }
    dx[at] = Element<T>::narrow(sum);
  });
}

// ---- cumulative sums

/// Exclusive sums over the threads of a block, in their order.
__device__ inline double sum_of_earlier_threads(double own) {
  __shared__ double sums[kThreads];
  sums[threadIdx.x] = own;
  __syncthreads();
  for (int offset = 1; offset < kThreads; offset *= 2) {
    const double earlier =
        static_cast<int>(threadIdx.x) >= offset ? sums[threadIdx.x - offset] : 0.0;
    __syncthreads();
    sums[threadIdx.x] += earlier;
    __syncthreads();
  }
  const double result = threadIdx.x > 0 ? sums[threadIdx.x - 1] : 0.0;
  __syncthreads();  // all have read before the next line's are written
  return result;
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    add_up(const __grid_constant__ Lines lines, bool exclusive, bool reverse, const T* x, T* y) {
  const std::int64_t piece = (lines.extent + kThreads - 1) / kThreads, begin = piece * threadIdx.x,
                     end = begin + piece < lines.extent ? begin + piece : lines.extent;
  for (std::int64_t l = blockIdx.x; l < lines.outer * lines.inner; l += gridDim.x) {
    const Division line = divide(l, lines.inner);
    const std::int64_t base = line.quotient * lines.extent * lines.inner + line.remainder;
    const auto place = [&](std::int64_t i) {
      return base + (reverse ? lines.extent - 1 - i : i) * lines.inner;
    };
    double sum = 0;
    for (std::int64_t i = begin; i < end; ++i)
      sum += Element<T>::template widen<double>(x[place(i)]);
    sum = sum_of_earlier_threads(sum);
    for (std::int64_t i = begin; i < end; ++i) {
      const double before = sum;
      sum += Element<T>::template widen<double>(x[place(i)]);
      y[place(i)] = Element<T>::narrow(exclusive ? before : sum);
    }
  }
}

// ---- order

/// An element and its index; index -1 is none, which comes last.
template <class S>
struct Found {
  S value;
  std::int64_t index;
};

template <class S>
__device__ inline bool better(const Found<S>& a, const Found<S>& b, bool descending) {
  if (a.index < 0 || b.index < 0) return a.index >= 0;
  return kernels::comes_before(a.value, a.index, b.value, b.index, descending);
}

/// The first of all threads' elements, in all of them.
template <class S>
__device__ Found<S> first_of_block(Found<S> own, bool descending) {
  __shared__ Found<S> found[kThreads];
  found[threadIdx.x] = own;
  __syncthreads();
  for (int offset = kThreads / 2; offset > 0; offset /= 2) {
    if (static_cast<int>(threadIdx.x) < offset &&
        better(found[threadIdx.x + offset], found[threadIdx.x], descending))
      found[threadIdx.x] = found[threadIdx.x + offset];
    __syncthreads();
  }
  const Found<S> first = found[0];
  __syncthreads();  // all have read before the next ones are written
  return first;
}

/// The first element of a line that comes after `last`, if that has an index.
template <class T, class S>
__device__ Found<S> next_in_line(const T* line, std::int64_t extent, std::int64_t stride,
                                 const Found<S>& last, bool descending) {
  Found<S> own{S(0), -1};
  for (std::int64_t e = threadIdx.x; e < extent; e += kThreads) {
    const Found<S> here{Element<T>::template widen<S>(line[e * stride]), e};
    if (last.index >= 0 && !better(last, here, descending)) continue;
    if (better(here, own, descending)) own = here;
  }
  return first_of_block(own, descending);
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    find_largest(const __grid_constant__ Lines lines, const T* x, std::int32_t* y) {
  using S = Compared<T>;
  for (std::int64_t l = blockIdx.x; l < lines.outer * lines.inner; l += gridDim.x) {
    const Division line = divide(l, lines.inner);
    const T* const from = x + line.quotient * lines.extent * lines.inner + line.remainder;
    const Found<S> first = next_in_line(from, lines.extent, lines.inner, Found<S>{S(0), -1}, true);
    if (threadIdx.x == 0) y[l] = static_cast<std::int32_t>(first.index);
  }
}

/// Finds one element after the other.
template <class T>
__global__ void __launch_bounds__(kThreads)
    select(const __grid_constant__ Lines lines, std::int64_t k, bool descending, const T* x,
           T* values, std::int32_t* indices) {
  using S = Compared<T>;
  for (std::int64_t l = blockIdx.x; l < lines.outer; l += gridDim.x) {
    const T* const line = x + l * lines.extent;
    Found<S> last{S(0), -1};
    for (std::int64_t i = 0; i < k; ++i) {
      last = next_in_line(line, lines.extent, std::int64_t{1}, last, descending);
      if (threadIdx.x != 0) continue;
      values[l * k + i] = line[last.index];
      indices[l * k + i] = static_cast<std::int32_t>(last.index);
    }
  }
}

/// Every element counts those before it.
template <class T>
__global__ void __launch_bounds__(kThreads)
    rank(const __grid_constant__ Lines lines, std::int64_t k, bool descending, const T* x,
         T* values, std::int32_t* indices) {
  using S = Compared<T>;
  for_share(lines.outer * lines.extent, [&](std::int64_t at) {
    const Division place = divide(at, lines.extent);
    const T* const line = x + place.quotient * lines.extent;
    const S own = Element<T>::template widen<S>(x[at]);
    std::int64_t before = 0;
    for (std::int64_t e = 0; e < lines.extent; ++e)
      before += kernels::comes_before(Element<T>::template widen<S>(line[e]), e, own,
                                      place.remainder, descending)
                    ? 1
                    : 0;
    if (before >= k) return;
    values[place.quotient * k + before] = x[at];
    indices[place.quotient * k + before] = static_cast<std::int32_t>(place.remainder);
  });
}

}  // namespace

Status run_take(const Lines& lines, const HeldPart& part, const void* x, const std::int32_t* ids,
                void* y, Stream stream) {
  const std::int64_t count = lines.outer * lines.extent * lines.inner;
  return with_floating(lines.dtype, [&](auto t) {
    using T = decltype(t);
    return launch(take<T>, blocks_for(count, kThreads), kThreads, 0, stream, lines, part,
                  static_cast<const T*>(x), ids, static_cast<T*>(y));
  });
}

Status run_take_grad(const Lines& lines, const HeldPart& part, const void* dy,
                     const std::int32_t* ids, void* dx, Stream stream) {
  const std::int64_t count = lines.outer * part.held * lines.inner;
  return with_floating(lines.dtype, [&](auto t) {
    using T = decltype(t);
    return launch(add_taken<T>, blocks_for(count, kThreads, 65535), kThreads, 0, stream, lines,
                  part, static_cast<const T*>(dy), ids, static_cast<T*>(dx));
  });
}

Status run_cumulative_sum(const Lines& lines, bool exclusive, bool reverse, const void* x, void* y,
                          Stream stream) {
  return with_element(lines.dtype, [&](auto t) {
    using T = decltype(t);
    return launch(add_up<T>, blocks_for(lines.outer * lines.inner, 1, 65535), kThreads, 0, stream,
                  lines, exclusive, reverse, static_cast<const T*>(x), static_cast<T*>(y));
  });
}

Status run_argmax(const Lines& lines, const void* x, std::int32_t* y, Stream stream) {
  return with_element(lines.dtype, [&](auto t) {
    using T = decltype(t);
    return launch(find_largest<T>, blocks_for(lines.outer * lines.inner, 1, 65535), kThreads, 0,
                  stream, lines, static_cast<const T*>(x), y);
  });
}

Status run_top_k(const Lines& lines, std::int64_t k, bool descending, const void* x, void* values,
                 std::int32_t* indices, Stream stream) {
  return with_element(lines.dtype, [&](auto t) {
    using T = decltype(t);
    if (k <= kSelected)
      return launch(select<T>, blocks_for(lines.outer, 1, 65535), kThreads, 0, stream, lines, k,
                    descending, static_cast<const T*>(x), static_cast<T*>(values), indices);
    return launch(rank<T>, blocks_for(lines.outer * lines.extent, kThreads, 65535), kThreads, 0,
                  stream, lines, k, descending, static_cast<const T*>(x), static_cast<T*>(values),
                  indices);
  });
}

}  // namespace alpa::cuda
