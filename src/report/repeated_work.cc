// Work that several devices repeat
#include <algorithm>

#include "alpa/base/error.h"
#include "alpa/base/text.h"
#include "alpa/plan/sharding_plan.h"
#include "src/plan/evaluation/evaluate.h"
#include "src/plan/facts/uses.h"

namespace alpa {
namespace {

constexpr double kWorthSaying = 0.01;
constexpr std::size_t kNamed = 3;

int devices_alike(const Strategy& strategy, const DeviceMesh& mesh) {
  int devices = 1;
  for (int axis = 0; axis < mesh.num_axes(); ++axis)
    devices *= strategy.axes[axis].kind == AxisRole::Kind::none ? mesh.size(axis) : 1;
  return devices;
}

std::string percent(double share) { return two_digits(100 * share) + " %"; }

RepeatedWork work_of(const ShardingPlan& plan, const Graph& graph,
                     const intra_op::NodeClasses& classes) {
  double total = 0;
  RepeatedWork work;
  for (int n = 0; n < static_cast<int>(graph.nodes.size()); ++n) {
    const double operations = runs_per_step(graph, graph.nodes[n]) * flops(classes.of(n).rule);
    const int devices = devices_alike(plan.strategies[n], plan.mesh);
    total += operations;
    if (devices > 1 && operations > 0 && graph.nodes[n].region != Region::apply)
      work.nodes.push_back({n, devices, operations});
  }
  std::stable_sort(work.nodes.begin(), work.nodes.end(),
                   [](const auto& a, const auto& b) { return a.share > b.share; });
  for (RepeatedWork::Item& item : work.nodes) work.share += item.share /= total;
  return work;
}

std::string report_of(const RepeatedWork& work, const ShardingPlan& plan, const Graph& graph) {
  if (work.share < kWorthSaying) return "";
  std::string text =
      fmt::format("{} of the floating-point operations are done alike by several devices: ",
                  percent(work.share));
  for (std::size_t i = 0; i < std::min(kNamed, work.nodes.size()); ++i)
    text += fmt::format("{}{} ({} by {} devices)", i > 0 ? ", " : "",
                        intra_op::use_text(graph, {UseKind::node, work.nodes[i].node}),
                        percent(work.nodes[i].share), work.nodes[i].devices);
  if (work.nodes.size() > kNamed)
    text += fmt::format(" and {} more nodes", work.nodes.size() - kNamed);
  const bool batch_only = plan.method == "data" || plan.method == "zero2" || plan.method == "zero3";
  return batch_only
             ? text + fmt::format("; the method {} splits along the batch alone, use \"shard\"",
                                  plan.method)
             : text;
}

}  // namespace

RepeatedWork repeated_work(const ShardingPlan& plan, const Graph& graph) {
  return work_of(plan, graph, intra_op::classify(graph));
}

std::string repeated_work_text(const ShardingPlan& plan, const Graph& graph) {
  return report_of(repeated_work(plan, graph), plan, graph);
}

std::string intra_op::repeated_work_text(const PricedPlan& priced) {
  return report_of(work_of(priced.plan, priced.graph, priced.facts.classes), priced.plan,
                   priced.graph);
}

}  // namespace alpa
