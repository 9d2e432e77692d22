// kernels/cpu/top_k.cc — argmax, top_k
#include <algorithm>
#include <numeric>

#include "kernels/cpu/block_io.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/lines.h"
#include "kernels/order.h"
#include "src/base/thread_team.h"
#include "src/tensor/storage.h"

namespace alpa::cpu {
namespace {

constexpr std::int64_t kGrain = 16 * 1024;  ///< elements worth a thread
constexpr std::int64_t kInserted = 32;      ///< most elements that are kept by insertion

template <class T>
void find_largest(const KernelCall& call) {
  const Lines x(call.inputs[0].type, call.attributes->integer("axis"));
  const T* const from = call.inputs[0].as<T>();
  auto* const to = call.outputs[0].as<std::int32_t>();
  call.team->for_each(x.outer * x.inner, kGrain / std::max<std::int64_t>(1, x.extent) + 1,
                      [&](std::int64_t c) {
                        const T* const line = from + c / x.inner * x.extent * x.inner + c % x.inner;
                        std::int64_t best = 0;
                        for (std::int64_t e = 1; e < x.extent; ++e)
                          if (kernels::comes_before(widen(line[e * x.inner]), e,
                                                    widen(line[best * x.inner]), best, true))
                            best = e;
                        to[c] = static_cast<std::int32_t>(best);
                      });
}

void run_argmax(const KernelCall& call) {
  with_storage_type(call.inputs[0].type.dtype, [&](auto t) { find_largest<decltype(t)>(call); });
}

// ---- top_k

/// The first k of `extent` indices in order, by insertion.
template <class Before>
void insert_all(std::int32_t* kept, std::int64_t k, std::int64_t extent, const Before& before) {
  std::int64_t count = 0;
  for (std::int32_t e = 0; e < extent; ++e) {
    if (count == k && !before(e, kept[k - 1])) continue;
    std::int64_t place = count < k ? count++ : k - 1;
    for (; place > 0 && before(e, kept[place - 1]); --place) kept[place] = kept[place - 1];
    kept[place] = e;
  }
}

bool is_sorted_elsewhere(std::int64_t k, std::int64_t extent) {
  return k > kInserted && k < extent;
}

template <class T>
void order_row(const KernelCall& call, std::int64_t row, std::int64_t k, std::int64_t extent) {
  const T* const x = call.inputs[0].as<T>() + row * extent;
  const bool descending = call.attributes->integer("descending") != 0;
  const auto before = [=](std::int32_t i, std::int32_t j) {
    return kernels::comes_before(widen(x[i]), i, widen(x[j]), j, descending);
  };
  T* const values = call.outputs[0].as<T>() + row * k;
  std::int32_t* const kept = call.outputs[1].as<std::int32_t>() + row * k;
  if (k <= kInserted) {
    insert_all(kept, k, extent, before);
  } else {
    std::int32_t* const indices =
        is_sorted_elsewhere(k, extent)
            ? reinterpret_cast<std::int32_t*>(call.workspace) + row * extent
            : kept;
    std::iota(indices, indices + extent, 0);
    if (k < extent) std::nth_element(indices, indices + k, indices + extent, before);
    std::sort(indices, indices + k, before);
    if (indices != kept) std::copy(indices, indices + k, kept);
  }
  for (std::int64_t i = 0; i < k; ++i) values[i] = x[kept[i]];
}

void run_top_k(const KernelCall& call) {
  const Shape& x = call.inputs[0].type.shape;
  const std::int64_t extent = x.back(), k = call.attributes->integer("k"),
                     rows = num_elements({x.begin(), x.end() - 1});
  call.team->parallel_for(rows, kGrain / extent + 1, [&](std::int64_t begin, std::int64_t end) {
    with_storage_type(call.inputs[0].type.dtype, [&](auto t) {
      for (std::int64_t r = begin; r < end; ++r) order_row<decltype(t)>(call, r, k, extent);
    });
  });
}

std::int64_t top_k_workspace(const KernelCall& call) {
  const TensorType& x = call.inputs.at(0).type;
  return is_sorted_elsewhere(call.attributes->integer("k"), x.shape.back())
             ? x.elements() * static_cast<std::int64_t>(sizeof(std::int32_t))
             : 0;
}

}  // namespace

const KernelDef argmax{run_argmax};
const KernelDef top_k{run_top_k, nullptr, top_k_workspace};

}  // namespace alpa::cpu
