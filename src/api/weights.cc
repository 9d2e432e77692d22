// src/api/weights.cc — parameters of a state to and from safetensors files
#include "alpa/weights.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>
#include <set>

#include "alpa/base/error.h"
#include "alpa/base/text.h"
#include "kernels/plan/quantized_block.h"
#include "src/api/weight_tensors.h"
#include "src/ir/input.h"
#include "src/train/gguf_file.h"

namespace alpa {
namespace {

/// Exchanges rows and columns of matrices, one behind another; the result has this shape.
Array transposed(const Array& x, std::int64_t rows, std::int64_t columns, Shape shape) {
  Array y(TensorType{x.dtype(), std::move(shape)});
  const std::size_t size = size_of(x.dtype());
  const std::int64_t matrix = rows * columns;
  for (std::int64_t i = 0; i < x.elements(); ++i) {
    const std::int64_t in_matrix = i % matrix, row = in_matrix / columns,
                       column = in_matrix % columns;
    const std::int64_t to = i - in_matrix + column * rows + row;
    std::memcpy(y.mutable_data() + size * to, x.data() + size * i, size);
  }
  return y;
}

/// Exchanges the last two dimensions.
Array transposed_last(const Array& x) {
  Shape shape = x.shape();
  const std::int64_t rows = shape[shape.size() - 2], columns = shape.back();
  std::swap(shape[shape.size() - 2], shape.back());
  return transposed(x, rows, columns, std::move(shape));
}

/// A tensor of the file in the layout of parameters.
Array from_file(const WeightName& name, const Array& held) {
  if (name.transposed) return transposed_last(held);
  if (!name.convolution) return held;
  const Shape& s = held.shape();
  return transposed_last(transposed(held, s[0] * s[1], s[2] * s[3], {s[2], s[3], s[0], s[1]}));
}

/// The inverse of `from_file`.
Array to_file(const WeightName& name, const Array& array) {
  if (name.transposed) return transposed_last(array);
  if (!name.convolution) return array;
  const Shape& s = array.shape();
  return transposed(transposed_last(array), s[0] * s[1], s[2] * s[3], {s[3], s[2], s[0], s[1]});
}

/// Elements before and behind dimension `axis`.
std::int64_t product(const Shape& shape, std::size_t from, std::size_t to) {
  return std::accumulate(shape.begin() + from, shape.begin() + to, std::int64_t{1},
                         std::multiplies<>());
}

/// The part of `whole` of this extent that begins at `start` along `axis`.
Array part_of(const Array& whole, std::size_t axis, std::int64_t start, std::int64_t extent) {
  Shape shape = whole.shape();
  const std::int64_t outer = product(shape, 0, axis), before = shape[axis];
  const auto inner =
      size_of(whole.dtype()) * static_cast<std::size_t>(product(shape, axis + 1, shape.size()));
  shape[axis] = extent;
  Array part(TensorType{whole.dtype(), shape});
  const std::size_t bytes = inner * static_cast<std::size_t>(extent);
  for (std::int64_t i = 0; i < outer; ++i)
    std::memcpy(part.mutable_data() + bytes * static_cast<std::size_t>(i),
                whole.data() + inner * static_cast<std::size_t>(i * before + start), bytes);
  return part;
}

/// The parts, one behind the other along `axis`; together of this type.
Array joined(const std::vector<Array>& parts, std::size_t axis, const TensorType& type) {
  Array whole(type);
  std::byte* to = whole.mutable_data();
  for (std::int64_t i = 0; i < product(type.shape, 0, axis); ++i)
    for (const Array& part : parts) {
      const std::size_t bytes = size_of(type.dtype) * static_cast<std::size_t>(product(
                                                          part.shape(), axis, part.shape().size()));
      std::memcpy(to, part.data() + bytes * static_cast<std::size_t>(i), bytes);
      to += bytes;
    }
  return whole;
}

std::string text_of(const WeightName& name) {
  return fmt::format("weight map: parameter \"{}\"", excerpt(name.parameter));
}

/// The dimension along which tensors are joined. Throws Error if a rule can't be of the parameter.
std::size_t axis_of(const WeightName& name, const TensorType& type) {
  require(!name.tensors.empty(), "{}: names no tensor of the file", text_of(name));
  require(!name.transposed || type.rank() >= 2,
          "{}: is {}; only tensors of two dimensions or more can be transposed", text_of(name),
          to_string(type));
  require(!name.start || name.tensors.size() == 1, "{}: is a part of {} tensors; it must be of one",
          text_of(name), name.tensors.size());
  require(!name.stacked || (!name.start && type.rank() >= 2 + (name.transposed ? 1 : 0)),
          "{}: is {}; a stack has a dimension more than its tensors, and is no part of one",
          text_of(name), to_string(type));
  const bool whole = name.tensors.size() == 1 && !name.start && !name.stacked;
  require(!name.convolution || (whole && !name.transposed && type.rank() == 4),
          "{}: is {}; only a whole tensor of four dimensions is PyTorch's kernel of a convolution",
          text_of(name), to_string(type));
  if (whole) return 0;
  require(name.axis >= -type.rank() && name.axis < type.rank(),
          "{}: is {}; it has no dimension {} to join tensors along", text_of(name), to_string(type),
          name.axis);
  return static_cast<std::size_t>(name.axis < 0 ? name.axis + type.rank() : name.axis);
}

/// The array with an extent of 1 at `axis`, or without that dimension.
Array with_dimension(const Array& x, std::size_t axis, bool there) {
  Shape shape = x.shape();
  if (there)
    shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(axis), 1);
  else
    shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(axis));
  Array y(TensorType{x.dtype(), shape});
  std::memcpy(y.mutable_data(), x.data(), x.bytes());
  return y;
}

