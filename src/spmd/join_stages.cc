// src/spmd/join_stages.cc — joins the partitioned parts of a graph by
// transfers between their meshes
#include "src/spmd/join_stages.h"

#include <algorithm>
#include <functional>
#include <map>

#include "alpa/base/error.h"
#include "rewrite.h"
#include "src/ir/input.h"
#include "src/ir/op_def.h"
#include "src/plan/schedules/schedule.h"

namespace alpa::spmd {
namespace {

/// A partitioned part while its nodes are appended.
struct Appending {
  SpmdProgram program;
  std::map<std::string, int> outputs;  ///< by name: value of `program`
  std::vector<int> values;             ///< per value of `program`: its value in the result, or -1
  std::size_t next = 0;                ///< node of `program` that comes next
};

class Joining {
 public:
  Joining(std::span<const PlannedPart> parts, const Cluster& cluster) : prices_(cluster) {
    for (const PlannedPart& part : parts) {
      Appending appending;
      appending.program = partition(part.graph, part.plan);
      for (const Output& output : appending.program.graph.outputs)
        appending.outputs.emplace(output.name, output.value);
      appending.values.resize(appending.program.graph.values.size(), -1);
      result_.meshes.push_back(part.plan.mesh);
      parts_.push_back(std::move(appending));
    }
  }

  SpmdProgram run(const Graph& whole) && {
    result_.graph.num_micro_batches = whole.num_micro_batches;
    for (bool moved = true; moved;) {
      moved = false;
      for (int p = 0; p < static_cast<int>(parts_.size()); ++p)
        while (append_next(p)) moved = true;
    }
    for (const Appending& part : parts_)
      invariant(part.next == part.program.graph.nodes.size(),
                "stages wait for each other: \"{}\" of mesh {} is never sent",
                part.program.graph.nodes[part.next].name, &part - parts_.data());
    append_unread_inputs(whole);
    for (int p = 0; p < static_cast<int>(parts_.size()); ++p) append_takers(p);
    put_in_order(whole);
    return with_nodes(result_, with_early_transfers());
  }

 private:
  /// False if the part is at its end, or waits for a value of another one.
  bool append_next(int p) {
    Appending& part = parts_[p];
    const Graph& graph = part.program.graph;
    if (part.next == graph.nodes.size()) return false;
    const Node& node = graph.nodes[part.next];
    const Input* input = node.op == &ops::input ? find_input(graph, node.results[0]) : nullptr;
    for (int value : node.operands)
      if (!is_here(value, p)) return false;
    ++part.next;
    if (input && input->kind == InputKind::boundary) return true;  // transferred where it is read
    append_node(node, p);
    if (input) result_.graph.inputs.push_back(*input);
    if (input) result_.graph.inputs.back().value = part.values[input->value];
    return true;
  }

  /// True if part p has the value. Values of other parts are transferred once they are computed.
  bool is_here(int value, int p) {
    Appending& part = parts_[p];
    if (part.values[value] >= 0) return true;
    const Node& boundary = part.program.graph.producer(value);
    const int source = sent_value(boundary.name);
    if (source < 0) return false;
    const Input* input = find_input(result_.graph, source);
    const bool given =
        input && (input->kind == InputKind::batch || input->kind == InputKind::shared);
    part.values[value] =
        given ? loaded(*input, part.program.specs[value], p) : transferred(source, boundary, p);
    return true;
  }

  /// An input of the step once more, for mesh p: nothing needs to be sent.
  int loaded(Input input, const ShardingSpec& spec, int p) {
    Node node = result_.graph.producer(input.value);
    input.value = add_value(result_, result_.graph.type(input.value), 0, spec, p);
    node.results = {input.value};
    result_.graph.nodes.push_back(std::move(node));
    result_.graph.inputs.push_back(std::move(input));
    return result_.graph.inputs.back().value;
  }

  void append_node(Node node, int p) {
    Appending& part = parts_[p];
    for (int& operand : node.operands) operand = part.values[operand];
    const std::vector<int> results = node.results;
    for (int& value : node.results)
      value = part.values[value] =
          add_value(result_, part.program.graph.type(value), part.program.graph.values[value].index,
                    part.program.specs[value], p);
    result_.graph.nodes.push_back(std::move(node));
  }

  /// The value that another part gives under this name; -1: not computed yet.
  int sent_value(const std::string& name) const {
    for (const Appending& part : parts_)
      if (const auto found = part.outputs.find(name); found != part.outputs.end())
        return part.values[found->second];
    bug("join: no part gives the boundary value \"{}\"", name);
  }

  /// A transfer to the place of boundary input `node` of part p.
  int transferred(int value, const Node& input, int p) {
    const ShardingSpec& spec = parts_[p].program.specs[input.results[0]];
    Node node;
    node.region = input.region;
    node.layer = input.layer;
    const std::string name = result_.graph.producer(value).name + ".transfer";
    value = reduced(value, node);
    const cost::PlannedTransfer planned =
        prices_.plan(result_.graph.type(value), {result_.mesh_of(value), result_.specs[value]},
                     {result_.meshes[p], spec});
    node.name = name;
    return append_transfer(result_, value, p, planned, std::move(node));
  }

