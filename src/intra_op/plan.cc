// src/intra_op/plan.cc — does a plan fit a graph and its operators' rules?
#include "alpa/intra_op/plan.h"

#include <algorithm>
#include <map>
#include <optional>

#include "alpa/base/error.h"
#include "node_classes.h"
#include "uses.h"

namespace alpa {
namespace {

using Kind = AxisPlacement::Kind;

bool is_minor_most(const ShardingSpec& spec, int axis) {
  const AxisPlacement& mine = spec.axes[axis];
  return std::none_of(spec.axes.begin(), spec.axes.end(), [&](const AxisPlacement& other) {
    return other.kind == Kind::split && other.dim == mine.dim && other.order > mine.order;
  });
}

/// `spec` after `step`, or nothing if the step cannot be taken from there.
std::optional<ShardingSpec> after(ShardingSpec spec, const ReshardStep& step, int rank, int num_axes) {
  const bool single = step.kind != ReshardKind::all_reduce;
  if (step.axes.empty() || (single && step.axes.size() != 1)) return std::nullopt;
  const bool splits = step.kind == ReshardKind::reduce_scatter || step.kind == ReshardKind::all_to_all ||
                      step.kind == ReshardKind::slice;
  if (splits && (step.dim < 0 || step.dim >= rank)) return std::nullopt;
  for (int axis : step.axes) {
    if (axis < 0 || axis >= num_axes) return std::nullopt;
    const AxisPlacement& a = spec.axes[axis];
    const bool from_split = step.kind == ReshardKind::all_gather || step.kind == ReshardKind::all_to_all;
    const bool from_partial =
        step.kind == ReshardKind::all_reduce || step.kind == ReshardKind::reduce_scatter;
    const Kind expected = from_split ? Kind::split : from_partial ? Kind::partial : Kind::replicated;
    if (a.kind != expected || (from_split && (a.dim != step.from_dim || !is_minor_most(spec, axis))))
      return std::nullopt;
    spec.axes[axis] = {};
  }
  const int axis = step.axes.front();
  if (splits) return spec.split(axis, step.dim);
  if (step.kind == ReshardKind::to_partial) return spec.partial(axis, step.to.axes[axis].combiner);
  return spec;
}

class Verifier {
 public:
  Verifier(const ShardingPlan& plan, const Graph& graph)
      : plan_(plan), graph_(graph), classes_(classify(graph)) {}

  void run() {
    check_sizes();
    for (int n = 0; n < static_cast<int>(graph_.nodes.size()); ++n) check_node(n);
    for (std::size_t r = 0; r < plan_.reshards.size(); ++r) check_path(r);
    const auto uses = uses_of_values(graph_);
    for (int v = 0; v < static_cast<int>(uses.size()); ++v) {
      for (const Use& use : uses[v]) check_use(v, use);
    }
    for (std::size_t r = 0; r < plan_.reshards.size(); ++r) check_read(r);
  }

 private:
  void check_sizes() const {
    require(plan_.strategies.size() == graph_.nodes.size() && plan_.specs.size() == graph_.values.size(),
            "plan: it has {} nodes and {} values but the graph has {} and {}; it was made for another "
            "graph, so plan again",
            plan_.strategies.size(), plan_.specs.size(), graph_.nodes.size(), graph_.values.size());
  }

  std::string node_text(int n) const {
    return fmt::format("node {} {} \"{}\"", n, graph_.nodes[n].op->name, graph_.nodes[n].name);
  }

