#pragma once
/// cuDNN's graph interface behind checked calls: descriptors that free themselves, the engines that
/// cuDNN proposes for operations, and their plans. Thread rule: what belongs to one handle
/// belongs to one host thread at a time.
#include <cudnn.h>

#include <span>
#include <utility>
#include <vector>

#include "alpa/base/shape.h"
#include "handles.h"
#include "kernels/cuda/launch.h"

namespace alpa::cuda {

void destroy_dnn_handle(cudnnHandle_t handle);
void destroy_dnn_descriptor(cudnnBackendDescriptor_t descriptor);

using DnnHandle = Handle<Opaque<cudnnHandle_t>, destroy_dnn_handle>;
/// A cuDNN handle for the current device. Throws Error, also if cuDNN is not installed.
DnnHandle make_dnn_handle();

/// One backend descriptor. Every call throws Error naming itself, cuDNN's status and its reason.
class DnnDescriptor {
 public:
  explicit DnnDescriptor(cudnnBackendDescriptorType_t type);

  DnnDescriptor& set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                     std::int64_t count, const void* values);
  DnnDescriptor& set(cudnnBackendAttributeName_t name, const Shape& numbers);
  DnnDescriptor& set(cudnnBackendAttributeName_t name, float number);
  DnnDescriptor& set(cudnnBackendAttributeName_t name, const DnnDescriptor& part);
  /// Reads at most `room` values; returns how many there are.
  std::int64_t get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                   std::int64_t room, void* values) const;
  /// Afterwards no attribute can be set.
  DnnDescriptor& finalize();
  cudnnBackendDescriptor_t get() const { return handle_.get(); }

 private:
  Handle<Opaque<cudnnBackendDescriptor_t>, destroy_dnn_descriptor> handle_;
};

cudnnDataType_t dnn_type(DType dtype);

/// Location of a tensor's elements.
enum class DnnStorage : std::uint8_t {
  device,    ///< in memory of the card
  by_value,  ///< one number in host memory
  nowhere,   ///< between operations of a graph: never bound to a pointer
};

/// A tensor that pointers are bound to by number.
DnnDescriptor dnn_tensor(std::int64_t number, cudnnDataType_t type, const Shape& shape,
                         const Shape& strides, DnnStorage storage = DnnStorage::device);

/// Target of operations: a card of this machine by its handle, or any card by its properties
/// (CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR), for which plans can be made but not run.
struct DnnTarget {
  cudnnHandle_t handle = nullptr;
  const DnnDescriptor* properties = nullptr;  ///< of the card, without a handle
};

/// One configuration of an engine that cuDNN proposes.
struct DnnEngine {
  DnnDescriptor configuration;
  std::vector<cudnnBackendNumericalNote_t> notes;

  bool has(cudnnBackendNumericalNote_t note) const;
};

/// The configurations for a graph of operations, the most promising first, those of the fallback
/// list last. Empty if cuDNN has none.
std::vector<DnnEngine> dnn_engines(const DnnTarget& target,
                                   std::span<const DnnDescriptor> operations);

/// Where the elements of tensors are, by number.
using DnnTensors = std::span<const std::pair<std::int64_t, void*>>;

/// An engine ready to run.
class DnnPlan {
 public:
  /// Throws Error if the engine does not take the operation after all.
  DnnPlan(const DnnTarget& target, const DnnEngine& engine);

  /// Bytes of device memory that a run needs.
  std::int64_t workspace_bytes() const { return workspace_bytes_; }
  /// Queues it, on a stream of the handle's device.
  void run(const DnnDescriptor& pack, Stream stream) const;

 private:
  cudnnHandle_t handle_;
  DnnDescriptor plan_;
  std::int64_t workspace_bytes_;
};

/// The variant packs of one call. Its tensors have few places, one for each slot of their buffers,
/// so that nothing is made or allocated after the first runs.
class DnnPacks {
 public:
  /// `tensors` are the same ones at every call, at other places.
  const DnnDescriptor& of(DnnTensors tensors, void* workspace);

 private:
  struct Pack {
    std::vector<void*> places;  ///< of the tensors, and the workspace
    DnnDescriptor descriptor;
  };
  std::vector<Pack> packs_;
};

}  // namespace alpa::cuda
