#pragma once
/// Device memory for kernel tests, and the one line that tests print where there is no device.
#include <cuda_runtime.h>
#include <doctest/doctest.h>

#include <cstdio>
#include <memory>

#include "kernels/kernel_call.h"

namespace alpa::testing {

/// True, and says so once, if no kernel can run: a test returns then.
inline bool no_device() {
  static const bool absent = [] {
    int devices = 0;
    const cudaError_t status = cudaGetDeviceCount(&devices);
    if (status == cudaSuccess && devices > 0) return false;
    std::printf("skipped: no CUDA device: %s\n",
                status == cudaSuccess ? "none found" : cudaGetErrorString(status));
    return true;
  }();
  return absent;
}

inline void check(int status) {
  REQUIRE_MESSAGE(status == cudaSuccess, cudaGetErrorString(static_cast<cudaError_t>(status)));
}

/// Device memory between two guards, `shift` bytes after an address that is a multiple of 256.
/// Everything is poisoned at first.
class DeviceBuffer {
 public:
  static constexpr std::size_t kGuard = 256;

  explicit DeviceBuffer(std::size_t bytes, std::size_t shift = 0) : bytes_(bytes), shift_(shift) {
    check(cudaMalloc(&base_, total()));
    check(cudaMemset(base_, kPoison, total()));
    check(cudaStreamSynchronize(nullptr));  // no other stream waits for it
  }
  explicit DeviceBuffer(const HostTensor& tensor, std::size_t shift = 0)
      : DeviceBuffer(tensor.bytes.size(), shift) {
    check(cudaMemcpy(data(), tensor.bytes.data(), bytes_, cudaMemcpyHostToDevice));
  }
  DeviceBuffer(DeviceBuffer&& other) noexcept
      : bytes_(other.bytes_), shift_(other.shift_), base_(std::exchange(other.base_, nullptr)) {}
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;
  ~DeviceBuffer() { cudaFree(base_); }

  void* data() const { return static_cast<char*>(base_) + kGuard + shift_; }

  /// What the buffer holds; the guards must be untouched.
  void download(void* to) const {
    std::vector<unsigned char> all(total());
    check(cudaDeviceSynchronize());
    check(cudaMemcpy(all.data(), base_, all.size(), cudaMemcpyDeviceToHost));
    std::memcpy(to, all.data() + kGuard + shift_, bytes_);
    bool untouched = true;
    for (std::size_t i = 0; i < all.size(); ++i)
      if (i < kGuard + shift_ || i >= kGuard + shift_ + bytes_)
        untouched = untouched && all[i] == kPoison;
    CHECK(untouched);
  }
  /// Nothing was written around the buffer.
  void check_guards() const {
    std::vector<unsigned char> content(bytes_);
    download(content.data());
  }
  HostTensor download(const TensorType& type) const {
    HostTensor tensor(type);
    download(tensor.bytes.data());
    return tensor;
  }

 private:
  static constexpr int kPoison = 0xcb;
  std::size_t total() const { return 2 * kGuard + shift_ + bytes_; }

  std::size_t bytes_, shift_;
  void* base_ = nullptr;
};

/// Every element of a tensor as double.
inline std::vector<double> values_of(const HostTensor& tensor) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < tensor.type.elements(); ++i) values.push_back(tensor.get(i));
  return values;
}

/// A call with these types, whole tensors, for planning.
inline KernelCall planned_call(const std::vector<HostTensor>& in,
                               const std::vector<TensorType>& out, const Attributes& attributes) {
  KernelCall call;
  for (const HostTensor& t : in)
    call.inputs.push_back({nullptr, t.type, Shape(t.type.shape.size(), 0), t.type.shape});
  for (const TensorType& t : out)
    call.outputs.push_back({nullptr, t, Shape(t.shape.size(), 0), t.shape});
  call.attributes = &attributes;
  return call;
}

}  // namespace alpa::testing