  void check_node(int n) {
    const NodeClass& node = classes_.of(n);
    const auto [place, added] = strategies_.try_emplace(classes_.of_node[n]);
    if (added) place->second = all_strategies(node.rule, plan_.mesh);
    const Strategy& strategy = plan_.strategies[n];
    require(std::find(place->second.begin(), place->second.end(), strategy) != place->second.end(),
            "plan: {} has the strategy \"{}\", which this operator does not have on a {} mesh",
            node_text(n), to_string(strategy), shape_text(plan_.mesh));
    for (int i = 0; i < static_cast<int>(graph_.nodes[n].results.size()); ++i) {
      const ShardingSpec left = result_spec(node.rule, strategy, plan_.mesh, i),
                         &planned = plan_.specs[graph_.nodes[n].results[i]];
      require(left == planned, "plan: {} with the strategy \"{}\" leaves result {} as {}, not as {}",
              node_text(n), to_string(strategy), i, to_string(left), to_string(planned));
    }
  }

  void check_path(std::size_t r) {
    const PlannedReshard& reshard = plan_.reshards[r];
    require(
        reshard.value >= 0 && reshard.value < static_cast<int>(plan_.specs.size()) && !reshard.uses.empty(),
        "plan: resharding {} has value {} and {} uses", r, reshard.value, reshard.uses.size());
    const int num_uses =
        static_cast<int>(graph_.nodes.size() + graph_.updates.size() + graph_.metrics.size());
    for (std::size_t u = 0; u < reshard.uses.size(); ++u) {
      require(reshard.uses[u] >= 0 && reshard.uses[u] < num_uses &&
                  (u == 0 || reshard.uses[u] > reshard.uses[u - 1]),
              "plan: resharding {} has uses that do not ascend from 0 to {}", r, num_uses - 1);
    }
    require(r == 0 || plan_.reshards[r - 1].uses.front() <= reshard.uses.front(),
            "plan: resharding {} comes after a later one", r);
    ShardingSpec spec = plan_.specs[reshard.value];
    for (const ReshardStep& step : reshard.path.steps) {
      require(after(spec, step, graph_.type(reshard.value).rank(), plan_.mesh.num_axes()) == step.to,
              "plan: resharding {} of value {}: no {} leads from {} to {}", r, reshard.value,
              name_of(step.kind), to_string(spec), to_string(step.to));
      spec = step.to;
    }
    targets_.push_back(spec);
    reads_.push_back(0);
    by_value_.emplace(reshard.value, r);
  }

  void check_use(int v, const Use& use) {
    const ShardingSpec spec = wanted_spec(graph_, classes_, plan_.strategies, plan_.mesh, use);
    if (spec == plan_.specs[v]) return;
    const auto [begin, end] = by_value_.equal_range(v);
    for (auto r = begin; r != end; ++r) {
      const std::vector<int>& uses = plan_.reshards[r->second].uses;
      if (targets_[r->second] != spec || !std::binary_search(uses.begin(), uses.end(), use.id)) continue;
      require(phase_of(uses.front()) == use.phase,
              "plan: resharding {} is read by {} and by {}, but the one runs once per micro-batch and the "
              "other once per step",
              r->second, use_text(graph_, uses.front()), use_text(graph_, use.id));
      ++reads_[r->second];
      return;
    }
    fail("plan: {} wants value {} as {} but it is left as {} and no resharding provides it",
         use_text(graph_, use.id), v, to_string(spec), to_string(plan_.specs[v]));
  }

  int phase_of(int use) const {
    return graph_.num_micro_batches > 1 && region_of_use(graph_, use) == Region::apply ? 1 : 0;
  }

  void check_read(std::size_t r) const {
    require(reads_[r] >= static_cast<int>(plan_.reshards[r].uses.size()),
            "plan: resharding {} of value {} to {} names uses that do not want it", r,
            plan_.reshards[r].value, to_string(targets_[r]));
  }

  const ShardingPlan& plan_;
  const Graph& graph_;
  const NodeClasses classes_;
  std::map<int, std::vector<Strategy>> strategies_;  ///< by class
  std::vector<ShardingSpec> targets_;                ///< of the reshardings
  std::vector<int> reads_;                           ///< how many uses each serves
  std::multimap<int, std::size_t> by_value_;
};

}  // namespace

void verify(const ShardingPlan& plan, const Graph& graph) { Verifier(plan, graph).run(); }

}  // namespace alpa
