#pragma once
/// Host tensors and calls for kernel tests: everything is read and written as
/// double, one element at a time.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <random>
#include <vector>

#include "alpa/base/error.h"
#include "src/base/half.h"
#include "src/base/thread_team.h"
#include "src/tensor/element.h"
#include "src/tensor/kernel.h"

namespace alpa::testing {

struct HostTensor {
  TensorType type;
  std::vector<std::byte> bytes;
  Shape offset, global_shape;  ///< empty: a whole tensor

  HostTensor() = default;
  explicit HostTensor(TensorType t)
      : type(std::move(t)), bytes(static_cast<std::size_t>(type.bytes())) {}

  bool operator==(const HostTensor&) const = default;

  template <class T>
  T raw(std::int64_t i) const {
    T value;
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
    return value;
  }
  template <class T>
  void put_raw(std::int64_t i, T value) {
    std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
  }

  double get(std::int64_t i) const {
    return load_element(type.dtype, bytes.data() + i * size_of(type.dtype));
  }
  void put(std::int64_t i, double value) {
    store_element(type.dtype, bytes.data() + i * size_of(type.dtype), value);
  }
};

/// A tensor of random numbers in [low, high); whole ones for i32 and u8.
inline HostTensor random_tensor(TensorType type, unsigned seed, double low = -2, double high = 2) {
  HostTensor tensor(std::move(type));
  if (tensor.type.dtype == u8) low = 0, high = 9;
  if (tensor.type.dtype == i32) low = -20, high = 20;
  std::mt19937 generator(seed);
  std::uniform_real_distribution<double> distribution(low, high);
  for (std::int64_t i = 0; i < tensor.type.elements(); ++i) tensor.put(i, distribution(generator));
  return tensor;
}

struct CallOptions {
  Attributes attributes = {};
  StepContext step = {};
  int threads = 1;
  std::vector<std::pair<int, int>> in_place = {};        ///< (output, input) that share a buffer
  std::function<SumOrder(const KernelCall&)> sums = {};  ///< null: in any order
};

/// The tensor as a call describes it, without data.
inline KernelTensor kernel_tensor(const HostTensor& t) {
  KernelTensor k{
      .data = nullptr, .type = t.type, .offset = t.offset, .global_shape = t.global_shape};
  if (k.global_shape.empty())
    k.offset.assign(t.type.shape.size(), 0), k.global_shape = t.type.shape;
  return k;
}

/// Runs the kernel; `outputs` give types, offsets and global shapes. Buffers of inputs end exactly
/// where the tensors end. Throws Bug if the kernel writes past its scratch or an output.
inline std::vector<HostTensor> run_kernel(const KernelDef& kernel, std::vector<HostTensor> inputs,
                                          std::vector<HostTensor> outputs,
                                          const CallOptions& options = {}) {
  ThreadTeam team(options.threads);
  KernelCall call;
  for (const HostTensor& t : inputs) call.inputs.push_back(kernel_tensor(t));
  for (const HostTensor& t : outputs) call.outputs.push_back(kernel_tensor(t));
  call.attributes = &options.attributes;
  call.step = &options.step;
  call.team = &team;
  call.threads = team.size();
  if (options.sums) call.sums = options.sums(call);
  if (kernel.prepare) call.prepared = kernel.prepare(call);
  const std::int64_t workspace = kernel.workspace_bytes ? kernel.workspace_bytes(call) : 0;
  constexpr std::byte kGuard{0xff};  // as a number of any floating type NaN
  constexpr std::size_t kGuardBytes = 4096;
  const auto is_guard = [=](std::byte byte) { return byte == kGuard; };
  std::vector<std::byte> scratch(static_cast<std::size_t>(workspace + 64 + kGuardBytes), kGuard);
  call.workspace =
      scratch.data() + (64 - reinterpret_cast<std::uintptr_t>(scratch.data()) % 64) % 64;
  for (std::size_t i = 0; i < inputs.size(); ++i) call.inputs[i].data = inputs[i].bytes.data();
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    outputs[i].bytes.resize(outputs[i].bytes.size() + kGuardBytes, kGuard);
    call.outputs[i].data = outputs[i].bytes.data();
  }
  for (const auto& [out, in] : options.in_place) call.outputs[out].data = call.inputs[in].data;
  kernel.run(call);
  invariant(std::all_of(call.workspace + workspace, scratch.data() + scratch.size(), is_guard),
            "the kernel writes past its {} bytes of scratch", workspace);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    invariant(std::all_of(outputs[i].bytes.end() - kGuardBytes, outputs[i].bytes.end(), is_guard),
              "the kernel writes past output {} of {}", i, to_string(outputs[i].type));
    outputs[i].bytes.resize(outputs[i].bytes.size() - kGuardBytes);
  }
  for (const auto& [out, in] : options.in_place) outputs[out].bytes = inputs[in].bytes;
  return outputs;
}

/// Calls visit(multi-index) for every element of `shape` in row-major order.
inline void for_each_index(const Shape& shape, const std::function<void(const Shape&)>& visit) {
  Shape index(shape.size(), 0);
  for (std::int64_t left = num_elements(shape); left > 0; --left) {
    visit(index);
    for (int d = static_cast<int>(shape.size()) - 1; d >= 0 && ++index[d] == shape[d]; --d)
      index[d] = 0;
  }
}

/// Position of a multi-index in a row-major tensor.
inline std::int64_t flat_index(const Shape& shape, const Shape& index) {
  std::int64_t flat = 0;
  for (std::size_t d = 0; d < shape.size(); ++d) flat = flat * shape[d] + index[d];
  return flat;
}

/// Largest |a - b| / max(1, |b|); infinity if one is NaN or infinite and the other is not the same.
inline double difference(const HostTensor& a, const std::vector<double>& b) {
  double worst = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    const double x = a.get(static_cast<std::int64_t>(i));
    if (x == b[i] || (x != x && b[i] != b[i])) continue;
    const double d = std::abs(x - b[i]) / std::max(1.0, std::abs(b[i]));
    worst = d < 1e300 ? std::max(worst, d) : 1e300;
  }
  return worst;
}

/// Relative rounding of the type.
inline double epsilon(DType dtype) {
  switch (dtype) {
    case DType::f32: return 1.2e-7;
    case DType::f64: return 2.3e-16;
    case DType::bf16: return 7.9e-3;
    case DType::f16: return 9.8e-4;
    default: return 0;
  }
}

}  // namespace alpa::testing
