// Data parallelism and its relatives as restrictions of the search
#include "src/search/space/restrictions.h"

#include <set>

#include "alpa/base/error.h"
#include "src/ops/all_ops.h"
#include "src/plan/facts/batch_factors.h"
#include "src/plan/facts/tensor_factors.h"

namespace alpa::intra_op {
namespace {

/// Allowed uses of mesh axes, as sets of axes (bit a: axis a). Empty sets allow everything.
struct AxisLimits {
  std::uint32_t batch = 0;             ///< split the batch wherever a node has a batch dimension
  std::uint32_t experts = 0;           ///< of these, those that split experts where a node has them
  std::uint32_t tokens = 0;            ///< split tokens wherever a node has their dimension
  std::uint32_t only_batch = 0;        ///< split nothing else, except state that others below name
  std::uint32_t any_state = 0;         ///< state may be split
  std::uint32_t whole_parameters = 0;  ///< every device along the axis holds parameters whole
  std::uint32_t whole_optimizer_state = 0;
  std::uint32_t split_parameters = 0;  ///< split parameters as far as their shapes allow
  std::uint32_t split_optimizer_state = 0;
  std::uint32_t split_accumulators = 0;  ///< of gradients
  std::uint32_t whole_accumulators = 0;
  /// together split features or tokens (tensor_factors.h), and nothing else
  std::uint32_t tensor = 0;
};

std::uint32_t axes_larger_than_one(const DeviceMesh& mesh) {
  std::uint32_t axes = 0;
  for (int axis = 0; axis < mesh.num_axes(); ++axis) axes |= mesh.size(axis) > 1 ? 1u << axis : 0u;
  return axes;
}

/// `of_state`: a use of the batch's, as whose axes this one holds state.
void add(AxisUse use, AxisUse of_state, std::uint32_t axis, AxisLimits& limits) {
  if (use == AxisUse::tensor) limits.tensor |= axis;
  if (use == AxisUse::tensor || use == AxisUse::any) return;
  (use == AxisUse::context ? limits.tokens : limits.batch) |= axis;
  if (use == AxisUse::experts) limits.experts |= axis;
  limits.only_batch |= axis;
  if (of_state == AxisUse::batch) limits.any_state |= axis;
  if (of_state == AxisUse::batch) return;
  (of_state == AxisUse::zero3 ? limits.split_parameters : limits.whole_parameters) |= axis;
  (of_state == AxisUse::data ? limits.whole_optimizer_state : limits.split_optimizer_state) |= axis;
  if (of_state == AxisUse::zero1) limits.whole_accumulators |= axis;
}

bool follows_axis_before(AxisUse use) { return use == AxisUse::context || use == AxisUse::experts; }

AxisLimits limits_of(const AutoShardOptions& options, const DeviceMesh& mesh) {
  const AllowedPlans& allowed = options.allowed;
  require(
      static_cast<int>(allowed.axis_uses.size()) <= mesh.num_axes(),
      "method {}: axis_uses has {} entries, but the mesh has {} axes; give one per axis at most",
      options.method, allowed.axis_uses.size(), mesh.num_axes());
  const std::uint32_t all = axes_larger_than_one(mesh);
  const auto where = [&](bool flag) { return flag ? all : 0; };
  AxisLimits limits{.batch = where(allowed.split_batch_everywhere),
                    .only_batch = where(allowed.split_batch_everywhere),
                    .whole_parameters = where(allowed.parameters == Holding::whole),
                    .whole_optimizer_state = where(allowed.optimizer_state == Holding::whole),
                    .split_parameters = where(allowed.parameters == Holding::split),
                    .split_optimizer_state = where(allowed.optimizer_state == Holding::split),
                    .split_accumulators = where(allowed.gradients == Holding::split)};
  AxisUse of_state = AxisUse::data;
  for (std::size_t axis = 0; axis < allowed.axis_uses.size(); ++axis) {
    const AxisUse use = allowed.axis_uses[axis];
    if (!follows_axis_before(use)) of_state = use;
    add(use, of_state, all & 1u << axis, limits);
  }
  if (allowed.split_batch_everywhere || !allowed.batch_mesh_axis) return limits;
  const int axis = *allowed.batch_mesh_axis;
  require(axis >= 0 && axis < mesh.num_axes(),
          "batch_mesh_axis {} on a mesh of {} axes; give one from 0 to {}", axis, mesh.num_axes(),
          mesh.num_axes() - 1);
  limits.batch |= all & 1u << axis;
  return limits;
}

int devices_on(std::uint32_t axes, const DeviceMesh& mesh) {
  int devices = 1;
  for (int axis = 0; axis < mesh.num_axes(); ++axis)
    devices *= axes >> axis & 1 ? mesh.size(axis) : 1;
  return devices;
}

void check_batch(const Graph& graph, std::uint32_t axes, const DeviceMesh& mesh,
                 const std::string& method) {
  const int devices = devices_on(axes, mesh);
  for (const Input& input : graph.inputs) {
    if (input.kind != InputKind::batch || graph.type(input.value).rank() == 0) continue;
    require(graph.type(input.value).shape[0] >= devices,
            "method {}: the {} of input \"{}\" {} has {} rows, too few to split over {} devices; "
            "use a larger batch, fewer micro-batches or fewer devices, or the method \"shard\"",
            method, graph.num_micro_batches > 1 ? "micro-batch" : "batch", input.name,
            to_string(graph.type(input.value)), graph.type(input.value).shape[0], devices);
  }
}

InputKind kind_of(const Graph& graph, int value) { return find_input(graph, value)->kind; }

/// Nodes that compute the update of an accumulator.
std::set<int> accumulations_of(const Graph& graph) {
  std::set<int> nodes;
  for (const Update& update : graph.updates)
    if (kind_of(graph, update.input) == InputKind::accumulator)
      nodes.insert(graph.values[update.value].producer);
  return nodes;
}

bool updates_state(const Graph& graph, const std::set<int>& accumulations, int n) {
  return graph.nodes[n].region == Region::apply || accumulations.count(n) > 0;
}

/// Axes on which what updates state is whole.
std::uint32_t whole_updates(const AxisLimits& limits) {
  return limits.only_batch & ~(limits.split_optimizer_state | limits.any_state);
}

/// `optimizer`: a state is held as optimizer state is.
void restrict_input(const Input& input, bool optimizer, const AxisLimits& limits, Restriction& r) {
  if (input.kind == InputKind::state) {
    r.whole_axes = optimizer ? limits.whole_optimizer_state : limits.whole_parameters;
    r.most_split_axes = optimizer ? limits.split_optimizer_state : limits.split_parameters;
  }
  if (input.kind == InputKind::accumulator) {
    r.whole_axes = whole_updates(limits) | limits.whole_accumulators;
    r.most_split_axes = limits.split_accumulators;
  }
}

/// State that is split over all devices is split over axes of `tensor`, too,
/// and so is what updates it.
bool follows_split_state(const Node& node, bool updates, const AxisLimits& limits,
                         const Restriction& r) {
  if (!(limits.split_optimizer_state & limits.tensor)) return false;
  return node.op == &ops::input ? r.most_split_axes != 0 : updates;
}

/// What a restriction depends on beside its node.
struct RestrictedGraph {
  const Graph& graph;
  std::set<int> accumulations;                 ///< nodes
  std::vector<bool> optimizer_state;           ///< per value
  std::vector<int> batch;                      ///< per node, the factor
  std::vector<int> tokens = {}, experts = {};  ///< the same; empty: no axis is for them
};

/// The axes of the batch, experts and tokens of node n, which has this rule.
std::vector<BoundAxes> bound_axes(const RestrictedGraph& of, int n, const Rule& rule,
                                  const AxisLimits& limits) {
  const int experts = of.experts.empty() ? -1 : of.experts[n];
  std::vector<BoundAxes> bound;
  const auto add = [&](int factor, std::uint32_t axes) {
    if (factor >= 0 && axes != 0) bound.push_back({factor, axes});
  };
  add(of.batch[n], limits.batch & ~(experts >= 0 ? limits.experts : 0));
  add(experts, limits.experts);
  if (const int tokens = of.tokens.empty() ? -1 : of.tokens[n];
      tokens >= 0 && !rule.factors[tokens].whole)
    add(tokens, limits.tokens);
  return bound;
}

/// The restriction of node n but for `linear_axes`. `tensor` is empty without axes of tensors.
Restriction restriction_of(const RestrictedGraph& of, int n, const Rule& rule,
                           const std::vector<TensorFactors>& tensor, const AxisLimits& limits) {
  const Graph& graph = of.graph;
  const Node& node = graph.nodes[n];
  const bool updates = updates_state(graph, of.accumulations, n);
  Restriction r{.bound = bound_axes(of, n, rule, limits)};
  if (node.op == &ops::input)
    restrict_input(*find_input(graph, node.results[0]), of.optimizer_state[node.results[0]], limits,
                   r);
  else  // axes of the batch split tensors without it only where state is split
    r.whole_axes = updates ? whole_updates(limits) : limits.only_batch;
  if (of.accumulations.contains(n)) r.whole_axes |= limits.whole_accumulators;
  r.whole_axes &= ~r.bound_axes();
  if (!tensor.empty() && !follows_split_state(node, updates, limits, r)) {
    r.tensor_axes = limits.tensor;
    r.tensor_factors = tensor[n].factors;
    r.must_split_tensor = tensor[n].must_split;
  }
  return r;
}

/// Axes over which an operand of linear set `operands` may be partial.
std::uint32_t linear_axes(const Node& node, std::uint32_t operands,
                          const std::vector<std::uint32_t>& partial) {
  if (node.op == &ops::input) return partial[node.results[0]];
  std::uint32_t axes = 0;
  for (std::size_t j = 0; j < node.operands.size(); ++j)
    axes |= operands >> j & 1 ? partial[node.operands[j]] : 0;
  return axes;
}

/// Axes on which a node of this rule may itself leave partial sums in its result number `i`.
std::uint32_t sum_axes(const Rule& rule, int i, const Restriction& r, const DeviceMesh& mesh) {
  std::uint32_t axes = 0;
  for (int axis = 0; axis < mesh.num_axes(); ++axis) {
    if (mesh.size(axis) == 1) continue;
    for (int f = 0; f < static_cast<int>(rule.factors.size()); ++f) {
      const auto bound = std::ranges::find_if(
          r.bound, [&](const BoundAxes& each) { return each.axes >> axis & 1; });
      const bool allowed = bound != r.bound.end()      ? f == bound->factor
                           : r.whole_axes >> axis & 1  ? false
                           : r.tensor_axes >> axis & 1 ? r.tensor_factors >> f & 1
                                                       : true;
      if (allowed && reduction(rule, i, f) == Combiner::sum &&
          rule.factors[f].size >= mesh.size(axis))
        axes |= 1u << axis;
    }
  }
  return axes;
}

/// Axes over which a node must leave partial sums, because its result is pinned so.
std::uint32_t pinned_axes(const Restriction& r) {
  if (r.pinned.empty()) return 0;
  std::uint32_t axes = 0;
  const ShardingSpec spec = parse_spec(r.pinned);
  for (int axis = 0; axis < kMaxMeshAxes; ++axis)
    axes |= spec.axes[axis].kind == AxisPlacement::Kind::partial ? 1u << axis : 0;
  return axes;
}

/// Sets `linear_axes` of all nodes, and adds to `partial` the axes over
/// which values may be partial.
void mark_partial(const Graph& graph, const NodeClasses& classes, const DeviceMesh& mesh,
                  std::vector<std::uint32_t>& partial, std::vector<Restriction>& restrictions) {
  for (int n = 0; n < static_cast<int>(restrictions.size()); ++n) {
    const Node& node = graph.nodes[n];
    const Rule& rule = classes.of(n).rule;
    Restriction& r = restrictions[n];
    std::uint32_t axes = 0;
    r.linear_axes.assign(rule.linear.size(), 0);
    for (std::size_t l = 0; l < rule.linear.size(); ++l) {
      r.linear_axes[l] =
          (linear_axes(node, rule.linear[l], partial) & ~r.bound_axes()) | pinned_axes(r);
      axes |= r.linear_axes[l];
    }
    for (std::size_t i = 0; i < node.results.size(); ++i)
      partial[node.results[i]] |= axes | sum_axes(rule, static_cast<int>(i), r, mesh);
  }
}

/// Partial operands help only where partial sums arise: from a split sum, or from
/// operands that are partial themselves. An accumulator may be partial if what is added
/// to it may; hence the second pass.
void add_linear_axes(const Graph& graph, const NodeClasses& classes, const DeviceMesh& mesh,
                     bool whole_boundaries, std::vector<Restriction>& restrictions) {
  std::vector<std::uint32_t> partial(graph.values.size(), 0);
  // of what other parts of the graph do, anything is possible
  for (const Input& input : graph.inputs)
    if (input.kind == InputKind::boundary && !whole_boundaries)
      partial[input.value] = (1u << mesh.num_axes()) - 1;
  mark_partial(graph, classes, mesh, partial, restrictions);
  for (const Update& update : graph.updates)
    if (kind_of(graph, update.input) == InputKind::accumulator)
      partial[update.input] = partial[update.value];
  mark_partial(graph, classes, mesh, partial, restrictions);
}

}  // namespace

std::vector<Restriction> restrictions(const Graph& graph, const NodeClasses& classes,
                                      const DeviceMesh& mesh, const AutoShardOptions& options) {
  const AxisLimits limits = limits_of(options, mesh);
  check_batch(graph, limits.batch, mesh, options.method);
  const std::map<std::string, int>& boundary = options.part.boundary_batch_dims;
  RestrictedGraph of{.graph = graph,
                     .accumulations = accumulations_of(graph),
                     .optimizer_state = held_like_optimizer_state(graph),
                     .batch = batch_factors(graph, classes, boundary)};
  if (limits.tokens) of.tokens = token_factors(graph, classes, boundary);
  if (std::ranges::count(options.allowed.axis_uses, AxisUse::experts) > 0)  // maybe of one device
    of.experts = expert_factors(graph, classes);
  std::vector<TensorFactors> tensor;
  if (limits.tensor)
    tensor = tensor_factors(graph, classes, devices_on(limits.tensor, mesh), of.batch, of.experts);
  std::vector<Restriction> result;
  for (int n = 0; n < static_cast<int>(graph.nodes.size()); ++n)
    result.push_back(restriction_of(of, n, classes.of(n).rule, tensor, limits));
  for (const PinnedNode& pin : options.allowed.pins)
    result[pin.node] = {.pinned = to_string(pin.spec)};
  add_linear_axes(graph, classes, mesh, options.part.whole_boundary_inputs, result);
  return result;
}

}  // namespace alpa::intra_op
