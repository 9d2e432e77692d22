#pragma once
/// The operator record of graph inputs, the only operator that module `ir` needs.
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "alpa/ir/graph.h"

namespace alpa {
namespace ops {

/// A graph input: no operands, no kernel. Attributes: kind ("batch", "state", …), dtype, shape, and
/// for state init ("constant", "normal", "uniform", "unset", or "copy": `is_copy`) with reals a and
/// b as in `Initializer`. The node's name is the input's name.
extern const OpDef input;

}  // namespace ops

/// The graph's input of this kind and name, or nullptr.
const Input* find_input(const Graph& graph, InputKind kind, const std::string& name);
/// The state of this name, or nullptr; copies are not found.
const Input* find_state(const Graph& graph, const std::string& name);
/// True if `value` is an input of kind `scalar`.
bool is_scalar_input(const Graph& graph, int value);
/// Names of the graph's inputs of this kind, in order, each once; without copies.
std::vector<std::string> input_names(const Graph& graph, InputKind kind);

/// Bytes of all inputs of this kind.
std::int64_t bytes_of(const Graph& graph, InputKind kind);

/// True if a state is the copy of another one, its `Input::of`, in a narrower element type. A step
/// that updates the one updates both. Copies are neither seen by users nor saved.
bool is_copy(const Graph& graph, const Input& input);
/// True if a state has no content until a step writes it: `Initializer::unset`.
bool is_unset(const Graph& graph, const Input& input);
/// All copies, by the name of the state that they are copies of. Points into `graph`.
using StateCopies = std::multimap<std::string, const Input*>;
StateCopies copies_by_state(const Graph& graph);

/// Per value, whether it is a state that the planner holds as it holds optimizer state: also a
/// parameter that has a copy. The copy is then held as parameters are.
std::vector<bool> held_like_optimizer_state(const Graph& graph);

/// Role of an input in a model.
enum class StateRole : std::uint8_t {
  none,  ///< the input is no state
  parameter,
  layer_state,  ///< a layer keeps it beside its parameters, such as running means
  /// of the optimizer ("<parameter>.<what>"), or of the step, such as a loss scale
  optimizer_state,
};
StateRole role_of(const Input& input);
/// "parameter", "layer state", "optimizer state".
std::string_view name_of(StateRole role);

/// "batch", "state", "accumulator", "shared", "scalar", "boundary".
std::string_view name_of(InputKind kind);
/// "forward", "backward", "apply".
std::string_view name_of(Region region);

}  // namespace alpa
