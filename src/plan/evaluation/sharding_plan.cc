// Checks a plan against a graph and its operators' rules
#include "alpa/plan/sharding_plan.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "alpa/base/error.h"
#include "src/base/name_table.h"
#include "src/ir/op_def.h"
#include "src/plan/evaluation/evaluate.h"
#include "src/plan/evaluation/plan_file.h"

namespace alpa {
namespace {

/// Most seconds, and seconds per byte, that a mesh axis or a step may have: sums
/// and products stay finite.
constexpr double kMostSeconds = 1e12;

bool is_duration(double seconds) { return seconds >= 0 && seconds <= kMostSeconds; }

/// Says which field of a step no step of its kind has; empty if all are in range.
std::string step_mistake(const ReshardStep& step, int rank, const DeviceMesh& mesh) {
  const std::string_view kind = name_of(step.kind);
  const bool several_axes = def_of(step.kind).several_axes;
  for (std::size_t i = 0; i < step.axes.size(); ++i) {
    const int axis = step.axes[i];
    if (axis < 0 || axis >= mesh.num_axes() || (i > 0 && axis <= step.axes[i - 1]))
      return fmt::format(
          "axes: found {} in place {}; give axes of the {} mesh, ascending from 0 to {}", axis, i,
          shape_text(mesh), mesh.num_axes() - 1);
  }
  if (step.axes.empty() || (!several_axes && step.axes.size() != 1))
    return fmt::format("axes: found {}; {} is over {}", step.axes.size(), kind,
                       several_axes ? "at least one axis" : "one axis");
  const auto dim_mistake = [&](const char* field, int dim, bool needed) -> std::string {
    if (needed && (dim < 0 || dim >= rank))
      return fmt::format("{}: found {}; {} of a tensor of rank {} needs a dimension below it",
                         field, dim, kind, rank);
    return needed || dim == -1 ? "" : fmt::format("{}: found {}; {} has none", field, dim, kind);
  };
  const bool same = gathers(step.kind);
  if (std::string mistake = dim_mistake("from_dim", step.from_dim, joins(step.kind));
      !mistake.empty())
    return mistake;
  if (std::string mistake = dim_mistake("dim", step.dim, same || splits(step.kind));
      !mistake.empty())
    return mistake;
  if (joins(step.kind) && (step.dim == step.from_dim) != same)
    return fmt::format("dim: found {}; {} from dimension {} needs {}", step.dim, kind,
                       step.from_dim, same ? "the same" : "another");
  return is_duration(step.seconds)
             ? ""
             : fmt::format("seconds: found {}, expected 0 to {}", step.seconds, kMostSeconds);
}

std::string_view name_of(UseKind kind) {
  constexpr std::string_view kNames[] = {"node", "update", "metric", "output"};
  return name_in(kNames, kind, "kind of use");
}

class Verifier {
 public:
  Verifier(const ShardingPlan& plan, const Graph& graph, const std::string& name)
      : plan_(plan), graph_(graph), name_(name), facts_(graph) {}

  void run() {
    check_sizes();
    check_mesh();
    check_cost();
    for (int n = 0; n < static_cast<int>(graph_.nodes.size()); ++n) check_node(n);
    for (std::size_t r = 0; r < plan_.reshards.size(); ++r) {
      check_uses(r);
      check_path(r);
    }
    const auto& uses = facts_.uses;
    for (int v = 0; v < static_cast<int>(uses.size()); ++v) {
      for (const intra_op::Use& use : uses[v]) check_use(v, use);
    }
    for (std::size_t r = 0; r < plan_.reshards.size(); ++r) check_read(r);
  }

 private:
  template <class... Args>
  void check(bool condition, fmt::format_string<Args...> format, Args&&... args) const {
    if (!condition) fail("{}: {}", name_, fmt::format(format, std::forward<Args>(args)...));
  }

  void check_sizes() const {
    check(plan_.strategies.size() == graph_.nodes.size() &&
              plan_.specs.size() == graph_.values.size(),
          "it has {} nodes and {} values but the graph has {} and {}; "
          "it was made for another graph, so plan again",
          plan_.strategies.size(), plan_.specs.size(), graph_.nodes.size(), graph_.values.size());
  }

