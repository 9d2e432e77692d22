// src/cuda/dnn_graph.cc — descriptors and plans of cuDNN's graph interface
#include "dnn_graph.h"

#include <algorithm>

#include "alpa/base/error.h"
#include "dnn_library.h"
#include "status.h"

namespace alpa::cuda {
namespace {

/// Engines that are tried before giving up.
constexpr std::int64_t kMaxEngines = 16;

cudnnDataType_t dnn_type(DType dtype) {
  switch (dtype) {
    case DType::f32: return CUDNN_DATA_FLOAT;
    case DType::bf16: return CUDNN_DATA_BFLOAT16;
    case DType::f16: return CUDNN_DATA_HALF;
    case DType::f64: return CUDNN_DATA_DOUBLE;
    case DType::i32: return CUDNN_DATA_INT32;
    case DType::u8: return CUDNN_DATA_UINT8;
  }
  bug("unknown element type");
}

DnnDescriptor graph_of(cudnnHandle_t handle, const DnnDescriptor& operation) {
  DnnDescriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, operation);
  return std::move(graph.finalize());
}

/// Configurations of engines, the most promising first.
std::vector<DnnDescriptor> engines_of(const DnnDescriptor& graph) {
  DnnDescriptor heuristic(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  const cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode).finalize();
  std::vector<DnnDescriptor> engines;
  std::vector<cudnnBackendDescriptor_t> handles;
  for (std::int64_t i = 0; i < kMaxEngines; ++i)
    handles.push_back(engines.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR).get());
  std::int64_t count = 0;
  check(dnn().get_attribute(heuristic.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                            CUDNN_TYPE_BACKEND_DESCRIPTOR, kMaxEngines, &count, handles.data()),
        "cudnnBackendGetAttribute(CUDNN_ATTR_ENGINEHEUR_RESULTS)");
  engines.erase(engines.begin() + std::min(count, kMaxEngines), engines.end());
  require(!engines.empty(), "cuDNN proposes no engine for the operation");
  return engines;
}

DnnDescriptor plan_of(cudnnHandle_t handle, const DnnDescriptor& graph) {
  const std::vector<DnnDescriptor> engines = engines_of(graph);
  for (std::size_t i = 0;; ++i) try {
      DnnDescriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
      plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
      plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, engines[i]);
      return std::move(plan.finalize());
    } catch (const Error&) {
      if (i + 1 == engines.size()) throw;
    }
}

}  // namespace

void destroy_dnn_handle(cudnnHandle_t handle) { dnn().destroy(handle); }
void destroy_dnn_descriptor(cudnnBackendDescriptor_t descriptor) {
  dnn().destroy_descriptor(descriptor);
}

DnnHandle make_dnn_handle() {
  cudnnHandle_t handle = nullptr;
  check(dnn().create(&handle), "cudnnCreate");
  return DnnHandle(handle);
}

DnnDescriptor::DnnDescriptor(cudnnBackendDescriptorType_t type) {
  cudnnBackendDescriptor_t handle = nullptr;
  check(dnn().create_descriptor(type, &handle), "cudnnBackendCreateDescriptor");
  handle_.reset(handle);
}

DnnDescriptor& DnnDescriptor::set(cudnnBackendAttributeName_t name,
                                  cudnnBackendAttributeType_t type, std::int64_t count,
                                  const void* values) {
  check(dnn().set_attribute(get(), name, type, count, values), "cudnnBackendSetAttribute");
  return *this;
}

DnnDescriptor& DnnDescriptor::set(cudnnBackendAttributeName_t name, const Shape& numbers) {
  return set(name, CUDNN_TYPE_INT64, static_cast<std::int64_t>(numbers.size()), numbers.data());
}

DnnDescriptor& DnnDescriptor::set(cudnnBackendAttributeName_t name, float number) {
  return set(name, CUDNN_TYPE_FLOAT, 1, &number);
}

DnnDescriptor& DnnDescriptor::set(cudnnBackendAttributeName_t name, const DnnDescriptor& part) {
  const cudnnBackendDescriptor_t handle = part.get();
  return set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &handle);
}

DnnDescriptor& DnnDescriptor::finalize() {
  check(dnn().finalize(get()), "cudnnBackendFinalize");
  return *this;
}

DnnDescriptor dnn_tensor(std::int64_t number, DType dtype, const Shape& shape, const Shape& strides,
                         bool by_value) {
  DnnDescriptor tensor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  const cudnnDataType_t type = dnn_type(dtype);
  tensor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
  tensor.set(CUDNN_ATTR_TENSOR_DIMENSIONS, shape).set(CUDNN_ATTR_TENSOR_STRIDES, strides);
  tensor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, Shape{number})
      .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, Shape{16});
  if (by_value) tensor.set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &by_value);
  return std::move(tensor.finalize());
}

DnnPlan::DnnPlan(cudnnHandle_t handle, const DnnDescriptor& operation)
    : handle_(handle), graph_(graph_of(handle, operation)), plan_(plan_of(handle, graph_)) {}

std::int64_t DnnPlan::workspace_bytes() const {
  std::int64_t bytes = 0;
  check(dnn().get_attribute(plan_.get(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64,
                            1, nullptr, &bytes),
        "cudnnBackendGetAttribute(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE)");
  return bytes;
}

void DnnPlan::run(const std::vector<std::pair<std::int64_t, void*>>& tensors,
                  void* workspace) const {
  Shape numbers;
  std::vector<void*> pointers;
  for (const auto& [number, pointer] : tensors)
    numbers.push_back(number), pointers.push_back(pointer);
  DnnDescriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, numbers);
  pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
           static_cast<std::int64_t>(pointers.size()), pointers.data());
  pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace).finalize();
  check(dnn().execute(handle_, plan_.get(), pack.get()), "cudnnBackendExecute");
}

}  // namespace alpa::cuda
