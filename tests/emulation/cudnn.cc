// cuDNN: the graph interface, as far as it describes, chooses and runs convolutions and attention
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "dataflow.h"
#include "library_data.h"
#include "stream.h"

struct cudnnContext {
  cudaStream_t stream;
  int device;
};

namespace alpa::emulation {
namespace {

/// Why the last call of this thread failed.
thread_local std::string last_fault;

cudnnStatus_t refuse(std::string why, cudnnStatus_t status = CUDNN_STATUS_BAD_PARAM) {
  last_fault = std::move(why);
  return status;
}

struct Descriptor;
using Part = std::shared_ptr<const Descriptor>;

struct Value {
  std::vector<std::byte> bytes;
  std::vector<Part> parts;  ///< of CUDNN_TYPE_BACKEND_DESCRIPTOR
};

struct Descriptor {
  cudnnBackendDescriptorType_t type;
  bool finalized = false;
  std::map<int, Value> values = {};
  /// Of an operation, and what is made of one or several: one of the two.
  std::optional<Convolution> convolution = {};
  std::shared_ptr<const Dataflow> dataflow = nullptr;
  std::optional<Engine> engine = {};

  template <class T>
  std::vector<T> all(int name) const {
    const Value& value = values.at(name);
    std::vector<T> result(value.bytes.size() / sizeof(T));
    std::memcpy(result.data(), value.bytes.data(), value.bytes.size());
    return result;
  }
  template <class T>
  T one(int name) const {
    return all<T>(name).at(0);
  }
  const Descriptor& part(int name) const { return *values.at(name).parts.at(0); }
};

/// What a program holds: others keep the descriptor alive.
struct Handle {
  std::shared_ptr<Descriptor> descriptor;
};
Descriptor& at(cudnnBackendDescriptor_t handle) {
  return *static_cast<Handle*>(handle)->descriptor;
}

/// An attribute that a program sets: its type, how many values, and if the descriptor needs it.
struct Field {
  int descriptor, attribute, type;
  std::int64_t least, most;
  bool needed;
};

constexpr std::int64_t kMany = 64;
constexpr int kForward = CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
              kBackwardX = CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
              kBackwardKernel = CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR;

/// The attributes of an operation: its tensors, windows and factors.
struct OperationNames {
  int operation, x, kernel, y, windows, alpha, beta;
  Convolution::Result result;
};
constexpr OperationNames kOperations[] = {
    {kForward, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
     Convolution::Result::y},
    {kBackwardX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA, Convolution::Result::x},
    {kBackwardKernel, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA, Convolution::Result::kernel}};

/// The operations that graphs of several consist of: their result and operands, of which some are
/// optional, and the descriptor of how.
struct NodeNames {
  int operation;
  Operation::Kind kind;
  int y, x, how;
  std::array<int, 2> more;
  bool needs_more;
};
constexpr int kNone = -1;
constexpr NodeNames kNodes[] = {
    {CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR,
     Operation::Kind::product,
     CUDNN_ATTR_OPERATION_MATMUL_CDESC,
     CUDNN_ATTR_OPERATION_MATMUL_ADESC,
     CUDNN_ATTR_OPERATION_MATMUL_DESC,
     {CUDNN_ATTR_OPERATION_MATMUL_BDESC, kNone},
     true},
    {CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR,
     Operation::Kind::reduction,
     CUDNN_ATTR_OPERATION_REDUCTION_YDESC,
     CUDNN_ATTR_OPERATION_REDUCTION_XDESC,
     CUDNN_ATTR_OPERATION_REDUCTION_DESC,
     {kNone, kNone},
     false},
    {CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR,
     Operation::Kind::reshape,
     CUDNN_ATTR_OPERATION_RESHAPE_YDESC,
     CUDNN_ATTR_OPERATION_RESHAPE_XDESC,
     kNone,
     {kNone, kNone},
     false},
    {CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR,
     Operation::Kind::pointwise,
     CUDNN_ATTR_OPERATION_POINTWISE_YDESC,
     CUDNN_ATTR_OPERATION_POINTWISE_XDESC,
     CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR,
     {CUDNN_ATTR_OPERATION_POINTWISE_BDESC, CUDNN_ATTR_OPERATION_POINTWISE_TDESC},
     false}};

void add_node_fields(std::vector<Field>& fields) {
  constexpr int kPart = CUDNN_TYPE_BACKEND_DESCRIPTOR;
  for (const NodeNames& names : kNodes) {
    for (const int part : {names.y, names.x, names.how})
      if (part != kNone) fields.push_back({names.operation, part, kPart, 1, 1, true});
    for (const int part : names.more)
      if (part != kNone) fields.push_back({names.operation, part, kPart, 1, 1, names.needs_more});
  }
  constexpr int kPointwise = CUDNN_BACKEND_POINTWISE_DESCRIPTOR,
                kReduction = CUDNN_BACKEND_REDUCTION_DESCRIPTOR;
  const std::vector<Field> how = {
      {CUDNN_BACKEND_MATMUL_DESCRIPTOR, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, 1,
       true},
      {kReduction, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, 1, true},
      {kReduction, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, 1, true},
      {kPointwise, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, 1, true},
      {kPointwise, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, 1, true},
      {kPointwise, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, 1, false}};
  fields.insert(fields.end(), how.begin(), how.end());
}

std::vector<Field> all_fields() {
  constexpr int kTensor = CUDNN_BACKEND_TENSOR_DESCRIPTOR,
                kWindows = CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR,
                kPlan = CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR,
                kPack = CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR,
                kGraph = CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR,
                kHeuristic = CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR,
                kPart = CUDNN_TYPE_BACKEND_DESCRIPTOR;
  std::vector<Field> fields = {
      {kTensor, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, 1, true},
      {kTensor, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 1, 8, true},
      {kTensor, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 1, 8, true},
      {kTensor, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, 1, true},
      {kTensor, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, 1, true},
      {kTensor, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, 1, false},
      {kTensor, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, 1, false},
      {kWindows, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, 1, true},
      {kWindows, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, 1, true},
      {kWindows, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, 1, true},
      {kWindows, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2, 2, true},
      {kWindows, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 2, 2, true},
      {kWindows, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2, 2, true},
      {kWindows, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 2, 2, true},
      {kGraph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, 1, true},
      {kGraph, CUDNN_ATTR_OPERATIONGRAPH_OPS, kPart, 1, kMany, true},
      {kHeuristic, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, kPart, 1, 1, true},
      {kHeuristic, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, 1, true},
      {kPlan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, 1, true},
      {kPlan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, kPart, 1, 1, true},
      {kPack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 1, kMany, true},
      {kPack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 1, kMany, true},
      {kPack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, 1, true}};
  add_node_fields(fields);
  for (const OperationNames& names : kOperations) {
    for (const int part : {names.x, names.kernel, names.y, names.windows})
      fields.push_back({names.operation, part, kPart, 1, 1, true});
    for (const int factor : {names.alpha, names.beta})
      fields.push_back({names.operation, factor, CUDNN_TYPE_FLOAT, 1, 1, true});
  }
  return fields;
}

const std::vector<Field>& fields() {
  static const auto* const fields = new std::vector<Field>(all_fields());
  return *fields;
}

std::size_t bytes_of(int type) {
  switch (type) {
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_INT64: return 8;
    case CUDNN_TYPE_BOOLEAN: return 1;
    default: return 4;
  }
}

cudnnStatus_t set(Descriptor& d, int name, int type, std::int64_t count, const void* values) {
  const auto field = std::find_if(fields().begin(), fields().end(), [&](const Field& known) {
    return known.descriptor == d.type && known.attribute == name;
  });
  if (d.finalized || field == fields().end() || field->type != type || count < field->least ||
      count > field->most || values == nullptr)
    return refuse("ptrDesc->set(attributeName, attributeType, elementCount, arrayOfElements)");
  Value value;
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    const auto* const handles = static_cast<const cudnnBackendDescriptor_t*>(values);
    for (std::int64_t i = 0; i < count; ++i) {
      if (!at(handles[i]).finalized) return refuse("a descriptor that is not finalized");
      value.parts.push_back(static_cast<Handle*>(handles[i])->descriptor);
    }
  } else {
    const auto* const bytes = static_cast<const std::byte*>(values);
    value.bytes.assign(bytes, bytes + static_cast<std::size_t>(count) * bytes_of(type));
  }
  d.values[name] = std::move(value);
  return CUDNN_STATUS_SUCCESS;
}

// ---- what descriptors mean

ImageTensor image_of(const Descriptor& d) {
  ImageTensor tensor;
  tensor.number = d.one<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID);
  tensor.alignment = d.one<std::int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
  tensor.type = d.one<std::int32_t>(CUDNN_ATTR_TENSOR_DATA_TYPE);
  const auto dims = d.all<std::int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS),
             strides = d.all<std::int64_t>(CUDNN_ATTR_TENSOR_STRIDES);
  std::copy_n(dims.begin(), 4, tensor.dims.begin());
  std::copy_n(strides.begin(), 4, tensor.strides.begin());
  return tensor;
}

