// src/spmd/partition.cc — inserts the plan's reshards as nodes
#include <algorithm>
#include <map>
#include <utility>

#include "alpa/base/error.h"
#include "rewrite.h"
#include "src/ir/input.h"
#include "src/ir/op_def.h"
#include "src/plan/facts/graph_facts.h"
#include "src/spmd/program.h"

namespace alpa::spmd {
namespace {

class Partitioner {
 public:
  Partitioner(const Graph& graph, const ShardingPlan& plan)
      : graph_(graph),
        plan_(plan),
        value_of_(graph.values.size(), -1),
        reshards_of_(graph.values.size()),
        facts_(graph) {
    for (int r = 0; r < static_cast<int>(plan.reshards.size()); ++r)
      reshards_of_[plan.reshards[r].value].push_back(r);
    program_.meshes = {plan.mesh};
    program_.graph.num_micro_batches = graph.num_micro_batches;
  }

  SpmdProgram run() && {
    for (int n = 0; n < static_cast<int>(graph_.nodes.size()); ++n) {
      if (enters_apply(n)) settle_waiting();
      add_node(n);
      for (int value : graph_.nodes[n].results) {
        add_once(value);
        settle(value, graph_.nodes[n].region);
      }
    }
    settle_waiting();
    for (const Input& input : graph_.inputs)
      program_.graph.inputs.push_back(input),
          program_.graph.inputs.back().value = value_of_[input.value];
    for (int u = 0; u < static_cast<int>(graph_.updates.size()); ++u)
      program_.graph.updates.push_back(
          {value_of_[graph_.updates[u].input], settled_.at({UseKind::update, u})});
    for (int m = 0; m < static_cast<int>(graph_.metrics.size()); ++m)
      program_.graph.metrics.push_back({graph_.metrics[m].name, settled_.at({UseKind::metric, m})});
    for (int o = 0; o < static_cast<int>(graph_.outputs.size()); ++o)
      program_.graph.outputs.push_back({graph_.outputs[o].name, settled_.at({UseKind::output, o})});
    return std::move(program_);
  }

 private:
  bool enters_apply(int n) const {
    return graph_.nodes[n].region == Region::apply &&
           (n == 0 || graph_.nodes[n - 1].region != Region::apply);
  }

  void add_node(int n) {
    const Node& node = graph_.nodes[n];
    const Rule& rule = facts_.classes.of(n).rule;
    Node copy = node;
    for (int i = 0; i < static_cast<int>(node.operands.size()); ++i) {
      const ShardingSpec wanted = intra_op::operand_spec(rule, plan_.strategies[n], plan_.mesh, i);
      copy.operands[i] =
          in_spec(node.operands[i], wanted, {UseKind::node, n}, node.region, node.layer);
    }
    for (int& value : copy.results) {
      value_of_[value] = add_value(program_, graph_.type(value), graph_.values[value].index,
                                   plan_.specs[value], 0);
      value = value_of_[value];
    }
    program_.graph.nodes.push_back(std::move(copy));
  }

  /// The copies of a value that are made before the micro-batches.
  void add_once(int value) {
    for (int r : reshards_of_[value]) {
      const PlannedReshard& reshard = plan_.reshards[r];
      if (!reshard.once) continue;
      const std::size_t first = program_.graph.nodes.size();
      resharded_[{r, false}] =
          add_path(value_of_[value], reshard.path, Region::forward, layer_of(reshard.uses.front()));
      for (std::size_t n = first; n < program_.graph.nodes.size(); ++n)
        program_.graph.nodes[n].attributes.set(std::string(kOnce), std::int64_t{1});
    }
  }

  int layer_of(UseId use) const {
    return use.kind == UseKind::node ? graph_.nodes[use.index].layer : -1;
  }

  bool once_per_step(Region region) const {
    return region == Region::apply && graph_.num_micro_batches > 1;
  }