/// Throws Error unless the tensors of the file make up the parameter.
void check_fit(const TensorFile& file, const WeightName& name, const TensorType& type) {
  const std::size_t axis = axis_of(name, type);
  const bool joined = name.tensors.size() > 1 || name.stacked,
             any_extent = joined || name.start.has_value();
  std::int64_t extent = 0;
  for (const std::string& tensor : name.tensors) {
    const TensorType held = file.type(tensor);
    Shape shape = held.shape, expected = type.shape;
    if (name.transposed && shape.size() >= 2) std::swap(shape[shape.size() - 2], shape.back());
    if (name.convolution && shape.size() == 4) shape = {shape[2], shape[3], shape[1], shape[0]};
    if (name.stacked && shape.size() + 1 == expected.size())
      shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(axis), 1);
    if (any_extent && shape.size() == expected.size()) expected[axis] = shape[axis];
    require(is_floating(held.dtype) == is_floating(type.dtype) && shape == expected,
            "{}: is {}, but tensor \"{}\" of {} is {}{}{}", text_of(name), to_string(type),
            excerpt(tensor), file.path(), to_string(held),
            name.transposed    ? ", to be transposed"
            : name.convolution ? ", which is [out, in, rows, columns]"
                               : "",
            name.start ? fmt::format(", of which it is a part in dimension {}", axis) : "");
    extent += joined ? shape[axis] : 0;
  }
  require(!joined || extent == type.shape[axis],
          "{}: is {}, but its tensors in {} have extent {} together in dimension {}", text_of(name),
          to_string(type), file.path(), extent, axis);
}

/// A tensor that several parameters fill, in their layout.
struct SharedTensor {
  TensorType type;
  std::size_t axis = 0;  ///< along which the parameters follow one another
  std::vector<std::pair<const WeightName*, TensorType>> parts;
};

/// Adds the next part. Throws Error unless it begins where the one before ends.
void add_part(SharedTensor& tensor, const WeightName& name, const TensorType& type) {
  const std::size_t axis = axis_of(name, type);
  if (tensor.parts.empty()) {
    tensor.type = type, tensor.axis = axis;
    tensor.type.shape[axis] = 0;
  }
  const std::int64_t end = tensor.type.shape[tensor.axis];
  const std::string& shared = name.tensors[0];
  TensorType fitting = type;
  fitting.shape[axis] = end;
  require(fitting == tensor.type && axis == tensor.axis &&
              (tensor.parts.empty() || tensor.parts[0].first->transposed == name.transposed),
          "{}: is {} and does not fit beside the part of tensor \"{}\" before it, {}",
          text_of(name), to_string(type), excerpt(shared),
          tensor.parts.empty() ? "" : to_string(tensor.parts.back().second));
  require(*name.start == end,
          "{}: begins at {} of tensor \"{}\" in dimension {}, but the part before it ends at {}",
          text_of(name), *name.start, excerpt(shared), axis, end);
  tensor.type.shape[axis] += type.shape[axis];
  tensor.parts.emplace_back(&name, type);
}

