// src/compile/follow.cc — compiles a step along the plan of another one, stage by stage
#include "follow.h"

#include <algorithm>
#include <set>

#include "alpa/base/error.h"
#include "src/base/timing.h"
#include "src/ir/input.h"
#include "src/search/sharding/follow.h"
#include "src/search/stages/cut_stages.h"
#include "trace.h"

namespace alpa {
namespace {

/// Throws Error if a stage reads state that the leader has in another one.
void require_same_stages(const std::vector<StagePlan>& leader,
                         const std::vector<StagePlan>& stages) {
  const auto has = [](const StagePlan& stage, const std::string& name) {
    return find_input(stage.graph, InputKind::state, name) != nullptr;
  };
  for (std::size_t s = 0; s < stages.size(); ++s)
    for (const Input& input : stages[s].graph.inputs)
      for (std::size_t other = 0; input.kind == InputKind::state && other < leader.size(); ++other)
        require(has(leader[s], input.name) || !has(leader[other], input.name),
                "a step that shares the state of another reads \"{}\" in stage {}, but it is in "
                "stage {} there; mark layers alike in both (mark_pipeline_boundary), or let the "
                "other step be the first",
                input.name, s, other);
}

/// Throws Error if the step reads a kernel without the adapter that the leader has for it: it would
/// compute what was there before the adapter was trained.
void require_adapters(const Graph& leader, const Graph& graph) {
  constexpr std::string_view kAdapter = ".lora_a";
  for (const Input& input : leader.inputs) {
    if (!input.name.ends_with(kAdapter)) continue;
    const std::string layer = input.name.substr(0, input.name.size() - kAdapter.size());
    require(!find_state(graph, layer + ".kernel") || find_state(graph, input.name),
            "\"{}\" is adapted by the trained step, but not by the one that follows it; give "
            "EvaluationOptions::lora what StepOptions::lora is",
            layer);
  }
}

Plan follow(const Plan& leader, const Graph& graph, const cost::CostModel& model) {
  Plan plan{.method = kFollow,
            .stages = stages_with_layers_of(leader.stages),
            .schedule = leader.schedule};
  cut_into_stages(graph, plan.stages);
  require_same_stages(leader.stages, plan.stages);
  for (std::size_t s = 0; s < plan.stages.size(); ++s)
    plan.stages[s].plan = intra_op::follow({leader.stages[s].graph, leader.stages[s].plan},
                                           plan.stages[s].graph, model);
  if (!plan.schedule) plan.cost = plan.sharding().cost;
  return plan;
}

/// The step in so many micro-batches, within `budget` bytes. Stages keep at most `at_once`
/// micro-batches in flight; 0: as many as the schedule does.
CompiledStep follow(const FollowRequest& request, int micro_batches, int at_once,
                    std::int64_t budget, const PassLog& log) {
  const Stopwatch watch;
  const LoweringTarget target{request.cluster, request.method.options.executor, budget, log,
                              &request.state};
  const Graph graph =
      log.check("graph.txt", trace_following(request.leader, request.step, micro_batches));
  require_adapters(request.leader.graph, graph);
  cost::CostModel model = target.model;
  model.reshard.fixed_sums = target.options.reproducible;
  Plan plan = follow(request.leader.plan, graph, model);
  plan.at_once = at_once;
  CompiledStep planned = request.lower(graph, std::move(plan), target);
  planned.seconds = watch.seconds();
  return planned;
}

/// The number of micro-batches of a batch of `rows` rows, 1 to `whole_rows`: the fewest of equally
/// many rows of which none has more rows than one of the whole batch's `whole_parts`. What depends
/// on them (dropout, batch normalisation, means over labels that count, capacity of experts) thus
/// depends on these numbers alone, and on no plan. Where no small number divides `rows` there are
/// many: of 64 rows in 4, 60 become 4 micro-batches of 15 rows, 59 become 59 of one row.
int micro_batches_of_short_batch(std::int64_t rows, std::int64_t whole_rows, int whole_parts) {
  const std::int64_t most = whole_rows / whole_parts;  // rows of a micro-batch
  std::int64_t parts = (rows + most - 1) / most;
  while (rows % parts != 0) ++parts;
  return static_cast<int>(parts);
}

/// The number of micro-batches of a step beside one that has `parts`.
int micro_batches_beside(const TrainingStep& step, int parts) {
  const auto batched = std::ranges::find_if(step.inputs, &BatchInput::batched);
  const std::int64_t rows = batched->type.shape[0];
  while (parts < rows && rows % parts != 0) ++parts;
  return static_cast<int>(std::min<std::int64_t>(parts, rows));
}

/// A state of a step: its input, and the node and type of its value.
struct State {
  Input input;
  Node node;
  TensorType type;
};

/// Adds to `states` what `graph` updates, and the owners of such states, each once.
void add_updated(const Graph& graph, std::vector<State>& states) {
  std::set<std::string> names;
  for (const Update& update : graph.updates)
    if (const Input* input = find_input(graph, update.input); input->kind == InputKind::state) {
      names.insert(input->name);
      if (!input->of.empty()) names.insert(input->of);
    }
  for (const State& known : states) names.erase(known.input.name);
  for (const Input& input : graph.inputs)
    if (input.kind == InputKind::state && names.contains(input.name) && !is_unset(graph, input))
      states.push_back({input, graph.producer(input.value), graph.type(input.value)});
}

Graph with_states(Graph graph, const std::vector<State>& states) {
  for (const auto& [input, node, type] : states) {
    const int value = static_cast<int>(graph.values.size());
    graph.values.push_back({type, static_cast<int>(graph.nodes.size())});
    graph.nodes.push_back(node);
    graph.nodes.back().results = {value};
    graph.nodes.back().layer = -1;
    graph.inputs.push_back(input);
    graph.inputs.back().value = value;
  }
  return graph;
}

TrainingStep with_states(const TrainingStep& step, const std::vector<State>& states) {
  TrainingStep result = step;
  result.trace = [=](const TraceOptions& tracing) {
    return with_states(step.trace(tracing), states);
  };
  if (step.with_batch)
    result.with_batch = [=](std::int64_t rows) {
      return with_states(step.with_batch(rows), states);
    };
  return result;
}

}  // namespace

TrainingStep with_states_of(const TrainingStep& first, std::span<const TrainingStep> followers) {
  std::vector<State> states;
  for (const TrainingStep& step : followers) add_updated(step.trace(1), states);
  if (states.empty()) return first;
  const Graph own = first.trace(1);
  std::erase_if(states, [&](const State& s) { return find_state(own, s.input.name) != nullptr; });
  return states.empty() ? first : with_states(first, states);
}

CompiledStep follow(const FollowRequest& request, std::size_t number) {
  const std::string& dumps = request.method.options.dump_dir;
  const std::int64_t budget = memory_budget(request.method, request.cluster);
  CompiledStep planned =
      follow(request, micro_batches_beside(request.step, request.leader.graph.num_micro_batches), 0,
             budget, PassLog(dumps.empty() ? "" : fmt::format("{}/step{}", dumps, number)));
  require(planned.memory_bytes <= budget,
          "step {} needs {} bytes per device with the state it shares, {} more than the memory "
          "budget of {}; give it a smaller batch, or raise the budget",
          number, planned.memory_bytes, planned.memory_bytes - budget, budget);
  return planned;
}

CompiledStep follow_later(const FollowRequest& request) {
  const std::int64_t budget = memory_budget(request.method, request.cluster);
  CompiledStep planned = follow(request, 1, 0, budget, PassLog(""));
  require(
      planned.memory_bytes <= budget,
      "a step that follows needs {} bytes per device with the state it shares, {} more than the "
      "memory budget of {}; give it a smaller batch, or raise the budget",
      planned.memory_bytes, planned.memory_bytes - budget, budget);
  return planned;
}

CompiledStep follow_in_short_batch(const FollowRequest& request, std::int64_t rows,
                                   std::int64_t whole_rows, std::int64_t room) {
  const int parts = request.leader.graph.num_micro_batches;
  const std::int64_t budget = std::max(room, memory_budget(request.method, request.cluster));
  CompiledStep planned = follow(request, micro_batches_of_short_batch(rows, whole_rows, parts),
                                parts, room, PassLog(""));
  require(
      planned.memory_bytes <= budget,
      "a batch of {} rows needs {} bytes per device, {} more than the memory budget of {}; leave "
      "it out (BatchOptions::drop_last), choose a batch that divides the data, or raise the "
      "budget",
      rows, planned.memory_bytes, planned.memory_bytes - budget, budget);
  return planned;
}

}  // namespace alpa