GraphTensor graph_tensor_of(const Descriptor& d) {
  GraphTensor tensor{image_of(d)};
  tensor.by_value = d.values.contains(CUDNN_ATTR_TENSOR_IS_BY_VALUE);
  tensor.between = d.values.contains(CUDNN_ATTR_TENSOR_IS_VIRTUAL);
  return tensor;
}

/// Null unless it is an operation of graphs of several.
std::shared_ptr<const Dataflow> node_of(const Descriptor& d) {
  const auto* const names = std::find_if(std::begin(kNodes), std::end(kNodes),
                                         [&](const NodeNames& n) { return n.operation == d.type; });
  if (names == std::end(kNodes)) return nullptr;
  Operation op{.kind = names->kind,
               .y = graph_tensor_of(d.part(names->y)),
               .x = {graph_tensor_of(d.part(names->x))}};
  for (const int more : names->more)
    if (d.values.contains(more)) op.x.push_back(graph_tensor_of(d.part(more)));
  if (op.kind == Operation::Kind::reduction)
    op.mode = d.part(names->how).one<std::int32_t>(CUDNN_ATTR_REDUCTION_OPERATOR);
  if (op.kind == Operation::Kind::pointwise) {
    const Descriptor& how = d.part(names->how);
    op.mode = how.one<std::int32_t>(CUDNN_ATTR_POINTWISE_MODE);
    if (how.values.contains(CUDNN_ATTR_POINTWISE_AXIS))
      op.axis = how.one<std::int64_t>(CUDNN_ATTR_POINTWISE_AXIS);
  }
  return std::make_shared<const Dataflow>(Dataflow{op});
}