/// The type of a parameter by its name. Throws Error if there is none.
using TypeOf = std::function<TensorType(const std::string& parameter)>;

/// The type of a kernel; of a quantised one, that of what its blocks hold.
TensorType type_of_kernel(const TensorType& type) {
  if (!kernels::is_quantized(type)) return type;
  return {f32, {type.shape[1] * kernels::kBlockElements, type.shape[0]}};
}

/// The blocks' element type.
const GgufElement& element_of(const TensorType& quantized) {
  constexpr const char* kNames[] = {"Q8_0", "Q4_0", "Q4_1"};
  return *gguf_type(kNames[kernels::quantization(quantized.shape[2])]);
}

/// A parameter's content, [in, out] of a quantised kernel.
Array host_kernel(const DistributedArray& parameter) {
  const Array whole = parameter.to_host();
  if (!kernels::is_quantized(whole.type())) return whole;
  const Shape kernel = type_of_kernel(whole.type()).shape;
  const GgufTensor blocks{"", &element_of(whole.type()), {kernel[1], kernel[0]}, whole.data()};
  return transposed_last(blocks.read());
}

TypeOf types_of(const TrainState& state) {
  return [&](const std::string& name) { return type_of_kernel(state[name].type()); };
}

TypeOf types_of(const Graph& graph) {
  return [&](const std::string& name) {
    const Input* input = find_state(graph, name);
    require(input != nullptr, "weight map: the model has no parameter \"{}\"", excerpt(name));
    return type_of_kernel(graph.type(input->value));
  };
}

/// Tensors that several parameters fill, by name.
std::map<std::string, SharedTensor> shared_tensors(const TypeOf& type_of, const WeightMap& map) {
  std::vector<const WeightName*> parts;
  for (const WeightName& name : map)
    if (name.start) parts.push_back(&name);
  std::stable_sort(parts.begin(), parts.end(),
                   [](const WeightName* a, const WeightName* b) { return *a->start < *b->start; });
  std::map<std::string, SharedTensor> tensors;
  for (const WeightName* name : parts) {
    const TensorType type = type_of(name->parameter);
    axis_of(*name, type);
    add_part(tensors[name->tensors[0]], *name, type);
  }
  return tensors;
}

/// Throws Error unless the parts of every shared tensor reach to its end in the file.
void check_filled(const TensorFile& file, const std::map<std::string, SharedTensor>& tensors) {
  for (const auto& [name, tensor] : tensors) {
    Shape held = file.type(name).shape;
    if (tensor.parts[0].first->transposed) std::swap(held[held.size() - 2], held.back());
    const std::int64_t end = tensor.type.shape[tensor.axis];
    require(held[tensor.axis] == end,
            "{}: is the last part of tensor \"{}\" and ends at {} in dimension {}, but {} has {}",
            text_of(*tensor.parts.back().first), excerpt(name), end, tensor.axis, file.path(),
            to_string(file.type(name)));
  }
}

/// Throws Error if a file and a state, read by own names, differ more than the options allow.
void check_difference(const TensorFile& file, const LoadedWeights& difference, std::size_t common,
                      const LoadOptions& options) {
  const auto& [missing, unexpected] = difference;
  if (missing.empty() && unexpected.empty()) return;
  if (options.partial && common > 0) return;
  fail(
      "{}: its names are not the model's. The model wants {}, which the file lacks; the file has "
      "{}, "
      "which the model lacks. Give a WeightMap{}",
      file.path(), quoted_names(missing), quoted_names(unexpected),
      options.partial ? "" : ", or LoadOptions{.partial = true} to load what both have");
}

/// Throws Error unless the file holds what the map names.
void check_fit(const TensorFile& file, const WeightMap& map, const TypeOf& type_of) {
  for (const WeightName& name : map) check_fit(file, name, type_of(name.parameter));
  check_filled(file, shared_tensors(type_of, map));
}

