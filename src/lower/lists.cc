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
  if (micro_batches == 1) return {{"apply"}, {{0, 0}}, {{0, 0, 0}}};
  Lists lists{{"accumulate", "apply"}, {}, {{0, 0, 1}}};
  for (int m = 0; m < micro_batches; ++m) lists.schedule.push_back({0, m});
  lists.schedule.push_back({1, 0});
  return lists;
}

bool runs_backward(const std::vector<pipeline::RegionRun>& runs) {
  return std::any_of(runs.begin(), runs.end(),
                     [](const pipeline::RegionRun& run) { return run.region == Region::backward; });
}

/// Values pass from a list to later ones: forward by ascending stage, backward by descending stage.
Lists lists_of_stages(const std::vector<int>& stages, std::size_t meshes, bool backward) {
  Lists lists;
  lists.of_mesh.assign(meshes, {-1, -1, -1});
  const int count = static_cast<int>(stages.size());
  const auto add = [&](Region region, int chunk) {
    lists.of_mesh[stages[chunk]][static_cast<int>(region)] = static_cast<int>(lists.names.size());
    std::string name(name_of(region));
    lists.names.push_back(count == 1 ? name : fmt::format("{}_{}", name, chunk));
  };
  for (int chunk = 0; chunk < count; ++chunk) add(Region::forward, chunk);
  for (int chunk = count; backward && chunk-- > 0;) add(Region::backward, chunk);
  for (int stage : stages) lists.of_mesh[stage][2] = static_cast<int>(lists.names.size());
  lists.names.push_back("apply");
  return lists;
}

/// Adds the runs, in which every list but the last one runs once per micro-batch, in order.
void add_runs(const std::vector<pipeline::RegionRun>& runs, const std::vector<int>& stages,
              int micro_batches, Lists& lists) {
  std::vector<int> next(lists.names.size());
  for (const pipeline::RegionRun& run : runs) {
    invariant(run.chunk < static_cast<int>(stages.size()), "schedule: {} of a mesh with {} stages",
              to_string(run), stages.size());
    const int list = lists.of(run.region, stages[run.chunk]);
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
  if (schedule.empty()) return unscheduled_lists(micro_batches);
  const int mesh = spmd::place_of(program, device).mesh;
  const std::size_t group =
      std::find_if(groups.begin(), groups.end(),
                   [mesh](const std::vector<int>& meshes) { return meshes.front() == mesh; }) -
      groups.begin();
  const std::vector<pipeline::RegionRun>& runs = schedule[group];
  const bool backward = runs_backward(runs);
  if (!backward) require_no_gradients(program.graph);
  Lists lists = lists_of_stages(groups[group], program.meshes.size(), backward);
  add_runs(runs, groups[group], micro_batches, lists);
  return lists;
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
      begins_[groups[group][run.chunk]][static_cast<int>(run.region)].push_back(begin);
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
