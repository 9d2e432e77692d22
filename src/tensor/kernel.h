#pragma once
/// The kernel calling convention, the same for every backend. A call is built once,
/// when a device program is loaded; running it allocates nothing. Thread rule: a call
/// belongs to one device thread.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "alpa/base/attributes.h"
#include "alpa/base/shape.h"

namespace alpa {

class ThreadTeam;

/// One operand or result of a kernel: a dense row-major local tensor, and its
/// position in the whole tensor.
struct KernelTensor {
  std::byte* data = nullptr;
  TensorType type;     ///< local type; extents may be 0 on a device that holds nothing
  Shape offset;        ///< index of the first local element in the whole tensor, per dimension
  Shape global_shape;  ///< shape of the whole tensor

  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data);
  }
};

/// Values that change with every step; owned by the device, read by kernels
/// that draw random numbers.
struct StepContext {
  std::uint64_t seed = 0;
  std::int64_t step = 0;
  std::int64_t micro_batch = 0;
};

/// The order in which a call adds up. A letter that devices may split is summed in equal chunks of
/// the whole tensor, each by itself, and the sums of chunks along a balanced tree. All other
/// letters are summed in an order that depends on their extents in the whole tensor alone. So the
/// bits do not depend on the other extents of the local tensors, nor on threads.
struct SumOrder {
  int chunks = 0;  ///< of the device's part, a power of two; 0: sums may be added in any order
  /// Bit i: the first dimension of input (output) i has the letter.
  std::uint32_t inputs = 0, outputs = 0;

  bool is_fixed() const { return chunks > 0; }
};

struct KernelCall {
  /// an output may be the same buffer as an input if the operator is `in_place`
  std::vector<KernelTensor> inputs, outputs;
  const Attributes* attributes = nullptr;
  const StepContext* step = nullptr;
  /// size of `team`; known when the call is planned, before the team exists
  int threads = 1;
  SumOrder sums;
  /// threads of this device; null until the call is loaded
  ThreadTeam* team = nullptr;
  std::byte* workspace = nullptr;        ///< `workspace_bytes` of scratch, 64-byte aligned
  std::shared_ptr<const void> prepared;  ///< result of `KernelDef::prepare`
};

/// A backend's implementation of an operator.
struct KernelDef {
  void (*run)(const KernelCall&) = nullptr;
  /// Analysis done once at load time (data pointers are not valid yet); optional.
  std::shared_ptr<const void> (*prepare)(const KernelCall&) = nullptr;
  /// Scratch bytes the call needs (data pointers are not valid yet); optional.
  std::int64_t (*workspace_bytes)(const KernelCall&) = nullptr;

  explicit operator bool() const { return run != nullptr; }
};

}  // namespace alpa