  void check_mesh() const {
    const std::vector<MeshAxis>& axes = plan_.mesh.axes();
    for (std::size_t a = 0; a < axes.size(); ++a) {
      check(is_duration(axes[a].alpha_seconds),
            "mesh.axes[{}].alpha_seconds: found {}, expected 0 to {}", a, axes[a].alpha_seconds,
            kMostSeconds);
      check(is_duration(axes[a].beta_seconds_per_byte),
            "mesh.axes[{}].beta_seconds_per_byte: found {}, expected 0 to {}", a,
            axes[a].beta_seconds_per_byte, kMostSeconds);
    }
    const std::vector<int>& devices = plan_.mesh.devices();
    for (std::size_t d = 0; d < devices.size(); ++d)
      check(devices[d] >= 0, "mesh.devices[{}]: found {}; devices are numbered from 0", d,
            devices[d]);
  }

  void check_cost() const {
    for (const auto& [name, field] : intra_op::kCostFields)
      check(std::isfinite(plan_.cost.*field) && plan_.cost.*field >= 0,
            "cost.{}: found {}, expected seconds, 0 or more", name, plan_.cost.*field);
    for (const auto& [name, field] : intra_op::kStatisticsFields)
      check(plan_.statistics.*field >= 0, "statistics.{}: found {}, expected 0 or more", name,
            plan_.statistics.*field);
  }

  std::string node_text(int n) const {
    return fmt::format("node {} {} \"{}\"", n, graph_.nodes[n].op->name, graph_.nodes[n].name);
  }

  void check_node(int n) {
    const intra_op::NodeClass& node = facts_.classes.of(n);
    const auto [place, added] = strategies_.try_emplace(facts_.classes.of_node[n]);
    if (added)
      place->second =
          intra_op::all_strategies(node.rule, plan_.mesh, intra_op::IdleDevices::allowed);
    const Strategy& strategy = plan_.strategies[n];
    check(std::find(place->second.begin(), place->second.end(), strategy) != place->second.end(),
          "{} has the strategy \"{}\", which this operator does not have on a {} mesh",
          node_text(n), to_string(strategy), shape_text(plan_.mesh));
    for (int i = 0; i < static_cast<int>(graph_.nodes[n].results.size()); ++i) {
      const ShardingSpec left = intra_op::result_spec(node.rule, strategy, plan_.mesh, i),
                         &planned = plan_.specs[graph_.nodes[n].results[i]];
      check(left == planned, "{} with the strategy \"{}\" leaves result {} as {}, not as {}",
            node_text(n), to_string(strategy), i, to_string(left), to_string(planned));
    }
  }

  void check_uses(std::size_t r) const {
    const PlannedReshard& reshard = plan_.reshards[r];
    const int num_values = static_cast<int>(plan_.specs.size());
    check(reshard.value >= 0 && reshard.value < num_values,
          "reshards[{}].value: found {}; the graph has values 0 to {}", r, reshard.value,
          num_values - 1);
    check(!reshard.uses.empty(), "reshards[{}].uses: none; a resharding without uses is left out",
          r);
    for (std::size_t u = 0; u < reshard.uses.size(); ++u) {
      const UseId use = reshard.uses[u];
      check(use.index >= 0 && use.index < intra_op::count_of(graph_, use.kind),
            "reshards[{}].uses[{}]: found {} {}; the graph has {} of that kind", r, u,
            name_of(use.kind), use.index, intra_op::count_of(graph_, use.kind));
      check(u == 0 || use > reshard.uses[u - 1],
            "reshards[{}].uses[{}]: {} comes after a later use", r, u,
            intra_op::use_text(graph_, use));
    }
    check(!reshard.once || (facts_.held[reshard.value] &&
                            intra_op::phase_of_use(graph_, reshard.uses.front()) == 0),
          "reshards[{}].once: only what micro-batches read of state can be made once for them", r);
    check(r == 0 || plan_.reshards[r - 1].uses.front() <= reshard.uses.front(),
          "reshards[{}] comes after a later one", r);
  }

