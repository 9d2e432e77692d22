// src/lower/lists.cc — the lists of a device, as its schedule asks for them
#include "src/lower/lists.h"

#include <algorithm>

#include "alpa/base/error.h"
#include "src/ir/input.h"
#include "src/plan/schedules/timeline.h"

namespace alpa::lower {
namespace {

/// A step of one mesh keeps forward and backward together.
Lists unscheduled_lists(int micro_batches, bool begins) {
  if (micro_batches == 1) return {{{{0}, {"apply"}, {{0, 0}}, {}}}, {0}, {{0, 0, 0}}, {}, {}};
  GroupLists group{.meshes = {0}, .begins = begins};
  if (begins) group.names.emplace_back("begin"), group.schedule.push_back({0, 0});
  group.names.insert(group.names.end(), {"accumulate", "apply"});
  const int apply = group.apply(), accumulate = apply - 1;
  for (int m = 0; m < micro_batches; ++m) group.schedule.push_back({accumulate, m});
  group.schedule.push_back({apply, 0});
  return {{std::move(group)}, {0}, {{accumulate, accumulate, apply}}, {}, {}};
}

using Runs = std::vector<pipeline::RegionRun>;

bool any_run(const Runs& runs, Region region, pipeline::GradientPart part) {
  return std::any_of(runs.begin(), runs.end(), [&](const pipeline::RegionRun& run) {
    return run.region == region && run.part == part;
  });
}

bool runs_backward(const Runs& runs) {
  return std::any_of(runs.begin(), runs.end(),
                     [](const pipeline::RegionRun& run) { return run.region == Region::backward; });
}

/// Per mesh of the program, the list of its weight gradients; -1: none.
using WeightLists = std::vector<int>;

/// Values pass from a list to later ones: forward by ascending stage, backward by descending stage.
void add_lists(const Runs& runs, GroupLists& group, Lists& lists, WeightLists& weights) {
  const int count = static_cast<int>(group.meshes.size());
  const auto add = [&](std::string_view name, int chunk) {
    group.names.push_back(count == 1 ? std::string(name) : fmt::format("{}_{}", name, chunk));
    return group.apply();
  };
  if (group.begins) group.names.emplace_back("begin");
  for (int chunk = 0; chunk < count; ++chunk)
    lists.of_mesh[group.meshes[chunk]][0] = add("forward", chunk);
  for (int chunk = count; runs_backward(runs) && chunk-- > 0;)
    lists.of_mesh[group.meshes[chunk]][1] = add("backward", chunk);
  if (any_run(runs, Region::backward, pipeline::GradientPart::weights))
    for (int chunk = count; chunk-- > 0;) weights[group.meshes[chunk]] = add("weights", chunk);
  group.names.push_back("apply");
  for (int mesh : group.meshes) lists.of_mesh[mesh][2] = group.apply();
}

/// Adds the runs, in which every list but the last one, and the first one of a group that has
/// something to do before the micro-batches, runs once per micro-batch, in order.
void add_runs(const Runs& runs, int micro_batches, const Lists& lists, const WeightLists& weights,
              GroupLists& group) {
  using pipeline::GradientPart;
  invariant(!any_run(runs, Region::backward, GradientPart::all) ||
                !any_run(runs, Region::backward, GradientPart::weights),
            "schedule: some backward runs are whole, some are split");
  std::vector<int> next(group.names.size());
  if (group.begins) group.schedule.push_back({0, 0});
  for (const pipeline::RegionRun& run : runs) {
    invariant(run.chunk < static_cast<int>(group.meshes.size()),
              "schedule: {} of a mesh with {} stages", to_string(run), group.meshes.size());
    const int mesh = group.meshes[run.chunk];
    const int list = run.part == GradientPart::weights ? weights[mesh] : lists.of(run.region, mesh);
    invariant(
        run.micro_batch == next[list]++ && next[group.apply()] == (&run == &runs.back() ? 1 : 0),
        "schedule: {} is out of order; micro-batches ascend, and apply ends the step",
        to_string(run));
    group.schedule.push_back({list, run.micro_batch});
  }
  for (int list = group.begins ? 1 : 0; list < group.apply(); ++list)
    invariant(next[list] == micro_batches, "schedule: {} runs of {} for {} micro-batches",
              next[list], group.names[list], micro_batches);
}

/// Per node, whether it is of region backward and a message of that region depends on it, or is
/// one. Readers come after what they read.
std::vector<bool> awaited_elsewhere(const Graph& graph) {
  std::vector<bool> awaited(graph.nodes.size());
  for (std::size_t n = graph.nodes.size(); n-- > 0;) {
    const Node& node = graph.nodes[n];
    if (node.region != Region::backward) continue;
    if (spmd::is_transfer(node)) awaited[n] = true;
    if (!awaited[n]) continue;
    for (int value : node.operands) awaited[graph.values[value].producer] = true;
  }
  return awaited;
}

/// Sets `of_node` and the groups' nodes.
void assign_nodes(const spmd::SpmdProgram& program, const WeightLists& weights, Lists& lists) {
  const std::vector<bool> awaited = awaited_elsewhere(program.graph);
  for (std::size_t n = 0; n < awaited.size(); ++n) {
    const Node& node = program.graph.nodes[n];
    const int mesh = program.mesh_index(node.results[0]);
    const bool late = node.region == Region::backward && !awaited[n] && weights[mesh] >= 0;
    lists.of_node.push_back(lists.once[n] ? 0 : late ? weights[mesh] : lists.of(node.region, mesh));
    const int to = lists.group_of_mesh[mesh];
    const int from =
        spmd::is_transfer(node) ? lists.group_of_mesh[program.mesh_index(node.operands[0])] : to;
    lists.groups[to].nodes.push_back(static_cast<int>(n));
    if (from != to) lists.groups[from].nodes.push_back(static_cast<int>(n));
  }
}

/// Per group, whether it runs something before the micro-batches.
std::vector<bool> groups_that_begin(const spmd::SpmdProgram& program, const std::vector<bool>& once,
                                    const std::vector<std::vector<int>>& groups) {
  std::vector<bool> of_mesh(program.meshes.size()), result;
  for (std::size_t n = 0; n < once.size(); ++n) {
    if (!once[n]) continue;
    const Node& node = program.graph.nodes[n];
    of_mesh[program.mesh_index(node.results[0])] = true;
    for (int value : node.operands) of_mesh[program.mesh_index(value)] = true;
  }
  for (const std::vector<int>& meshes : groups)
    result.push_back(
        std::any_of(meshes.begin(), meshes.end(), [&](int mesh) { return of_mesh[mesh]; }));
  return result;
}

void require_no_gradients(const Graph& graph) {
  for (const Node& node : graph.nodes)
    require(
        node.region != Region::backward || find_input(graph, node.results[0]),
        "schedule inference runs forward only, but the step computes gradients (\"{}\"); choose "
        "a schedule of training, such as 1f1b",
        node.name);
}

}  // namespace

Lists lists_of(const spmd::SpmdProgram& program, const pipeline::PipelineSchedule& schedule) {
  const int micro_batches = program.graph.num_micro_batches;
  const std::vector<std::vector<int>> groups = spmd::mesh_groups(program);
  invariant(schedule.size() == (schedule.empty() ? 0 : groups.size()) &&
                (!schedule.empty() || program.meshes.size() == 1),
            "schedule: runs of {} meshes for a program of {}", schedule.size(), groups.size());
  WeightLists weights(program.meshes.size(), -1);
  Lists lists;
  std::vector<bool> once = spmd::once_before(program);
  const std::vector<bool> begins = groups_that_begin(program, once, groups);
  if (schedule.empty()) lists = unscheduled_lists(micro_batches, begins[0]);
  lists.group_of_mesh.resize(program.meshes.size());
  lists.of_mesh.resize(program.meshes.size(), {-1, -1, -1});
  lists.once = std::move(once);
  for (std::size_t g = 0; g < schedule.size(); ++g) {
    const Runs& runs = schedule[g];
    if (!runs_backward(runs)) require_no_gradients(program.graph);
    GroupLists group{.meshes = groups[g], .begins = begins[g]};
    for (int mesh : group.meshes) lists.group_of_mesh[mesh] = static_cast<int>(g);
    add_lists(runs, group, lists, weights);
    add_runs(runs, micro_batches, lists, weights, group);
    lists.groups.push_back(std::move(group));
  }
  assign_nodes(program, weights, lists);
  return lists;
}

SendSlots::SendSlots(const spmd::SpmdProgram& program, const pipeline::PipelineSchedule& schedule)
    : program_(program), begins_(program.meshes.size()) {
  const std::vector<std::vector<int>> groups = spmd::mesh_groups(program);
  const pipeline::Timeline timeline = pipeline::play(schedule);
  for (std::size_t group = 0; group < timeline.meshes.size(); ++group)
    for (const auto& [run, begin, end] : timeline.meshes[group])
      if (run.part != pipeline::GradientPart::weights)
        begins_[groups[group][run.chunk]][static_cast<int>(run.region)].push_back(
            static_cast<int>(begin));
}

int SendSlots::of(const Node& transfer) const {
  const auto begins = [&](int value) -> const Begins& {
    return begins_[program_.mesh_index(value)][static_cast<int>(transfer.region)];
  };
  const Begins &sends = begins(transfer.operands[0]), &receives = begins(transfer.results[0]);
  int slots = 1;
  for (std::size_t m = 0; m < receives.size(); ++m) {
    const auto begun = std::lower_bound(sends.begin(), sends.end(), receives[m]) - sends.begin();
    slots = std::max(slots, static_cast<int>(begun) - static_cast<int>(m));
  }
  return slots;
}

}  // namespace alpa::lower
