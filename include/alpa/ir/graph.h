#pragma once
/// The dataflow graph: SSA, static shapes, nodes in topological order. Plain data; made by
/// `Builder`, never changed by a pass.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "alpa/base/attributes.h"
#include "alpa/base/shape.h"
#include "alpa/base/text.h"
#pragma GCC visibility push(default)

namespace alpa {

struct OpDef;
struct Rule;

/// When a node runs. Forward and backward nodes run once per micro-batch,
/// apply nodes once per step.
enum class Region : std::uint8_t { forward, backward, apply };

/// An operator with its operands and results.
struct Node {
  const OpDef* op = nullptr;        ///< the operator's record
  Attributes attributes;            ///< of the operator
  std::vector<int> operands;        ///< value ids
  std::vector<int> results;         ///< value ids
  std::string name;                 ///< for readers: layer and operator; need not be unique
  Region region = Region::forward;  ///< when it runs
  int layer = -1;                   ///< of the model (ir/layers.h); -1: none, or several
  int remat = -1;  ///< the rematerialised layer (`RematScope`) that it is part of; -1: none
  /// Computes a node of that layer again, for the backward pass.
  bool again = false;

  bool operator==(const Node&) const = default;
};

/// A tensor of the graph.
struct ValueInfo {
  TensorType type;    ///< of the whole tensor
  int producer = -1;  ///< node id
  int index = 0;      ///< index among the producer's results

  bool operator==(const ValueInfo&) const = default;
};

/// Kind of a graph input; attribute "kind" of an `input` node.
enum class InputKind : std::uint8_t {
  batch,        ///< a slice of the step's batch along dimension 0, one per micro-batch
  state,        ///< kept across steps: a parameter, or state that belongs to one
  accumulator,  ///< zero at the start of a step, kept across its micro-batches
  shared,  ///< a tensor given to every step, the same for all its micro-batches (a mask, a table)
  scalar,  ///< a number given to every step (learning rate, step counter, temperature)
  /// in a part of a graph: a value that another part computes, per micro-batch, or once per step if
  /// the node's region is apply
  boundary,
};

/// An input of the graph, or its state.
struct Input {
  int value = -1;                     ///< value id
  InputKind kind = InputKind::batch;  ///< what it holds
  std::string name;                   ///< unique among its kind
  /// Optimizer state: the name of its parameter, or its own if it belongs to the step as a whole.
  /// Empty: not optimizer state.
  std::string of = {};
  bool frozen = false;  ///< a parameter that no update changes

  bool operator==(const Input&) const = default;
};

/// `value` becomes the new content of state or accumulator `input` (both value ids, of equal type).
struct Update {
  int input = -1, value = -1;  ///< value ids
  bool operator==(const Update&) const = default;
};

/// A scalar reported after every step; computed in region apply (or anywhere if
/// there is one micro-batch).
struct Metric {
  std::string name;  ///< unique among its kind
  int value = -1;    ///< value id
  bool operator==(const Metric&) const = default;
};

/// A value that is read outside the graph: a tensor that a step returns, from every run of its
/// region; or a result that a part of a graph passes to other parts (ir/subgraph.h).
struct Output {
  std::string name;  ///< unique among its kind
  int value = -1;    ///< value id
  bool operator==(const Output&) const = default;
};

/// Integer attribute of random operators that distinguishes their sequences of numbers. The planner
/// treats nodes and layers that differ only in it as equal.
inline constexpr std::string_view kStreamAttribute = "stream";

/// Most nodes of a graph. The operators throw Error beyond it.
inline constexpr std::int64_t kMaxGraphNodes = std::int64_t{1} << 20;

/// Most bytes of all values of a graph together, 2^60, so that sums of live bytes or
/// of traffic cannot overflow.
inline constexpr std::int64_t kMaxGraphBytes = std::int64_t{1} << 60;

/// A step as a dataflow graph.
struct Graph {
  /// topological order; inputs are nodes of operator `input` without operands
  std::vector<Node> nodes;
  std::vector<ValueInfo> values;  ///< by value id
  std::vector<Input> inputs;      ///< by ascending value
  std::vector<Update> updates;    ///< of state and accumulators
  std::vector<Metric> metrics;    ///< in the order of declaration
  std::vector<Output> outputs;    ///< in the order of declaration
  int num_micro_batches = 1;      ///< of a step

  bool operator==(const Graph&) const = default;
  /// The node that computes a value.
  const Node& producer(int value) const { return nodes[values[value].producer]; }
  const TensorType& type(int value) const { return values[value].type; }  ///< of value `value`
};

/// Operand types of a node, in order.
std::vector<TensorType> operand_types(const Graph& graph, const Node& node);

/// The index rule of a node of this graph.
Rule rule_of(const Graph& graph, const Node& node);

/// For every value, the ids of the nodes that read it, ascending, each once.
std::vector<std::vector<int>> consumers(const Graph& graph);

/// How often the node runs in one step: num_micro_batches, or 1 in region apply.
int runs_per_step(const Graph& graph, const Node& node);

/// Floating-point operations of one step, by the index rules of its nodes; only those with results
/// of element type `of`, if it is given.
double flops_per_step(const Graph& graph, std::optional<DType> of = {});

/// Rematerialised layers of the graph, ascending; only those of which nodes are computed again, or
/// all.
std::vector<int> recomputed_layers(const Graph& graph);
/// The same, of all rematerialised layers.
std::vector<int> remat_layers(const Graph& graph);

/// The input record of value `id`, or nullptr.
const Input* find_input(const Graph& graph, int value);

/// Throws Bug naming the first node that breaks an invariant. Topological order; types as the
/// rules give them. One `input` node per entry of `inputs`, in the same order, with its kind and
/// name; optimizer state belongs to a parameter of the graph. Updates have the input's type, and
/// are only of accumulators and state that is not frozen; metrics are scalars; names of outputs
/// differ. No node reads a result of a later region (inputs belong to all regions); accumulators
/// are not updated in apply. With several micro-batches, apply nodes, updates of state and
/// metrics read only apply nodes, state, shared and scalar inputs, boundaries of region apply,
/// and updates of accumulators.
void verify(const Graph& graph);

/// Text form, one line per node (grammar in docs/graph-text.md); `parse_graph` reads
/// it back to an equal graph.
std::string to_string(const Graph& graph);

/// The line of one node, e.g. `%2: f32[8, 16] = einsum(%0, %1) {equation="ab,bc->ac"}
/// forward layer=0 "dense0/einsum"`.
std::string to_string(const Graph& graph, const Node& node);

/// Inverse of `to_string`. `operators` are the known records (`all_ops()`). Throws
/// Error naming line and mistake.
Graph parse_graph(const std::string& text, std::span<const OpDef* const> operators);

/// A hash of everything except names: equal for graphs with the same nodes in the same order.
std::uint64_t structural_hash(const Graph& graph);

}  // namespace alpa

template <>
struct fmt::formatter<alpa::Graph> : alpa::TextFormatter<alpa::Graph> {};
#pragma GCC visibility pop