  void check_path(std::size_t r) {
    const PlannedReshard& reshard = plan_.reshards[r];
    const int rank = graph_.type(reshard.value).rank();
    ShardingSpec spec = plan_.specs[intra_op::source_of_use(graph_, facts_.accumulators,
                                                            reshard.value, reshard.uses.front())];
    for (std::size_t s = 0; s < reshard.path.steps.size(); ++s) {
      const ReshardStep& step = reshard.path.steps[s];
      const std::string mistake = step_mistake(step, rank, plan_.mesh);
      check(mistake.empty(), "reshards[{}].steps[{}].{}", r, s, mistake);
      check(intra_op::spec_after(spec, step) == step.to,
            "reshards[{}].steps[{}] of {}: no {} leads from {} to {}", r, s,
            node_text(graph_.values[reshard.value].producer), name_of(step.kind), to_string(spec),
            to_string(step.to));
      spec = step.to;
    }
    targets_.push_back(spec);
    reads_.push_back(0);
    by_value_.emplace(reshard.value, r);
  }

  void check_use(int v, const intra_op::Use& use) {
    const ShardingSpec spec = intra_op::wanted_spec(facts_, plan_, use),
                       &found = plan_.specs[use.source];
    if (spec == found) return;
    const auto [begin, end] = by_value_.equal_range(v);
    for (auto r = begin; r != end; ++r) {
      const std::vector<UseId>& uses = plan_.reshards[r->second].uses;
      if (targets_[r->second] != spec || !std::binary_search(uses.begin(), uses.end(), use.id))
        continue;
      check(intra_op::phase_of_use(graph_, uses.front()) == use.phase,
            "reshards[{}] is read by {} and by {}, but the one runs once per micro-batch and the "
            "other once per step",
            r->second, intra_op::use_text(graph_, uses.front()),
            intra_op::use_text(graph_, use.id));
      ++reads_[r->second];
      return;
    }
    check(false, "{} wants value {} as {} but it is left as {} and no resharding provides it",
          intra_op::use_text(graph_, use.id), v, to_string(spec), to_string(found));
  }

  void check_read(std::size_t r) const {
    check(reads_[r] >= static_cast<int>(plan_.reshards[r].uses.size()),
          "reshards[{}] of value {} to {} names uses that do not want it", r,
          plan_.reshards[r].value, to_string(targets_[r]));
  }

  const ShardingPlan& plan_;
  const Graph& graph_;
  const std::string& name_;
  const intra_op::GraphFacts facts_;
  std::map<int, std::vector<Strategy>> strategies_;  ///< by class
  std::vector<ShardingSpec> targets_;                ///< of the reshardings
  std::vector<int> reads_;                           ///< how many uses each serves
  std::multimap<int, std::size_t> by_value_;
};

}  // namespace

std::optional<ShardingSpec> intra_op::spec_after(ShardingSpec spec, const ReshardStep& step) {
  const CollectiveDef& def = def_of(step.kind);
  for (int axis : step.axes) {
    const AxisPlacement& a = spec.axes[axis];
    if (a.kind != def.from) return std::nullopt;
    if (joins(step.kind) && (a.dim != step.from_dim || !spec.is_minor_most(axis)))
      return std::nullopt;
    spec.axes[axis] = {};
  }
  const int axis = step.axes.front();
  if (splits(step.kind)) return spec.split(axis, step.dim);
  if (def.to == AxisPlacement::Kind::partial)
    return spec.partial(axis, step.to.axes[axis].combiner);
  return spec;
}

int intra_op::count_of(const Graph& graph, UseKind kind) {
  switch (kind) {
    case UseKind::node: return static_cast<int>(graph.nodes.size());
    case UseKind::update: return static_cast<int>(graph.updates.size());
    case UseKind::metric: return static_cast<int>(graph.metrics.size());
    case UseKind::output: return static_cast<int>(graph.outputs.size());
  }
  bug("unknown kind of use {}", static_cast<int>(kind));
}

void verify(const ShardingPlan& plan, const Graph& graph, const std::string& name) {
  Verifier(plan, graph, name).run();
}

}  // namespace alpa