/// The parameter's content from the tensors of the file, which fit.
Array read_weight(const TensorFile& file, const WeightName& name, const TensorType& type) {
  const auto part = [&](const std::string& tensor) {
    return from_file(name, file[tensor].cast(type.dtype));
  };
  const std::size_t axis = axis_of(name, type);
  std::vector<Array> parts;
  for (const std::string& tensor : name.tensors)
    parts.push_back(name.stacked ? with_dimension(part(tensor), axis, true) : part(tensor));
  if (name.start) return part_of(parts[0], axis, *name.start, type.shape[axis]);
  return parts.size() == 1 ? parts[0] : joined(parts, axis, type);
}

/// A quantised kernel of this type: the file's blocks as they are, or its tensors quantised.
Array read_quantized(const TensorFile& file, const WeightName& name, const TensorType& type) {
  if (const auto stored = file.blocks_type(name.tensors[0]);
      stored && stored->shape[2] == type.shape[2] && name.tensors.size() == 1)
    return part_of(file.blocks(name.tensors[0]), 0, name.start.value_or(0), type.shape[0]);
  const Array kernel = transposed_last(read_weight(file, name, type_of_kernel(type)));
  const std::string blocks = gguf_encoded(kernel, element_of(type));
  return Array::copy(reinterpret_cast<const std::byte*>(blocks.data()), type);
}

/// Extents of the tensors that a parameter is written as.
std::vector<std::int64_t> written_extents(const WeightName& name, const TensorType& type,
                                          std::size_t axis) {
  const auto parts = static_cast<std::int64_t>(name.tensors.size());
  require(!name.stacked || (name.extents.empty() && type.shape[axis] == parts),
          "{}: is {}; a stack of {} tensors has an extent of {} in dimension {}, and no others",
          text_of(name), to_string(type), parts, parts, axis);
  if (name.extents.empty()) {
    require(type.shape[axis] % parts == 0,
            "{}: is {}; {} equal tensors don't divide dimension {}, so give their extents",
            text_of(name), to_string(type), parts, axis);
    return std::vector<std::int64_t>(parts, type.shape[axis] / parts);
  }
  const auto& extents = name.extents;
  require(extents.size() == name.tensors.size() &&
              *std::min_element(extents.begin(), extents.end()) >= 1 &&
              std::accumulate(extents.begin(), extents.end(), std::int64_t{0}) == type.shape[axis],
          "{}: is {}; the extents of its {} tensors must add up to {}", text_of(name),
          to_string(type), parts, type.shape[axis]);
  return extents;
}

/// Adds a tensor of the file, in the layout of parameters.
void add_tensor(const WeightName& name, const std::string& tensor, const Array& array,
                std::map<std::string, Array>& tensors) {
  require(tensors.emplace(tensor, to_file(name, array)).second,
          "weight map: tensor \"{}\" is written twice", excerpt(tensor));
}

/// Adds a tensor that several parameters fill.
void write_shared(const TrainState& state, const SharedTensor& shared,
                  std::map<std::string, Array>& tensors) {
  std::vector<Array> parts;
  for (const auto& [name, type] : shared.parts)
    parts.push_back(host_kernel(state[name->parameter]));
  const WeightName& first = *shared.parts[0].first;
  add_tensor(first, first.tensors[0], joined(parts, shared.axis, shared.type), tensors);
}

/// Adds the tensors of a parameter.
void write_weight(const Array& whole, const WeightName& name,
                  std::map<std::string, Array>& tensors) {
  const std::size_t axis = axis_of(name, whole.type());
  if (name.tensors.size() == 1 && !name.stacked)
    return add_tensor(name, name.tensors[0], whole, tensors);
  const std::vector<std::int64_t> extents = written_extents(name, whole.type(), axis);
  std::int64_t start = 0;
  for (std::size_t i = 0; i < extents.size(); ++i) {
    const Array part = part_of(whole, axis, start, extents[i]);
    add_tensor(name, name.tensors[i], name.stacked ? with_dimension(part, axis, false) : part,
               tensors);
    start += extents[i];
  }
}