  /// The nodes, each followed by the transfers of its results, and the sums that these send.
  std::vector<Node> with_early_transfers() const {
    const Graph& graph = result_.graph;
    std::vector<bool> follows(graph.nodes.size());
    for (const auto& [partial, sum] : sums_) follows[graph.values[sum].producer] = true;
    for (std::size_t n = 0; n < graph.nodes.size(); ++n)
      if (is_transfer(graph.nodes[n])) follows[n] = true;
    const std::vector<std::vector<int>> readers = consumers(graph);
    std::vector<Node> nodes;
    const std::function<void(int)> append = [&](int n) {
      nodes.push_back(graph.nodes[n]);
      for (int value : graph.nodes[n].results)
        for (int reader : readers[value])
          if (follows[reader]) append(reader);
    };
    for (int n = 0; n < static_cast<int>(graph.nodes.size()); ++n)
      if (!follows[n]) append(n);
    return nodes;
  }

  /// `value`, or its sum over the mesh axes along which it is partial. The sum is computed once.
  int reduced(int value, Node node) {
    ShardingSpec whole = result_.specs[value];
    std::vector<std::int64_t> axes;
    for (int axis = 0; axis < kMaxMeshAxes; ++axis)
      if (whole.axes[axis].kind == AxisPlacement::Kind::partial)
        axes.push_back(axis), whole = whole.without(axis);
    if (axes.empty()) return value;
    int& sum = sums_.try_emplace(value, -1).first->second;
    if (sum >= 0) return sum;
    node.op = &ops::all_reduce;
    node.attributes = {{"axes", axes}};
    node.name = result_.graph.producer(value).name + ".all_reduce";
    node.layer = result_.graph.producer(value).layer;
    return sum = append_reshard(result_, value, whole, result_.mesh_index(value), node);
  }

  /// Inputs that no part reads, such as the step's number under SGD: they are given all the same.
  void append_unread_inputs(const Graph& whole) {
    for (const Input& input : whole.inputs) {
      if (find_input(result_.graph, input.kind, input.name) != nullptr) continue;
      Node node = whole.producer(input.value);
      node.results = {
          add_value(result_, whole.type(input.value), 0, ShardingSpec::replicated(), 0)};
      result_.graph.inputs.push_back(input);
      result_.graph.inputs.back().value = node.results[0];
      result_.graph.nodes.push_back(std::move(node));
    }
  }

  /// Updates, metrics and outputs.
  void append_takers(int p) {
    const Appending& part = parts_[p];
    const Graph& graph = part.program.graph;
    for (const Update& update : graph.updates) {
      invariant(is_here(update.value, p), "no part gives the value of an update");
      result_.graph.updates.push_back({part.values[update.input], part.values[update.value]});
    }
    for (const Metric& metric : graph.metrics)
      result_.graph.metrics.push_back({metric.name, part.values[metric.value]});
    for (const Output& output : graph.outputs)
      result_.graph.outputs.push_back({output.name, part.values[output.value]});
  }

  /// Metrics and outputs in the order of the whole graph, which drops what only the parts give.
  void put_in_order(const Graph& whole) {
    const auto keep = [](const auto& wanted, auto& found) {
      std::decay_t<decltype(found)> ordered;
      for (const auto& item : wanted)
        for (const auto& candidate : found)
          if (candidate.name == item.name) ordered.push_back(candidate);
      found = std::move(ordered);
    };
    keep(whole.metrics, result_.graph.metrics);
    keep(whole.outputs, result_.graph.outputs);
  }

  cost::TransferPrices prices_;
  std::vector<Appending> parts_;
  SpmdProgram result_;
  std::map<int, int> sums_;  ///< by partial value of the result
};

}  // namespace

int in_flight(const Plan& plan, int stage) {
  if (!plan.schedule) return 1;
  const int count = static_cast<int>(plan.stages.size());
  return pipeline::most_in_flight(*plan.schedule, count - stage - 1, count,
                                  plan.stages[stage].graph.num_micro_batches);
}

SpmdProgram partition(const Graph& graph, const Plan& plan, const Cluster& cluster) {
  if (plan.stages.size() == 1)
    return partition(plan.stages.front().graph, plan.stages.front().plan);
  std::vector<PlannedPart> parts;
  for (const StagePlan& stage : plan.stages) parts.push_back({stage.graph, stage.plan});
  SpmdProgram program = join_stages(graph, parts, cluster);
  for (int stage = 0; stage < static_cast<int>(parts.size()); ++stage)
    program.in_flight.push_back(in_flight(plan, stage));
  return program;
}

SpmdProgram join_stages(const Graph& whole, std::span<const PlannedPart> parts,
                        const Cluster& cluster) {
  return Joining(parts, cluster).run(whole);
}

}  // namespace alpa::spmd
