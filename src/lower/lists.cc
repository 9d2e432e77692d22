// src/lower/lists.cc — the lists of a device, as its schedule asks for them
#include "src/lower/lists.h"

#include <algorithm>

#include "alpa/base/error.h"
#include "src/ir/input.h"
#include "src/pipeline/timeline.h"

namespace alpa::lower {
namespace {

/// A step of one mesh keeps forward and backward together.
Lists unscheduled_lists(int micro_batches) {
  if (micro_batches == 1) return {{"apply"}, {{0, 0}}, {{0, 0, 0}}, {}};
  Lists lists{{"accumulate", "apply"}, {}, {{0, 0, 1}}, {}};
  for (int m = 0; m < micro_batches; ++m) lists.schedule.push_back({0, m});
  lists.schedule.push_back({1, 0});
  return lists;
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

/// The lists of a device in the making.
struct Stages {
  Lists lists;
  std::vector<int> meshes;   ///< of the device
  std::vector<int> weights;  ///< per mesh of the program: its list of weight gradients, or -1
};

/// Values pass from a list to later ones: forward by ascending stage, backward by descending stage.
Stages lists_of_stages(const std::vector<int>& meshes, std::size_t num_meshes, const Runs& runs) {
  Stages stages{{}, meshes, std::vector<int>(num_meshes, -1)};
  Lists& lists = stages.lists;
  lists.of_mesh.assign(num_meshes, {-1, -1, -1});
  const int count = static_cast<int>(meshes.size());
  const auto add = [&](std::string_view name, int chunk) {
    lists.names.push_back(count == 1 ? std::string(name) : fmt::format("{}_{}", name, chunk));
    return lists.apply();
  };
  for (int chunk = 0; chunk < count; ++chunk)
    lists.of_mesh[meshes[chunk]][0] = add("forward", chunk);
  for (int chunk = count; runs_backward(runs) && chunk-- > 0;)
    lists.of_mesh[meshes[chunk]][1] = add("backward", chunk);
  if (any_run(runs, Region::backward, pipeline::GradientPart::weights))
    for (int chunk = count; chunk-- > 0;) stages.weights[meshes[chunk]] = add("weights", chunk);
  lists.names.push_back("apply");
  for (int mesh : meshes) lists.of_mesh[mesh][2] = lists.apply();
  return stages;
}

int list_of(const Stages& stages, const pipeline::RegionRun& run) {
  invariant(run.chunk < static_cast<int>(stages.meshes.size()),
            "schedule: {} of a mesh with {} stages", to_string(run), stages.meshes.size());
  const int mesh = stages.meshes[run.chunk];
  return run.part == pipeline::GradientPart::weights ? stages.weights[mesh]
                                                     : stages.lists.of(run.region, mesh);
}

/// Adds the runs, in which every list but the last one runs once per micro-batch, in order.
void add_runs(const Runs& runs, int micro_batches, Stages& stages) {
  using pipeline::GradientPart;
  Lists& lists = stages.lists;
  invariant(!any_run(runs, Region::backward, GradientPart::all) ||
                !any_run(runs, Region::backward, GradientPart::weights),
            "schedule: some backward runs are whole, some are split");
  std::vector<int> next(lists.names.size());
  for (const pipeline::RegionRun& run : runs) {
    const int list = list_of(stages, run);
    invariant(
        run.micro_batch == next[list]++ && next[lists.apply()] == (&run == &runs.back() ? 1 : 0),
        "schedule: {} is out of order; micro-batches ascend, and apply ends the step",
        to_string(run));
    lists.schedule.push_back({list, run.micro_batch});
  }
  for (int list = 0; list < lists.apply(); ++list)
    invariant(next[list] == micro_batches, "schedule: {} runs of {} for {} micro-batches",
              next[list], lists.names[list], micro_batches);
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

/// Sets `of_node`. `weights` as in Stages; empty if no backward run is split.
void assign_nodes(const spmd::SpmdProgram& program, const std::vector<int>& weights, Lists& lists) {
  const std::vector<bool> awaited = awaited_elsewhere(program.graph);
  for (std::size_t n = 0; n < awaited.size(); ++n) {
    const Node& node = program.graph.nodes[n];
    const int mesh = program.mesh_index(node.results[0]);
    const bool late =
        node.region == Region::backward && !awaited[n] && !weights.empty() && weights[mesh] >= 0;
    lists.of_node.push_back(!lists.has(mesh) ? -1
                            : late           ? weights[mesh]
                                             : lists.of(node.region, mesh));
  }
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

Lists lists_of(const spmd::SpmdProgram& program, int device,
               const pipeline::PipelineSchedule& schedule) {
  const int micro_batches = program.graph.num_micro_batches;
  const std::vector<std::vector<int>> groups = spmd::mesh_groups(program);
  invariant(schedule.size() == (schedule.empty() ? 0 : groups.size()) &&
                (!schedule.empty() || program.meshes.size() == 1),
            "schedule: runs of {} meshes for a program of {}", schedule.size(), groups.size());
  if (schedule.empty()) {
    Lists lists = unscheduled_lists(micro_batches);
    assign_nodes(program, {}, lists);
    return lists;
  }
  const int mesh = spmd::place_of(program, device).mesh;
  const std::size_t group =
      std::find_if(groups.begin(), groups.end(),
                   [mesh](const std::vector<int>& meshes) { return meshes.front() == mesh; }) -
      groups.begin();
  const Runs& runs = schedule[group];
  if (!runs_backward(runs)) require_no_gradients(program.graph);
  Stages stages = lists_of_stages(groups[group], program.meshes.size(), runs);
  add_runs(runs, micro_batches, stages);
  assign_nodes(program, stages.weights, stages.lists);
  return std::move(stages.lists);
}

Transfers::Transfers(const spmd::SpmdProgram& program, const pipeline::PipelineSchedule& schedule)
    : program_(program), chunk_(program.meshes.size()), begins_(program.meshes.size()) {
  const std::vector<std::vector<int>> groups = spmd::mesh_groups(program);
  for (const std::vector<int>& group : groups)
    for (std::size_t chunk = 0; chunk < group.size(); ++chunk)
      chunk_[group[chunk]] = static_cast<int>(chunk);
  const pipeline::Timeline timeline = pipeline::play(schedule);
  for (std::size_t group = 0; group < timeline.meshes.size(); ++group)
    for (const auto& [run, begin, end] : timeline.meshes[group])
      if (run.part != pipeline::GradientPart::weights)
        begins_[groups[group][run.chunk]][static_cast<int>(run.region)].push_back(
            static_cast<int>(begin));
}

int Transfers::lane_of(const Node& transfer) const {
  const int meshes = static_cast<int>(chunk_.size());
  const int from = chunk_[program_.mesh_index(transfer.operands[0])],
            to = chunk_[program_.mesh_index(transfer.results[0])];
  return (from * meshes + to) * 3 + static_cast<int>(transfer.region);
}

int Transfers::slots_of(const Node& transfer) const {
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