std::string interpret_graph(Descriptor& d) {
  const std::vector<Part>& parts = d.values.at(CUDNN_ATTR_OPERATIONGRAPH_OPS).parts;
  d.convolution = parts[0]->convolution;
  if (d.convolution) return parts.size() == 1 ? "" : "a graph with a convolution and more";
  Dataflow all;
  for (const Part& part : parts) {
    if (!part->dataflow) return "a graph with an operation that is not emulated";
    all.insert(all.end(), part->dataflow->begin(), part->dataflow->end());
  }
  std::string fault = fault_of(all);
  d.dataflow = std::make_shared<const Dataflow>(std::move(all));
  return fault;
}

Convolution convolution_of(const Descriptor& d, const OperationNames& names) {
  Convolution c;
  c.result = names.result;
  c.x = image_of(d.part(names.x)), c.kernel = image_of(d.part(names.kernel));
  c.y = image_of(d.part(names.y));
  const Descriptor& windows = d.part(names.windows);
  const auto pair = [&](int name) {
    const auto two = windows.all<std::int64_t>(name);
    return std::array{two[0], two[1]};
  };
  c.before = pair(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS);
  c.after = pair(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS);
  c.dilation = pair(CUDNN_ATTR_CONVOLUTION_DILATIONS);
  c.stride = pair(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES);
  c.compute = windows.one<std::int32_t>(CUDNN_ATTR_CONVOLUTION_COMP_TYPE);
  c.alpha = d.one<float>(names.alpha), c.beta = d.one<float>(names.beta);
  return c;
}

