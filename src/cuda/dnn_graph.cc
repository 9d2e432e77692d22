// src/cuda/dnn_graph.cc — descriptors, engines and plans of cuDNN's graph interface
#include "dnn_graph.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "alpa/base/error.h"
#include "dnn_library.h"
#include "status.h"

namespace alpa::cuda {
namespace {

/// Configurations that are asked for in each mode.
constexpr std::int64_t kMaxEngines = 64;
/// Variant packs that one call keeps.
constexpr std::size_t kMaxPacks = 16;
/// CUDNN_ATTR_ENGINEHEUR_DEVICEPROP and CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, of 9.8 and later.
constexpr auto kHeuristicProperties = static_cast<cudnnBackendAttributeName_t>(204),
               kPlanProperties = static_cast<cudnnBackendAttributeName_t>(407);

/// Throws Error with cuDNN's reason if `status` is a failure.
void check_call(cudnnStatus_t status, const char* call, const char* file = __builtin_FILE(),
                int line = __builtin_LINE()) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  std::array<char, 512> reason{};
  dnn().last_error_string(reason.data(), reason.size());
  check(status, fmt::format("{} [{}]", call, reason.data()).c_str(), file, line);
}

DnnDescriptor graph_of(const DnnTarget& target, std::span<const DnnDescriptor> operations) {
  DnnDescriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  if (target.handle != nullptr)
    graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &target.handle);
  std::vector<cudnnBackendDescriptor_t> handles;
  for (const DnnDescriptor& operation : operations) handles.push_back(operation.get());
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
            static_cast<std::int64_t>(handles.size()), handles.data());
  return std::move(graph.finalize());
}

std::vector<cudnnBackendNumericalNote_t> notes_of(const DnnDescriptor& configuration) {
  const DnnDescriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  cudnnBackendDescriptor_t handle = engine.get();
  configuration.get(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &handle);
  std::array<cudnnBackendNumericalNote_t, 32> notes;
  const std::int64_t count = engine.get(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                        notes.size(), notes.data());
  return {notes.begin(), notes.begin() + std::min<std::int64_t>(count, notes.size())};
}

void add_engines(std::vector<DnnEngine>& engines, const DnnTarget& target,
                 const DnnDescriptor& graph, cudnnBackendHeurMode_t mode) {
  DnnDescriptor heuristic(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
  if (target.properties != nullptr) heuristic.set(kHeuristicProperties, *target.properties);
  heuristic.finalize();
  std::vector<DnnDescriptor> found;
  std::vector<cudnnBackendDescriptor_t> handles;
  for (std::int64_t i = 0; i < kMaxEngines; ++i)
    handles.push_back(found.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR).get());
  const std::int64_t count = heuristic.get(
      CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, kMaxEngines, handles.data());
  for (std::int64_t i = 0; i < std::min(count, kMaxEngines); ++i) {
    std::vector<cudnnBackendNumericalNote_t> notes = notes_of(found[i]);
    engines.push_back({std::move(found[i]), std::move(notes)});
  }
}

DnnDescriptor plan_of(const DnnTarget& target, const DnnEngine& engine) {
  DnnDescriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  if (target.handle != nullptr)
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &target.handle);
  plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, engine.configuration);
  if (target.properties != nullptr) plan.set(kPlanProperties, *target.properties);
  return std::move(plan.finalize());
}

std::int64_t workspace_of(const DnnDescriptor& plan) {
  std::int64_t bytes = 0;
  plan.get(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &bytes);
  return bytes;
}

}  // namespace

void destroy_dnn_handle(cudnnHandle_t handle) { dnn().destroy(handle); }
void destroy_dnn_descriptor(cudnnBackendDescriptor_t descriptor) {
  dnn().destroy_descriptor(descriptor);
}

DnnHandle make_dnn_handle() {
  cudnnHandle_t handle = nullptr;
  check_call(dnn().create(&handle), "cudnnCreate");
  return DnnHandle(handle);
}