  /// Value `value` as `use` wants it, resharded if the plan says so.
  int in_spec(int value, const ShardingSpec& wanted, UseId use, Region region, int layer) {
    // Region apply reads an updated accumulator as the accumulator holds it: the value itself
    // belongs to the last micro-batch.
    const bool accumulated = once_per_step(region) && facts_.accumulators[value] >= 0;
    const int source = accumulated ? taken_.at(value) : value_of_[value];
    if (program_.specs[source] == wanted) return source;
    const int reshard = planned_reshard(value, program_.specs[source], wanted, use);
    int& done = resharded_.try_emplace({reshard, once_per_step(region)}, -1).first->second;
    if (done < 0) done = add_path(source, plan_.reshards[reshard].path, region, layer);
    return done;
  }

  int planned_reshard(int value, const ShardingSpec& from, const ShardingSpec& wanted,
                      UseId use) const {
    for (int r : reshards_of_[value]) {
      const PlannedReshard& reshard = plan_.reshards[r];
      if (std::find(reshard.uses.begin(), reshard.uses.end(), use) == reshard.uses.end()) continue;
      if (reshard.path.steps.back().to == wanted) return r;
    }
    bug("partition: the plan has no reshard of \"{}\" from {} to {} for use {}",
        graph_.producer(value).name, to_string(from), to_string(wanted), use.index);
  }

  int add_path(int value, const ReshardPath& path, Region region, int layer) {
    const std::string name = value_name(value);
    for (const ReshardStep& step : path.steps) value = add_step(value, step, name, region, layer);
    return value;
  }

  int add_step(int value, const ReshardStep& step, const std::string& name, Region region,
               int layer) {
    Node node;
    node.op = &reshard_op(step.kind);
    node.attributes = attributes_of(step);
    node.name = name + "." + std::string(node.op->name);
    node.region = region;
    node.layer = layer;
    return append_reshard(program_, value, step.to, 0, std::move(node));
  }

  std::string value_name(int value) const {
    const ValueInfo& info = program_.graph.values[value];
    const Node& producer = program_.graph.nodes[info.producer];
    return producer.results.size() > 1 ? fmt::format("{}.{}", producer.name, info.index)
                                       : producer.name;
  }

  /// Updates, metrics and outputs read a value as soon as it is computed; with several
  /// micro-batches those of region apply wait for it.
  void settle(int value, Region region) {
    for (const intra_op::Use& use : facts_.uses[value]) {
      if (use.id.kind == UseKind::node || settled_.count(use.id)) continue;
      const Region taken_in = region_of_use(graph_, use.id);
      if (region != Region::apply && once_per_step(taken_in)) {
        waiting_.push_back(value);
        continue;
      }
      const int taken =
          in_spec(value, intra_op::wanted_spec(facts_, plan_, use), use.id, region, -1);
      settled_[use.id] = taken;
      if (use.id.kind == UseKind::update && taken_in != Region::apply) taken_[value] = taken;
    }
  }

  void settle_waiting() {
    for (int value : std::exchange(waiting_, {})) settle(value, Region::apply);
  }

  const Graph& graph_;
  const ShardingPlan& plan_;
  /// in the program, per value of the graph; -1: not yet
  std::vector<int> value_of_;
  std::vector<std::vector<int>> reshards_of_;  ///< per value, indices into the plan's
  const intra_op::GraphFacts facts_;
  /// by planned reshard and whether in apply: the result
  std::map<std::pair<int, bool>, int> resharded_;
  std::map<UseId, int> settled_;  ///< by use that that is not a node's: value of the program
  std::vector<int> waiting_;      ///< values whose updates or metrics wait for region apply
  std::map<int, int> taken_;      ///< by value that updates an accumulator: value of the program
  SpmdProgram program_;
};

}  // namespace

SpmdProgram partition(const Graph& graph, const ShardingPlan& plan) {
  return Partitioner(graph, plan).run();
}

}  // namespace alpa::spmd
