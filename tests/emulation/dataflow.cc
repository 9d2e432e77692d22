#include "dataflow.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "library_data.h"

namespace alpa::emulation {
namespace {

using Index = std::array<std::int64_t, 4>;
using Kind = Operation::Kind;
using Numbers = std::vector<float>;  ///< of a tensor, dimension by dimension

cudaDataType_t cuda_type(std::int32_t type) {
  return type == CUDNN_DATA_HALF       ? CUDA_R_16F
         : type == CUDNN_DATA_BFLOAT16 ? CUDA_R_16BF
                                       : CUDA_R_32F;
}

Index index_of(const Index& dims, std::int64_t i) {
  return {i / dims[3] / dims[2] / dims[1], i / dims[3] / dims[2] % dims[1], i / dims[3] % dims[2],
          i % dims[3]};
}
std::int64_t number_of(const Index& dims, const Index& at) {
  return ((at[0] * dims[1] + at[1]) * dims[2] + at[2]) * dims[3] + at[3];
}
std::int64_t place_of(const GraphTensor& t, const Index& at) {
  std::int64_t sum = 0;
  for (std::size_t d = 0; d < 4; ++d) sum += at[d] * t.strides[d];
  return sum;
}

/// The index in a tensor with fewer heads or rows, several of the other's belonging to each.
Index shared_index(const Index& at, const Index& dims, const Index& fewer) {
  Index result;
  for (std::size_t d = 0; d < 4; ++d) result[d] = at[d] * fewer[d] / dims[d];
  return result;
}
bool divides(const Index& fewer, const Index& dims) {
  for (std::size_t d = 0; d < 4; ++d)
    if (dims[d] % fewer[d] != 0) return false;
  return true;
}

// ---- validity

bool has_extents(const Operation& op) {
  const Index &y = op.y.dims, &x = op.x[0].dims;
  switch (op.kind) {
    case Kind::product: {
      const Index& b = op.x[1].dims;
      return y[0] == x[0] && y[1] == x[1] && y[0] == b[0] && y[1] % b[1] == 0 && y[2] == x[2] &&
             y[3] == b[3] && x[3] == b[2];
    }
    case Kind::reduction: return divides(y, x);
    case Kind::reshape: return y[0] == x[0] && y[1] == x[1] && y[2] == x[3] && y[3] == x[2];
    case Kind::pointwise:
      return std::all_of(op.x.begin(), op.x.end(),
                         [&](const GraphTensor& t) { return divides(t.dims, y); });
  }
  return false;
}

// ---- what engines take

const char* name_of(const Operation& op) {
  if (op.kind == Kind::product) return "product ";
  if (op.kind == Kind::reshape) return "reshape ";
  if (op.kind == Kind::reduction) return op.mode == CUDNN_REDUCE_TENSOR_MAX ? "max " : "sum ";
  switch (op.mode) {
    case CUDNN_POINTWISE_ADD: return "+ ";
    case CUDNN_POINTWISE_SUB: return "- ";
    case CUDNN_POINTWISE_MUL: return "* ";
    case CUDNN_POINTWISE_DIV: return "/ ";
    case CUDNN_POINTWISE_EXP: return "exp ";
    case CUDNN_POINTWISE_LOG: return "log ";
    case CUDNN_POINTWISE_CMP_GE: return ">= ";
    case CUDNN_POINTWISE_GEN_INDEX: return "index ";
    case CUDNN_POINTWISE_IDENTITY: return "copy ";
    default: return "select ";
  }
}

/// Attention, with or without a mask of the diagonal, that may end at the last key.
bool is_attention(const std::string& names) {
  static const auto* const patterns = [] {
    auto* const all = new std::set<std::string>;
    for (const char* mask : {"", "index index >= select ", "index + - index >= select "}) {
      const std::string seen = mask;
      all->insert("product * " + seen + "max - exp sum log + / product ");
      for (const char* heads : {"", "sum "})
        for (const char* any_order : {"", "copy "})
          all->insert("* sum * product * - " + seen + "exp reshape product " + heads +
                      "product - * * reshape product " + heads + "reshape product " + any_order);
    }
    return all;
  }();
  return patterns->contains(names);
}

bool is_half(const GraphTensor& t) {
  return t.type == CUDNN_DATA_HALF || t.type == CUDNN_DATA_BFLOAT16;
}

/// Rows of 8 to 128 elements in 16 bits side by side, or f32 statistics or sums that are packed.
bool is_taken(const GraphTensor& t) {
  if (t.by_value) return true;
  if (!is_half(t)) {
    const Index packed = {t.dims[1] * t.dims[2] * t.dims[3], t.dims[2] * t.dims[3], t.dims[3], 1};
    return t.type == CUDNN_DATA_FLOAT && t.strides == packed;
  }
  const std::size_t d = t.strides[3] == 1 ? 3 : 2;
  return t.strides[d] == 1 && t.dims[d] % 8 == 0 && t.dims[d] <= 128;
}

std::int64_t rounded_up(std::int64_t x, std::int64_t unit) { return (x + unit - 1) / unit * unit; }

/// Whether sums of a gradient go to memory, where they are added in any order.
bool has_sums(const Dataflow& graph) {
  return graph.back().kind == Kind::pointwise && graph.back().mode == CUDNN_POINTWISE_IDENTITY;
}

/// Of the gradient: scores in 16 bits, unless its sums are in memory, and keys of all heads if
/// several query heads share them.
std::int64_t workspace_of(const Dataflow& graph) {
  std::int64_t scores = 0, keys = 0;
  for (const Operation& op : graph) {
    const Index& y = op.y.dims;
    if (op.kind == Kind::reshape && is_half(op.y) && !has_sums(graph))
      scores = y[0] * y[1] * rounded_up(y[3], 64) * rounded_up(y[2], 128);
    if (op.kind == Kind::reduction && is_half(op.y))
      keys += op.x[0].dims[0] * op.x[0].dims[1] * rounded_up(y[2], 128) * y[3];
  }
  return 2 * (scores + keys);
}

// ---- computation

/// The numbers of tensors made or read so far.
class Run {
 public:
  Run(const Engine& engine, const Bindings& bindings)
      : backwards_(engine.number % 4 == 2), bindings_(bindings) {}