bool are_all(const Descriptor& d, int name, std::int64_t least) {
  const auto values = d.all<std::int64_t>(name);
  return *std::min_element(values.begin(), values.end()) >= least;
}

std::string window_fault(const Descriptor& d) {
  const bool valid =
      are_all(d, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, 0) &&
      are_all(d, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, 0) &&
      are_all(d, CUDNN_ATTR_CONVOLUTION_DILATIONS, 1) &&
      are_all(d, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, 1) &&
      d.one<std::int64_t>(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS) == 2 &&
      d.one<std::int32_t>(CUDNN_ATTR_CONVOLUTION_CONV_MODE) == CUDNN_CROSS_CORRELATION;
  return valid ? "" : "finalize_internal()";
}

std::string tensor_fault(const Descriptor& d) {
  return d.all<std::int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS).size() == 4 &&
                 d.all<std::int64_t>(CUDNN_ATTR_TENSOR_STRIDES).size() == 4
             ? ""
             : "only tensors of four dimensions are emulated";
}

bool lists(std::vector<int> Machine::*engines, int number) {
  const Unseen unseen;
  const Lock lock(world().mutex);
  const std::vector<int>& listed = world().machine.*engines;
  return std::find(listed.begin(), listed.end(), number) != listed.end();
}

void inherit(Descriptor& d, const Descriptor& from) {
  d.convolution = from.convolution, d.dataflow = from.dataflow;
}

