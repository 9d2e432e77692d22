// src/intra_op/restrictions.cc — data parallelism and its relatives as restrictions of the search
#include "restrictions.h"

#include <algorithm>
#include <set>

#include "alpa/base/error.h"
#include "batch_factors.h"
#include "src/ops/all_ops.h"
#include "tensor_factors.h"

namespace alpa {
namespace {

/// Allowed uses of mesh axes, as sets of axes (bit a: axis a). Empty sets allow everything.
struct AxisLimits {
  std::uint32_t batch = 0;             ///< split the batch wherever a node has a batch dimension
  std::uint32_t only_batch = 0;        ///< split nothing else, except state that others below name
  std::uint32_t any_state = 0;         ///< state may be split
  std::uint32_t whole_parameters = 0;  ///< every device along the axis holds parameters whole
  std::uint32_t whole_optimizer_state = 0;
  std::uint32_t split_parameters = 0;  ///< split parameters as far as their shapes allow
  std::uint32_t split_optimizer_state = 0;
  std::uint32_t split_accumulators = 0;  ///< of gradients
  std::uint32_t split_contractions = 0;  ///< einsums are split over as many devices as they can be
  /// together split features or tokens (tensor_factors.h), and nothing else
  std::uint32_t tensor = 0;
};

std::uint32_t axes_larger_than_one(const DeviceMesh& mesh) {
  std::uint32_t axes = 0;
  for (int axis = 0; axis < mesh.num_axes(); ++axis) axes |= mesh.size(axis) > 1 ? 1u << axis : 0u;
  return axes;
}

void add(AxisUse use, std::uint32_t axis, AxisLimits& limits) {
  if (use == AxisUse::tensor) limits.tensor |= axis;
  if (use == AxisUse::tensor || use == AxisUse::any) return;
  limits.batch |= axis;
  limits.only_batch |= axis;
  if (use == AxisUse::batch) limits.any_state |= axis;
  if (use == AxisUse::batch) return;
  (use == AxisUse::zero3 ? limits.split_parameters : limits.whole_parameters) |= axis;
  (use == AxisUse::data ? limits.whole_optimizer_state : limits.split_optimizer_state) |= axis;
}

AxisLimits limits_of(const AutoShardOptions& options, const DeviceMesh& mesh) {
  require(
      static_cast<int>(options.axis_uses.size()) <= mesh.num_axes(),
      "method {}: axis_uses has {} entries, but the mesh has {} axes; give one per axis at most",
      options.method, options.axis_uses.size(), mesh.num_axes());
  const std::uint32_t all = axes_larger_than_one(mesh);
  const auto where = [&](bool flag) { return flag ? all : 0; };
  AxisLimits limits{.batch = where(options.split_batch_everywhere),
                    .only_batch = where(options.split_batch_everywhere),
                    .whole_parameters = where(options.replicate_parameters),
                    .whole_optimizer_state = where(options.replicate_optimizer_state),
                    .split_parameters = where(options.shard_parameters),
                    .split_optimizer_state = where(options.shard_optimizer_state),
                    .split_accumulators = where(options.shard_gradients),
                    .split_contractions = where(options.split_contractions)};
  for (std::size_t axis = 0; axis < options.axis_uses.size(); ++axis)
    add(options.axis_uses[axis], all & 1u << axis, limits);
  if (options.split_batch_everywhere || !options.batch_mesh_axis) return limits;
  const int axis = *options.batch_mesh_axis;
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

/// Fills one Restriction per node.
class Restrictor {
 public:
  Restrictor(const Graph& graph, const NodeClasses& classes, const DeviceMesh& mesh,
             const AxisLimits& limits)
      : graph_(graph),
        classes_(classes),
        mesh_(mesh),
        limits_(limits),
        result_(graph.nodes.size()) {
    for (const Update& update : graph.updates) {
      if (kind_of(update.input) == InputKind::accumulator)
        accumulations_.insert(graph.values[update.value].producer);
    }
  }

  std::vector<Restriction> run() && {
    const std::vector<int> batch = batch_factors(graph_, classes_);
    std::vector<TensorFactors> tensor;
    if (limits_.tensor)
      tensor = tensor_factors(graph_, classes_, devices_on(limits_.tensor, mesh_), batch);
    for (int n = 0; n < static_cast<int>(result_.size()); ++n) {
      result_[n].batch_factor = batch[n];
      if (batch[n] >= 0) result_[n].batch_axes = limits_.batch;
      if (graph_.nodes[n].op == &ops::input)
        restrict_input(n);
      else
        restrict_node(n);
      if (limits_.tensor && !follows_split_state(n)) restrict_to(n, tensor[n]);
    }
    add_linear_axes();
    return std::move(result_);
  }

 private:
  InputKind kind_of(int value) const { return find_input(graph_, value)->kind; }

  void restrict_input(int n) {
    const Input& input = *find_input(graph_, graph_.nodes[n].results[0]);
    Restriction& r = result_[n];
    if (input.kind == InputKind::state) {
      const bool optimizer = !input.of.empty();
      r.whole_axes = optimizer ? limits_.whole_optimizer_state : limits_.whole_parameters;
      r.most_split_axes = optimizer ? limits_.split_optimizer_state : limits_.split_parameters;
    }
    if (input.kind == InputKind::accumulator) {
      r.whole_axes = whole_updates();
      r.most_split_axes = limits_.split_accumulators;
    }
  }

  /// Axes on which what updates state is whole.
  std::uint32_t whole_updates() const {
    return limits_.only_batch & ~(limits_.split_optimizer_state | limits_.any_state);
  }

  /// Axes of the batch split tensors without a batch only where state is split.
  void restrict_node(int n) {
    const Node& node = graph_.nodes[n];
    Restriction& r = result_[n];
    if (r.batch_factor < 0) r.whole_axes = updates_state(n) ? whole_updates() : limits_.only_batch;
    if (node.op->work == Work::heavy) r.most_split_axes = limits_.split_contractions;
  }

  /// State that is split over all devices is split over axes of `tensor`, too, and so is what
  /// updates it.
  bool follows_split_state(int n) const {
    if (!(limits_.split_optimizer_state & limits_.tensor)) return false;
    const bool is_input = graph_.nodes[n].op == &ops::input;
    return is_input ? result_[n].most_split_axes != 0 : updates_state(n);
  }

  bool updates_state(int n) const {
    return graph_.nodes[n].region == Region::apply || accumulations_.count(n) > 0;
  }

  void restrict_to(int n, const TensorFactors& tensor) {
    Restriction& r = result_[n];
    r.tensor_axes = limits_.tensor;
    r.tensor_factors = tensor.factors;
    r.must_split_tensor = tensor.must_split;
  }

  /// Partial operands help only where partial sums arise: from a split sum, or from
  /// operands that are partial themselves. An accumulator may be partial if what is added
  /// to it may; hence the second pass.
  void add_linear_axes() {
    std::vector<std::uint32_t> partial(graph_.values.size(), 0);
    // of what other parts of the graph do, anything is possible
    for (const Input& input : graph_.inputs)
      if (input.kind == InputKind::boundary) partial[input.value] = (1u << mesh_.num_axes()) - 1;
    mark_partial(partial);
    for (const Update& update : graph_.updates) {
      if (kind_of(update.input) == InputKind::accumulator)
        partial[update.input] = partial[update.value];
    }
    mark_partial(partial);
  }

  void mark_partial(std::vector<std::uint32_t>& partial) {
    for (int n = 0; n < static_cast<int>(result_.size()); ++n) {
      const Node& node = graph_.nodes[n];
      const Rule& rule = classes_.of(n).rule;
      std::uint32_t axes = 0;
      result_[n].linear_axes.assign(rule.linear.size(), 0);
      for (std::size_t l = 0; l < rule.linear.size(); ++l) {
        result_[n].linear_axes[l] =
            linear_axes(node, rule.linear[l], partial) & ~result_[n].batch_axes;
        axes |= result_[n].linear_axes[l];
      }
      for (std::size_t i = 0; i < node.results.size(); ++i)
        partial[node.results[i]] |= axes | sum_axes(n, rule, static_cast<int>(i));
    }
  }

  std::uint32_t linear_axes(const Node& node, std::uint32_t operands,
                            const std::vector<std::uint32_t>& partial) const {
    if (node.op == &ops::input) return partial[node.results[0]];
    std::uint32_t axes = 0;
    for (std::size_t j = 0; j < node.operands.size(); ++j)
      axes |= operands >> j & 1 ? partial[node.operands[j]] : 0;
    return axes;
  }

  /// Axes on which the node itself may leave partial sums in its result number `i`.
  std::uint32_t sum_axes(int n, const Rule& rule, int i) const {
    const Restriction& r = result_[n];
    std::uint32_t axes = 0;
    for (int axis = 0; axis < mesh_.num_axes(); ++axis) {
      if (mesh_.size(axis) == 1) continue;
      for (int f = 0; f < static_cast<int>(rule.factors.size()); ++f) {
        const bool allowed = r.batch_axes >> axis & 1    ? f == r.batch_factor
                             : r.whole_axes >> axis & 1  ? false
                             : r.tensor_axes >> axis & 1 ? r.tensor_factors >> f & 1
                                                         : true;
        if (allowed && reduction(rule, i, f) == Combiner::sum &&
            rule.factors[f].size >= mesh_.size(axis))
          axes |= 1u << axis;
      }
    }
    return axes;
  }

  const Graph& graph_;
  const NodeClasses& classes_;
  const DeviceMesh& mesh_;
  const AxisLimits& limits_;
  std::vector<Restriction> result_;
  std::set<int> accumulations_;  ///< nodes that compute the update of an accumulator
};

}  // namespace

std::vector<Restriction> restrictions(const Graph& graph, const NodeClasses& classes,
                                      const DeviceMesh& mesh, const AutoShardOptions& options) {
  const AxisLimits limits = limits_of(options, mesh);
  check_batch(graph, limits.batch, mesh, options.method);
  return Restrictor(graph, classes, mesh, limits).run();
}

}  // namespace alpa