/// kernel [in, out] + factor · a [in, rank] · b [rank, out], in T.
template <class T>
Array with_adapter(const Array& kernel, const Array& a, const Array& b, double factor) {
  constexpr DType dtype = dtype_of<T>();
  Array sum = kernel.cast(dtype);
  const Array left = a.cast(dtype), right = b.cast(dtype);
  const std::int64_t rows = kernel.shape()[0], columns = kernel.shape()[1], rank = a.shape()[1];
  const std::span<T> to = sum.mutable_elements_as<T>();
  const std::span<const T> of_a = left.elements_as<T>(), of_b = right.elements_as<T>();
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t r = 0; r < rank; ++r) {
      const T weight = static_cast<T>(factor) * of_a[i * rank + r];
      for (std::int64_t j = 0; j < columns; ++j)
        to[i * columns + j] += weight * of_b[r * columns + j];
    }
  return sum.cast(kernel.dtype());
}

}  // namespace

int merge_adapters(TrainState& state, const Lora& lora) {
  int merged = 0;
  for (const DistributedArray& parameter : state.parameters()) {
    if (!parameter.name().ends_with(".lora_a")) continue;
    const std::string layer = parameter.name().substr(0, parameter.name().size() - 7);
    const Array kernel = state[layer + ".kernel"].to_host(), a = parameter.to_host(),
                b = state[layer + ".lora_b"].to_host();
    require(a.shape()[1] == lora.rank, "merge_adapters: \"{}\" is {}, but the rank is {}",
            parameter.name(), to_string(parameter.type()), lora.rank);
    require(
        !kernels::is_quantized(kernel.type()),
        "merge_adapters: \"{}.kernel\" is quantised, and cannot hold what an adapter adds; save "
        "the adapters (save_peft), and load them into a step without StepOptions::quantized",
        layer);
    const double factor = lora.alpha / static_cast<double>(lora.rank);
    state[layer + ".kernel"] = kernel.dtype() == f64 ? with_adapter<double>(kernel, a, b, factor)
                                                     : with_adapter<float>(kernel, a, b, factor);
    Array zero(b.type());
    std::memset(zero.mutable_data(), 0, static_cast<std::size_t>(zero.bytes()));
    state[layer + ".lora_b"] = zero;
    ++merged;
  }
  return merged;
}

WeightMap own_names(const TrainState& state) {
  WeightMap map;
  for (const DistributedArray& weight : state.weights())
    map.push_back({weight.name(), {weight.name()}});
  return map;
}

void check_weights(const Graph& graph, const TensorFile& file, const WeightMap& map) {
  check_fit(file, map, types_of(graph));
}

void load_weights(TrainState& state, const TensorFile& file, const WeightMap& map) {
  check_fit(file, map, types_of(state));
  for (const WeightName& name : map) {
    const TensorType type = state[name.parameter].type();
    state[name.parameter] = kernels::is_quantized(type) ? read_quantized(file, name, type)
                                                        : read_weight(file, name, type);
  }
}

void load_weights(TrainState& state, const std::string& path, const WeightMap& map) {
  load_weights(state, TensorFile(path), map);
}

LoadedWeights load_weights(TrainState& state, const std::string& path, LoadOptions options) {
  const TensorFile file(path);
  LoadedWeights difference;
  WeightMap common;
  std::set<std::string> known;
  for (const WeightName& name : own_names(state)) {
    known.insert(name.parameter);
    if (file.contains(name.parameter))
      common.push_back(name);
    else
      difference.missing.push_back(name.parameter);
  }
  for (const std::string& tensor : file.names())
    if (!known.count(tensor)) difference.unexpected.push_back(tensor);
  check_difference(file, difference, common.size(), options);
  load_weights(state, file, common);
  return difference;
}

std::map<std::string, Array> weight_tensors(const TrainState& state, const WeightMap& map) {
  std::map<std::string, Array> tensors;
  for (const WeightName& name : map)
    if (!name.start) write_weight(host_kernel(state[name.parameter]), name, tensors);
  for (const auto& [tensor, shared] : shared_tensors(types_of(state), map))
    write_shared(state, shared, tensors);
  return tensors;
}

void save_weights(const TrainState& state, const std::string& path, const WeightMap& map,
                  const std::map<std::string, std::string>& metadata) {
  write_safetensors(path, weight_tensors(state, map), metadata);
}

void save_weights(const TrainState& state, const std::string& path) {
  save_weights(state, path, own_names(state));
}

}  // namespace alpa
