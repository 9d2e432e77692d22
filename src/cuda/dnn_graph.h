#pragma once
/// cuDNN's graph interface behind checked calls: descriptors that free themselves, and the plan of
/// one operation. Thread rule: what belongs to one handle belongs to one host thread.
#include <cudnn.h>

#include <initializer_list>
#include <utility>
#include <vector>

#include "alpa/base/shape.h"
#include "handles.h"

namespace alpa::cuda {

void destroy_dnn_handle(cudnnHandle_t handle);
void destroy_dnn_descriptor(cudnnBackendDescriptor_t descriptor);

using DnnHandle = Handle<Opaque<cudnnHandle_t>, destroy_dnn_handle>;
/// Throws Error, also if cuDNN is not installed.
DnnHandle make_dnn_handle();

/// One backend descriptor. Every call throws Error naming itself and cuDNN's status.
class DnnDescriptor {
 public:
  explicit DnnDescriptor(cudnnBackendDescriptorType_t type);

  DnnDescriptor& set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                     std::int64_t count, const void* values);
  DnnDescriptor& set(cudnnBackendAttributeName_t name, const Shape& numbers);
  DnnDescriptor& set(cudnnBackendAttributeName_t name, float number);
  DnnDescriptor& set(cudnnBackendAttributeName_t name, const DnnDescriptor& part);
  /// Afterwards no attribute can be set.
  DnnDescriptor& finalize();
  cudnnBackendDescriptor_t get() const { return handle_.get(); }

 private:
  Handle<Opaque<cudnnBackendDescriptor_t>, destroy_dnn_descriptor> handle_;
};

/// A dense tensor that pointers are bound to by number; `by_value`: a number in host memory.
DnnDescriptor dnn_tensor(std::int64_t number, DType dtype, const Shape& shape, const Shape& strides,
                         bool by_value = false);

/// How cuDNN runs one operation: the first of the engines it proposes that takes it.
class DnnPlan {
 public:
  /// Throws Error with the last engine's status if none takes it.
  DnnPlan(cudnnHandle_t handle, const DnnDescriptor& operation);

  /// Bytes of device memory that a run needs.
  std::int64_t workspace_bytes() const;
  /// Queues it on the handle's stream. `tensors`: numbers and where their elements are.
  void run(const std::vector<std::pair<std::int64_t, void*>>& tensors, void* workspace) const;

 private:
  cudnnHandle_t handle_;
  DnnDescriptor graph_, plan_;
};

}  // namespace alpa::cuda