/// What it is made of passes on what it means.
cudnnStatus_t interpret(Descriptor& d) {
  std::string fault;
  d.dataflow = node_of(d);
  for (const OperationNames& names : kOperations)
    if (names.operation == d.type) {
      d.convolution = convolution_of(d, names);
      fault = fault_of(*d.convolution);
    }
  switch (d.type) {
    case CUDNN_BACKEND_TENSOR_DESCRIPTOR: fault = tensor_fault(d); break;
    case CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR: fault = window_fault(d); break;
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR: fault = interpret_graph(d); break;
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR:
      inherit(d, d.part(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH));
      break;
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR: {
      const Descriptor& engine = d.part(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
      inherit(d, engine), d.engine = engine.engine;
      if (lists(&Machine::refused_engines, d.engine->number))
        return refuse("the engine does not take it", CUDNN_STATUS_NOT_SUPPORTED);
      break;
    }
    default: break;
  }
  return fault.empty() ? CUDNN_STATUS_SUCCESS : refuse(fault);
}

cudnnStatus_t finalize(Descriptor& d) {
  for (const Field& field : fields())
    if (field.descriptor == d.type && field.needed && !d.values.contains(field.attribute))
      return refuse("attribute " + std::to_string(field.attribute) + " is not set");
  const cudnnStatus_t status = interpret(d);
  d.finalized = status == CUDNN_STATUS_SUCCESS;
  return status;
}

/// Makes what a program created the descriptor of an engine or its configuration.
void become(cudnnBackendDescriptor_t handle, const Descriptor& from, const Engine& engine) {
  Descriptor& d = at(handle);
  inherit(d, from);
  d.finalized = true, d.engine = engine;
}

cudnnStatus_t propose(const Descriptor& d, std::int64_t room, std::int64_t* count,
                      cudnnBackendDescriptor_t* results) {
  const bool fallback = d.one<std::int32_t>(CUDNN_ATTR_ENGINEHEUR_MODE) == CUDNN_HEUR_MODE_FALLBACK;
  *count = 0;
  for (const Engine& engine :
       d.convolution ? engines_for(*d.convolution) : engines_for(*d.dataflow))
    if (engine.fallback == fallback && *count < room) become(results[(*count)++], d, engine);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t get(const Descriptor& d, int name, std::int64_t room, std::int64_t* count,
                  void* values) {
  if (!d.finalized) return refuse("the descriptor is not finalized");
  switch (name) {
    case CUDNN_ATTR_ENGINEHEUR_RESULTS:
      return propose(d, room, count, static_cast<cudnnBackendDescriptor_t*>(values));
    case CUDNN_ATTR_ENGINECFG_ENGINE:
      become(*static_cast<cudnnBackendDescriptor_t*>(values), d, *d.engine);
      *count = 1;
      return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE:
      *count = 0;
      for (int note = 0; note < 32; ++note)
        if (d.engine->has(note) && *count < room)
          static_cast<cudnnBackendNumericalNote_t*>(values)[(*count)++] =
              static_cast<cudnnBackendNumericalNote_t>(note);
      return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE:
      *static_cast<std::int64_t*>(values) = d.engine->workspace_bytes, *count = 1;
      return CUDNN_STATUS_SUCCESS;
    default: return refuse("an attribute that is not emulated", CUDNN_STATUS_NOT_SUPPORTED);
  }
}

// ---- the call

/// Null if the pack does not place the tensor, or less aligned than promised.
void* place_of(const Descriptor& pack, const ImageTensor& tensor, std::int64_t alignment) {
  const auto numbers = pack.all<std::int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const auto places = pack.all<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  for (std::size_t i = 0; i < std::min(numbers.size(), places.size()); ++i)
    if (numbers[i] == tensor.number && reinterpret_cast<std::uintptr_t>(places[i]) % alignment == 0)
      return places[i];
  return nullptr;
}

/// What an engine does: the memory it touches, and the computation.
struct Task {
  std::vector<std::pair<void*, std::size_t>> memory;
  std::function<void()> compute;
};

Task task_of(const Convolution& c, const Engine& engine, const ImagePlaces& places) {
  return {{{places.x, c.x.bytes()}, {places.kernel, c.kernel.bytes()}, {places.y, c.y.bytes()}},
          [=] { compute(c, engine, places); }};
}

/// Numbers by value are read at once.
Task task_of(const std::shared_ptr<const Dataflow>& graph, const Engine& engine,
             const Descriptor& pack) {
  Task task;
  Bindings bindings;
  for (const GraphTensor& t : bound_tensors(*graph)) {
    void* const place = place_of(pack, t, t.by_value ? 4 : t.alignment);
    if (t.by_value && place != nullptr) {
      bindings.values[t.number] = read_number(t.type, place);
      continue;
    }
    bindings.places[t.number] = place;
    const std::size_t element = t.bytes() / static_cast<std::size_t>(t.elements());
    task.memory.emplace_back(place, static_cast<std::size_t>(t.span()) * element);
  }
  task.compute = [=] { compute(*graph, engine, bindings); };
  return task;
}

Task task_of(const Descriptor& plan, const Descriptor& pack) {
  if (plan.dataflow) return task_of(plan.dataflow, *plan.engine, pack);
  const Convolution& c = *plan.convolution;
  const auto place = [&](const ImageTensor& t) { return place_of(pack, t, t.alignment); };
  return task_of(c, *plan.engine, {place(c.x), place(c.kernel), place(c.y)});
}

Work work_of(const Task& task, void* workspace, std::size_t bytes, bool slow) {
  return [=](std::shared_ptr<void>&) {
    {
      const Lock lock(world().mutex);
      bool is_addressable = bytes == 0 || allocation_of(workspace, bytes);
      for (const auto& [place, size] : task.memory)
        is_addressable = is_addressable && allocation_of(place, size);
      if (!is_addressable) {
        std::fprintf(stderr, "emulated CUDA: a tensor of cuDNN leaves its memory\n");
        throw cudaErrorIllegalAddress;
      }
      if (slow) ++world().lag;
    }
    const Seen seen;
    scribble(workspace, bytes);
    task.compute();
    return true;
  };
}

cudnnStatus_t execute(cudnnHandle_t handle, const Descriptor& plan, const Descriptor& pack) {
  const Engine& engine = *plan.engine;
  const Task task = task_of(plan, pack);
  void* const workspace = pack.one<void*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
  for (const auto& [place, size] : task.memory)
    if (place == nullptr)
      return refuse("a tensor has no pointer, or one less aligned than its descriptor says");
  if (reinterpret_cast<std::uintptr_t>(workspace) % 256 != 0)
    return refuse("the workspace is not aligned to 256 bytes");
  if (lists(&Machine::failing_engines, engine.number))
    return refuse("the engine fails", CUDNN_STATUS_EXECUTION_FAILED);
  const bool slow = lists(&Machine::slow_engines, engine.number);
  const auto bytes = static_cast<std::size_t>(engine.workspace_bytes);
  const cudaError_t queued = call([&](Lock&) {
    const int device = resolve(handle->stream)->device;
    if (device != current_device() || device != handle->device)
      return cudaErrorInvalidResourceHandle;
    world().last_engine = engine.number;
    return enqueue(resolve(handle->stream), work_of(task, workspace, bytes, slow),
                   NodeKind::kernel);
  });
  return queued == cudaSuccess ? CUDNN_STATUS_SUCCESS
                               : refuse("a kernel launch", CUDNN_STATUS_EXECUTION_FAILED);
}

}  // namespace
}  // namespace alpa::emulation