  void operator()(const Operation& op) {
    Numbers y(static_cast<std::size_t>(op.y.elements()));
    for (std::int64_t i = 0; i < op.y.elements(); ++i) y[i] = result(op, index_of(op.y.dims, i));
    if (op.kind == Kind::reduction) reduce(op, y);
    put(op.y, std::move(y));
  }

 private:
  const Numbers& of(const GraphTensor& t) {
    const auto known = numbers_.find(t.number);
    if (known != numbers_.end()) return known->second;
    Numbers all(static_cast<std::size_t>(t.elements()));
    for (std::int64_t i = 0; i < t.elements(); ++i)
      all[i] = t.by_value
                   ? static_cast<float>(bindings_.values.at(t.number))
                   : static_cast<float>(read(bindings_.places.at(t.number), cuda_type(t.type),
                                             place_of(t, index_of(t.dims, i))));
    return numbers_[t.number] = std::move(all);
  }

  void put(const GraphTensor& t, Numbers numbers) {
    for (std::int64_t i = 0; i < t.elements(); ++i) {
      if (is_half(t)) {
        std::uint16_t bits = 0;
        write(&bits, cuda_type(t.type), 0, numbers[i]);
        numbers[i] = static_cast<float>(read(&bits, cuda_type(t.type), 0));
      }
      if (!t.between)
        write(bindings_.places.at(t.number), cuda_type(t.type), place_of(t, index_of(t.dims, i)),
              numbers[i]);
    }
    numbers_[t.number] = std::move(numbers);
  }

  float operand(const Operation& op, std::size_t which, const Index& at) {
    const GraphTensor& t = op.x[which];
    return of(t)[number_of(t.dims, shared_index(at, op.y.dims, t.dims))];
  }

  float result(const Operation& op, const Index& at) {
    switch (op.kind) {
      case Kind::product: return product(op, at);
      case Kind::reduction: return op.mode == CUDNN_REDUCE_TENSOR_MAX ? -INFINITY : 0;
      case Kind::reshape: return of(op.x[0])[number_of(op.x[0].dims, {at[0], at[1], at[3], at[2]})];
      case Kind::pointwise: return pointwise(op, at);
    }
    return 0;
  }

  float product(const Operation& op, const Index& at) {
    const Numbers &a = of(op.x[0]), &b = of(op.x[1]);
    const std::int64_t depth = op.x[0].dims[3], head = at[1] * op.x[1].dims[1] / op.y.dims[1];
    float sum = 0;
    for (std::int64_t n = 0; n < depth; ++n) {
      const std::int64_t k = backwards_ ? depth - 1 - n : n;
      sum += a[number_of(op.x[0].dims, {at[0], at[1], at[2], k})] *
             b[number_of(op.x[1].dims, {at[0], head, k, at[3]})];
    }
    return sum;
  }

