// src/report/report_operators.cc — the operators of a stage in a report: what takes the time
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "plan_summary.h"
#include "report_parts.h"
#include "src/ir/input.h"
#include "src/ir/op_def.h"
#include "src/plan/facts/strategy.h"

namespace alpa::page {

using Json = nlohmann::ordered_json;

namespace {

/// FLOPs and bytes of one run of a node on one device.
struct Work {
  double flops = 0, bytes = 0;
};

Work work_of(const intra_op::PricedPlan& priced, int n) {
  const Graph& graph = priced.graph;
  const Node& node = graph.nodes[n];
  const Strategy& strategy = priced.plan.strategies[n];
  const DeviceMesh& mesh = priced.plan.mesh;
  int parts = 1;
  for (int axis = 0; axis < mesh.num_axes(); ++axis)
    if (strategy.axes[axis].kind == AxisRole::Kind::factor) parts *= mesh.size(axis);
  const auto types = [&](const std::vector<int>& values) {
    std::vector<TensorType> of;
    for (int value : values) of.push_back(graph.type(value));
    return of;
  };
  const Rule& rule = priced.facts.classes.of(n).rule;
  const std::vector<int> factors = intra_op::factor_of_axis(strategy, mesh);
  return {flops(rule) / parts,
          cost::operator_bytes(rule, factors, types(node.operands), types(node.results), mesh)};
}

/// Seconds of the FLOPs alone, at the rate of the first floating type among operands and results.
double flop_seconds(const intra_op::PricedPlan& priced, int n, double flops) {
  const Node& node = priced.graph.nodes[n];
  for (const std::vector<int>* values : {&node.operands, &node.results})
    for (int value : *values) {
      const DType dtype = priced.graph.type(value).dtype;
      const auto rate = priced.model.device.flops_per_second.find(dtype);
      if (is_floating(dtype))
        return rate == priced.model.device.flops_per_second.end() || rate->second <= 0
                   ? 0
                   : flops / rate->second;
    }
  return 0;
}

/// Operators that compute are bounded by it where their FLOPs take half of their time or more.
bool is_compute_bound(const intra_op::PricedPlan& priced, int n, double flops, double seconds) {
  return seconds > 0 && 2 * flop_seconds(priced, n, flops) >= seconds;
}

bool takes_time(const intra_op::PricedPlan& priced, int n) {
  return priced.seconds.nodes[n] > 0 && !priced.graph.nodes[n].operands.empty();
}

/// Operators that are alike.
struct Class {
  std::string name, op, strategy;
  std::string_view region;
  int count = 0, first = -1;  ///< nodes
  double seconds = 0, flops = 0, bytes = 0, compute_bound_seconds = 0;
};

std::vector<Class> classes_of(const intra_op::PricedPlan& priced) {
  std::map<std::tuple<std::string, Region, std::string>, Class> classes;
  for (int n = 0; n < static_cast<int>(priced.graph.nodes.size()); ++n) {
    if (!takes_time(priced, n)) continue;
    const Node& node = priced.graph.nodes[n];
    const std::string strategy = intra_op::strategy_text(priced, n, priced.plan.strategies[n]);
    Class& of =
        classes[{pattern_of(node.name) + std::string(node.op->name), node.region, strategy}];
    if (of.count++ == 0)
      of.name = pattern_of(node.name), of.op = node.op->name, of.strategy = strategy,
      of.region = name_of(node.region), of.first = n;
    const Work work = work_of(priced, n);
    const int runs = runs_per_step(priced.graph, node);
    of.seconds += priced.seconds.nodes[n];
    of.flops += runs * work.flops, of.bytes += runs * work.bytes;
    if (is_compute_bound(priced, n, runs * work.flops, priced.seconds.nodes[n]))
      of.compute_bound_seconds += priced.seconds.nodes[n];
  }
  std::vector<Class> sorted;
  for (auto& [key, of] : classes) sorted.push_back(std::move(of));
  std::ranges::stable_sort(sorted, std::greater<>(), &Class::seconds);
  return sorted;
}

Json class_json(const Class& of) {
  return {{"name", of.name},
          {"operator", of.op},
          {"region", of.region},
          {"count", of.count},
          {"seconds", of.seconds},
          {"flops", of.flops},
          {"bytes", of.bytes},
          {"flops_per_second", of.flops / of.seconds},
          {"flops_per_byte", of.bytes > 0 ? of.flops / of.bytes : 0},
          {"bound_by", 2 * of.compute_bound_seconds >= of.seconds ? "compute" : "memory"},
          {"strategy", of.strategy}};
}

}  // namespace

std::string pattern_of(const std::string& name) {
  const auto is_digit = [&](std::size_t i) { return name[i] >= '0' && name[i] <= '9'; };
  std::string pattern;
  for (std::size_t i = 0; i < name.size();) {
    std::size_t end = i;
    while (end < name.size() && is_digit(end)) ++end;
    const bool ends_part = end == name.size() || name[end] == '.' || name[end] == '/';
    if (end > i && ends_part)
      pattern += '*';
    else
      end = std::max(end, i + 1), pattern += name.substr(i, end - i);
    i = end;
  }
  return pattern;
}

Json operators_json(const intra_op::PricedPlan& priced, int stage, std::size_t most,
                    std::size_t choices) {
  std::vector<Class> classes = classes_of(priced);
  if (classes.size() > most) classes.resize(most);
  std::vector<int> nodes;
  for (std::size_t c = 0; c < std::min(choices, classes.size()); ++c)
    nodes.push_back(classes[c].first);
  const auto alternatives = intra_op::next_best(nodes, priced);
  Json json = Json::array();
  for (std::size_t c = 0; c < classes.size(); ++c) {
    Json one = class_json(classes[c]);
    one["stage"] = stage;
    if (c < alternatives.size() && alternatives[c])
      one["next_best"] = {
          {"strategy", intra_op::strategy_text(priced, nodes[c], alternatives[c]->strategy)},
          {"extra_seconds", alternatives[c]->extra_seconds}};
    json.push_back(std::move(one));
  }
  return json;
}

Json time_json(const intra_op::PricedPlan& priced) {
  double compute = 0, memory = 0, communication = 0;
  for (int n = 0; n < static_cast<int>(priced.graph.nodes.size()); ++n) {
    const int runs = runs_per_step(priced.graph, priced.graph.nodes[n]);
    const double seconds = priced.seconds.nodes[n];
    if (takes_time(priced, n) &&
        is_compute_bound(priced, n, runs * work_of(priced, n).flops, seconds))
      compute += seconds;
    else
      memory += seconds;
  }
  for (const double seconds : priced.seconds.reshards) communication += seconds;
  return {{"compute", compute}, {"memory", memory}, {"communication", communication}};
}

}  // namespace alpa::page