DnnDescriptor::DnnDescriptor(cudnnBackendDescriptorType_t type) {
  cudnnBackendDescriptor_t handle = nullptr;
  check_call(dnn().create_descriptor(type, &handle), "cudnnBackendCreateDescriptor");
  handle_.reset(handle);
}

DnnDescriptor& DnnDescriptor::set(cudnnBackendAttributeName_t name,
                                  cudnnBackendAttributeType_t type, std::int64_t count,
                                  const void* values) {
  check_call(dnn().set_attribute(get(), name, type, count, values), "cudnnBackendSetAttribute");
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

std::int64_t DnnDescriptor::get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                                std::int64_t room, void* values) const {
  std::int64_t count = 0;
  check_call(dnn().get_attribute(get(), name, type, room, &count, values),
             "cudnnBackendGetAttribute");
  return count;
}

DnnDescriptor& DnnDescriptor::finalize() {
  check_call(dnn().finalize(get()), "cudnnBackendFinalize");
  return *this;
}

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

DnnDescriptor dnn_tensor(std::int64_t number, cudnnDataType_t type, const Shape& shape,
                         const Shape& strides, DnnStorage storage) {
  DnnDescriptor tensor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  tensor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
  tensor.set(CUDNN_ATTR_TENSOR_DIMENSIONS, shape).set(CUDNN_ATTR_TENSOR_STRIDES, strides);
  tensor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, Shape{number})
      .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, Shape{16});
  const bool is_true = true;
  if (storage == DnnStorage::by_value)
    tensor.set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &is_true);
  if (storage == DnnStorage::nowhere)
    tensor.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_true);
  return std::move(tensor.finalize());
}

bool DnnEngine::has(cudnnBackendNumericalNote_t note) const {
  return std::find(notes.begin(), notes.end(), note) != notes.end();
}

std::vector<DnnEngine> dnn_engines(const DnnTarget& target,
                                   std::span<const DnnDescriptor> operations) {
  const DnnDescriptor graph = graph_of(target, operations);
  std::vector<DnnEngine> engines;
  for (const auto mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) try {
      add_engines(engines, target, graph, mode);
    } catch (const Error&) {
      // operations that a mode does not know; the last one's failure tells why there is none
      if (mode == CUDNN_HEUR_MODE_FALLBACK && engines.empty()) throw;
    }
  return engines;
}

DnnPlan::DnnPlan(const DnnTarget& target, const DnnEngine& engine)
    : handle_(target.handle),
      plan_(plan_of(target, engine)),
      workspace_bytes_(workspace_of(plan_)) {}

void DnnPlan::run(const DnnDescriptor& pack, Stream stream) const {
  check_call(dnn().set_stream(handle_, stream), "cudnnSetStream");
  check_call(dnn().execute(handle_, plan_.get(), pack.get()), "cudnnBackendExecute");
}

const DnnDescriptor& DnnPacks::of(DnnTensors tensors, void* workspace) {
  const auto has_these = [&](const Pack& pack) {
    for (std::size_t i = 0; i < tensors.size(); ++i)
      if (pack.places[i] != tensors[i].second) return false;
    return pack.places.back() == workspace;
  };
  const auto known = std::find_if(packs_.begin(), packs_.end(), has_these);
  if (known != packs_.end()) return known->descriptor;
  if (packs_.size() == kMaxPacks) packs_.erase(packs_.begin());
  Pack pack{{}, DnnDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)};
  Shape numbers;
  for (const auto& [number, place] : tensors)
    numbers.push_back(number), pack.places.push_back(place);
  pack.descriptor.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, numbers);
  pack.descriptor.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
                      static_cast<std::int64_t>(pack.places.size()), pack.places.data());
  pack.descriptor.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
  pack.descriptor.finalize();
  pack.places.push_back(workspace);
  return packs_.emplace_back(std::move(pack)).descriptor;
}

}  // namespace alpa::cuda