  void reduce(const Operation& op, Numbers& y) {
    const GraphTensor& x = op.x[0];
    for (std::int64_t n = 0; n < x.elements(); ++n) {
      const std::int64_t i = backwards_ ? x.elements() - 1 - n : n;
      float& to = y[number_of(op.y.dims, shared_index(index_of(x.dims, i), x.dims, op.y.dims))];
      to = op.mode == CUDNN_REDUCE_TENSOR_MAX ? std::max(to, of(x)[i]) : to + of(x)[i];
    }
  }

  float pointwise(const Operation& op, const Index& at) {
    const auto x = [&](std::size_t i) { return operand(op, i, at); };
    switch (op.mode) {
      case CUDNN_POINTWISE_ADD: return x(0) + x(1);
      case CUDNN_POINTWISE_SUB: return x(0) - x(1);
      case CUDNN_POINTWISE_MUL: return x(0) * x(1);
      case CUDNN_POINTWISE_DIV: return x(0) / x(1);
      case CUDNN_POINTWISE_EXP: return std::exp(x(0));
      case CUDNN_POINTWISE_LOG: return std::log(x(0));
      case CUDNN_POINTWISE_CMP_GE: return x(0) >= x(1) ? 1 : 0;
      case CUDNN_POINTWISE_GEN_INDEX: return static_cast<float>(at[op.axis]);
      case CUDNN_POINTWISE_IDENTITY: return x(0);
      default: return x(2) != 0 ? x(0) : x(1);  // BINARY_SELECT
    }
  }

  bool backwards_;
  const Bindings& bindings_;
  std::map<std::int64_t, Numbers> numbers_;
};

}  // namespace

std::int64_t GraphTensor::span() const {
  std::int64_t last = 0;
  for (std::size_t d = 0; d < 4; ++d) last += (dims[d] - 1) * strides[d];
  return last + 1;
}

std::string fault_of(const Dataflow& graph) {
  std::set<std::int64_t> made;
  std::map<std::int64_t, Index> dims;
  for (const Operation& op : graph) {
    for (const GraphTensor& t : op.x) {
      if (dims.emplace(t.number, t.dims).first->second != t.dims)
        return "one tensor with several extents";
      if (*std::min_element(t.dims.begin(), t.dims.end()) <= 0)
        return "a dimension is not positive";
      if (t.between && !made.contains(t.number)) return "a virtual tensor that no operation makes";
    }
    if (!has_extents(op))
      return std::string("extents of ") + name_of(op) + "do not belong together";
    made.insert(op.y.number);
  }
  return "";
}

std::vector<Engine> engines_for(const Dataflow& graph) {
  std::string names;
  for (const Operation& op : graph) names += name_of(op);
  const std::vector<GraphTensor> bound = bound_tensors(graph);
  if (!is_attention(names) || !std::all_of(bound.begin(), bound.end(), is_taken)) return {};
  constexpr std::uint32_t kTensorCores = 1U << CUDNN_NUMERICAL_NOTE_TENSOR_CORE;
  const std::int64_t bytes = workspace_of(graph);
  return {{41, false, kTensorCores, std::int64_t{1} << 40},
          {25, false, kTensorCores | 1U << CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC,
           has_sums(graph) ? bytes : 0},
          {62, false, kTensorCores, bytes + 256},
          {28, false, kTensorCores, bytes},
          {0, true, kTensorCores, bytes + 128}};
}

std::vector<GraphTensor> bound_tensors(const Dataflow& graph) {
  std::vector<GraphTensor> all;
  std::set<std::int64_t> known;
  const auto add = [&](const GraphTensor& t) {
    if (!t.between && known.insert(t.number).second) all.push_back(t);
  };
  for (const Operation& op : graph) {
    for (const GraphTensor& t : op.x) add(t);
    add(op.y);
  }
  return all;
}

void compute(const Dataflow& graph, const Engine& engine, const Bindings& bindings) {
  Run run(engine, bindings);
  for (const Operation& op : graph) run(op);
}

double read_number(std::int32_t type, const void* data) {
  if (type == CUDNN_DATA_FLOAT) return *static_cast<const float*>(data);
  return *static_cast<const std::int32_t*>(data);
}

}  // namespace alpa::emulation
