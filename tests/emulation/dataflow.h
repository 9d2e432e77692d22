#pragma once
/// Several operations of cuDNN as one graph: what its descriptors hold, whether engines take it
/// (attention and its gradient alone), and its computation, operation by operation.
#include <map>
#include <vector>

#include "convolution.h"

namespace alpa::emulation {

struct GraphTensor : ImageTensor {
  bool by_value = false;  ///< one number in host memory
  bool between = false;   ///< of operations, in no memory

  /// Elements from the first to the last, and one more.
  std::int64_t span() const;
};

struct Operation {
  enum class Kind : std::uint8_t { product, reduction, reshape, pointwise } kind = Kind::product;
  std::int32_t mode = 0;  ///< of a reduction or pointwise
  std::int64_t axis = 0;  ///< of CUDNN_POINTWISE_GEN_INDEX
  GraphTensor y;
  std::vector<GraphTensor> x;  ///< one to three operands
};

using Dataflow = std::vector<Operation>;

/// "", or what is wrong: extents that do not belong together, operands that nothing made.
std::string fault_of(const Dataflow& graph);

/// Best first; none unless it is attention as cuDNN's engines take it. The first needs more
/// workspace than any program plans.
std::vector<Engine> engines_for(const Dataflow& graph);

/// The tensors of the graph in memory, each once.
std::vector<GraphTensor> bound_tensors(const Dataflow& graph);

/// Where tensors are, and the numbers by value, by the numbers of tensors.
struct Bindings {
  std::map<std::int64_t, void*> places;
  std::map<std::int64_t, double> values;
};
/// Sums in f32, engines in different orders; tensors between operations are rounded to their types.
void compute(const Dataflow& graph, const Engine& engine, const Bindings& bindings);

/// Of an element of cuDNN's types that tensors in memory may have.
double read_number(std::int32_t type, const void* data);

}  // namespace alpa::emulation
