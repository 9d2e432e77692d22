// Layouts, strategies and updates in words
#include "src/report/plan_summary.h"

#include <algorithm>

#include "alpa/base/error.h"
#include "src/plan/facts/uses.h"

namespace alpa {
namespace {

std::string dim_name(int dim, int rank) {
  if (rank == 1) return "elements";
  if (rank == 2) return dim == 0 ? "rows" : "columns";
  return fmt::format("dimension {}", dim);
}

std::string axes_text(const std::vector<int>& axes, const DeviceMesh& mesh) {
  std::string names;
  int devices = 1;
  for (int axis : axes) {
    names += (names.empty() ? "" : ", ") + mesh.axes()[axis].name;
    devices *= mesh.size(axis);
  }
  return fmt::format("{} ({} devices)", names, devices);
}

}  // namespace

std::string describe(const ShardingSpec& spec, int rank, const DeviceMesh& mesh) {
  std::string text;
  const auto add = [&](const std::string& words) { text += (text.empty() ? "" : ", ") + words; };
  std::vector<int> idle, partial;
  for (int d = 0; d < rank; ++d) {
    if (const std::vector<int> axes = spec.axes_of(d); !axes.empty())
      add(fmt::format("{} split over {}", dim_name(d, rank), axes_text(axes, mesh)));
  }
  for (int axis = 0; axis < mesh.num_axes(); ++axis) {
    if (mesh.size(axis) == 1) continue;
    if (spec.axes[axis].kind == AxisPlacement::Kind::replicated) idle.push_back(axis);
    if (spec.axes[axis].kind == AxisPlacement::Kind::partial) partial.push_back(axis);
  }
  if (!partial.empty()) add("partial over " + axes_text(partial, mesh));
  if (text.empty()) return "a copy on every device";
  if (!idle.empty()) add("copies along " + axes_text(idle, mesh));
  return text;
}

std::string intra_op::axes_text(const ReshardStep& step, const DeviceMesh& mesh) {
  std::string axes;
  for (int axis : step.axes) axes += (axes.empty() ? "" : "+") + mesh.axes()[axis].name;
  return axes;
}

std::string intra_op::path_text(const ReshardPath& path, const DeviceMesh& mesh) {
  std::string text;
  for (const ReshardStep& step : path.steps) {
    text += fmt::format("{}{} over {}", text.empty() ? "" : ", then ", name_of(step.kind),
                        axes_text(step, mesh));
  }
  return text;
}

std::string intra_op::strategy_text(const Rule& rule, const Strategy& strategy,
                                    const DeviceMesh& mesh) {
  std::string text;
  for (int axis = 0; axis < mesh.num_axes(); ++axis) {
    const AxisRole& role = strategy.axes[axis];
    if (role.kind == AxisRole::Kind::none) continue;
    std::string what = role.kind == AxisRole::Kind::linear ? "on partial sums" : "";
    if (what.empty()) {
      for (std::size_t d = 0; !rule.results.empty() && d < rule.results[0].size(); ++d) {
        const std::vector<int>& factors = rule.results[0][d];
        if (std::find(factors.begin(), factors.end(), role.index) != factors.end())
          what = dim_name(static_cast<int>(d), static_cast<int>(rule.results[0].size())) +
                 " of the result split";
      }
      if (what.empty())
        what = is_reduced(rule, role.index) ? "the reduced dimension split" : "operands split";
    }
    text += fmt::format("{}{} over {}", text.empty() ? "" : ", ", what, mesh.axes()[axis].name);
  }
  return text.empty() ? "the whole on every device" : text;
}

std::string intra_op::strategy_text(const PricedPlan& priced, int node, const Strategy& strategy) {
  return strategy_text(priced.facts.classes.of(node).rule, strategy, priced.plan.mesh);
}

std::vector<intra_op::Communication> intra_op::communications(const PricedPlan& priced) {
  const ShardingPlan& plan = priced.plan;
  const Graph& graph = priced.graph;
  const std::vector<ShardingSpec> starts = starts_of_reshards(plan, priced.facts);
  std::vector<Communication> all;
  for (std::size_t r = 0; r < starts.size(); ++r) {
    const PlannedReshard& reshard = plan.reshards[r];
    const TensorType& type = graph.type(reshard.value);
    const int runs = runs_of(reshard, graph);
    all.push_back({.path = path_text(reshard.path, plan.mesh),
                   .type = to_string(type),
                   .from = use_text(graph, {UseKind::node, graph.values[reshard.value].producer}),
                   .target = use_text(graph, reshard.uses.front()),
                   .left = describe(starts[r], type.rank(), plan.mesh),
                   .wanted = describe(reshard.path.steps.back().to, type.rank(), plan.mesh),
                   .runs = runs,
                   .seconds = priced.seconds.reshards[r],
                   .bytes = runs * path_sent_bytes(type, starts[r], reshard.path, plan.mesh)});
  }
  return all;
}

std::string intra_op::update_text(const ShardingPlan& plan, const Graph& graph,
                                  const Input& input) {
  const auto update = std::find_if(graph.updates.begin(), graph.updates.end(),
                                   [&](const Update& u) { return u.input == input.value; });
  if (update == graph.updates.end()) return "never updated";
  const UseId use{UseKind::update, static_cast<int>(update - graph.updates.begin())};
  for (const PlannedReshard& r : plan.reshards) {
    if (r.value == update->value && std::binary_search(r.uses.begin(), r.uses.end(), use))
      return fmt::format(
          "updated as {}, then {}",
          describe(plan.specs[update->value], graph.type(update->value).rank(), plan.mesh),
          intra_op::path_text(r.path, plan.mesh));
  }
  const ShardingSpec& spec = plan.specs[input.value];
  if (spec.is_replicated()) return "every device updates its copy";
  return "updated in place, each device its part";
}

}  // namespace alpa