using namespace alpa::emulation;

extern "C" {

size_t cudnnGetVersion() {
  const Unseen unseen;
  const Lock lock(world().mutex);
  return world().machine.dnn_version;
}

const char* cudnnGetErrorString(cudnnStatus_t status) {
  switch (status) {
    case CUDNN_STATUS_SUCCESS: return "CUDNN_STATUS_SUCCESS";
    case CUDNN_STATUS_NOT_INITIALIZED: return "CUDNN_STATUS_NOT_INITIALIZED";
    case CUDNN_STATUS_BAD_PARAM: return "CUDNN_STATUS_BAD_PARAM";
    case CUDNN_STATUS_NOT_SUPPORTED: return "CUDNN_STATUS_NOT_SUPPORTED";
    case CUDNN_STATUS_EXECUTION_FAILED: return "CUDNN_STATUS_EXECUTION_FAILED";
    default: return "CUDNN_STATUS_INTERNAL_ERROR";
  }
}
void cudnnGetLastErrorString(char* message, size_t room) {
  std::snprintf(message, room, "%s", last_fault.c_str());
}

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  *handle = new cudnnContext{nullptr, current_device()};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  delete handle;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t* descriptor) {
  *descriptor = new Handle{std::make_shared<Descriptor>(Descriptor{type})};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  delete static_cast<Handle*>(descriptor);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count,
                                       const void* values) {
  return set(at(descriptor), name, type, count, values);
}
cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t, int64_t room, int64_t* count,
                                       void* values) {
  return get(at(descriptor), name, room, count, values);
}
cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  return finalize(at(descriptor));
}
cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t pack) {
  if (!at(plan).finalized || !at(pack).finalized) return refuse("a descriptor is not finalized");
  return execute(handle, at(plan), at(pack));
}
}
