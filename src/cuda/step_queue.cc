// src/cuda/step_queue.cc — queues the schedules of all meshes in turns
#include "step_queue.h"

#include <algorithm>

#include "alpa/base/error.h"
#include "captured_step.h"
#include "ranges.h"
#include "status.h"
#include "wait_until_done.h"

namespace alpa::cuda {
namespace {

/// Places of the devices of each mesh.
std::vector<std::vector<int>> members_of_meshes(const LoadedDevices& devices) {
  std::map<int, std::vector<int>> members;
  for (int index = 0; index < static_cast<int>(devices.size()); ++index)
    members[devices[index]->program().mesh].push_back(index);
  std::vector<std::vector<int>> result;
  for (auto& [mesh, indices] : members) result.push_back(std::move(indices));
  return result;
}

}  // namespace

StepQueue::StepQueue(LoadedDevices& devices, bool captures, const MeshQueue::MakeGroup& make_group,
                     const Lanes::MakeChannel& make_channel, StillWell still_well)
    : devices_(devices),
      still_well_(std::move(still_well)),
      lanes_(devices, make_channel, still_well_) {
  for (std::vector<int>& members : members_of_meshes(devices)) {
    check(cudaSetDevice(devices[members[0]]->card().ordinal), "cudaSetDevice");
    mesh_begun_.push_back(make_event());
    mesh_done_.push_back(make_event());
    meshes_.push_back(std::make_unique<MeshQueue>(devices, std::move(members), captures, make_group,
                                                  still_well_));
  }
  check(cudaSetDevice(devices[meshes_[0]->members()[0]]->card().ordinal), "cudaSetDevice");
  begun_ = make_event();
}

void StepQueue::queue(bool checked) {
  for (const auto& mesh : meshes_) mesh->fork(origin(), begun_.get());
  for (const auto& mesh : meshes_) mesh->queue_clearing(checked);
  walk(nullptr, checked);
  for (const auto& mesh : meshes_) mesh->join(origin());
  lanes_.join(origin());
}

void StepQueue::launch(StepGraphs& graphs) {
  for (std::size_t m = 1; m < meshes_.size(); ++m)
    order(origin(), begun_.get(), meshes_[m]->origin());
  for (std::size_t m = 0; m < meshes_.size(); ++m) {
    MeshQueue& mesh = *meshes_[m];
    if (mesh.begins_clear()) continue;
    mesh.fork(mesh.origin(), mesh_begun_[m].get());
    mesh.queue_clearing(false);
    mesh.join(mesh.origin());
  }
  walk(&graphs, false);
  for (std::size_t m = 1; m < meshes_.size(); ++m)
    order(meshes_[m]->origin(), mesh_done_[m].get(), origin());
  lanes_.join(origin());
}

void StepQueue::walk(StepGraphs* graphs, bool checked) {
  lanes_.begin_step();
  cursors_.clear();
  for (const auto& mesh : meshes_)
    cursors_.push_back({0, 0, false, std::vector<std::size_t>(mesh->members().size())});
  wait_until_done([&] { return walk_on(graphs, checked) ? cudaSuccess : cudaErrorNotReady; },
                  still_well_);
}

/// Queues what can be. Returns true at the end, false if the rest waits for other processes.
bool StepQueue::walk_on(StepGraphs* graphs, bool checked) {
  for (;;) {
    bool moved = lanes_.meet_begun(), done = true;
    for (std::size_t m = 0; m < meshes_.size(); ++m) {
      moved = advance(static_cast<int>(m), graphs, checked) || moved;
      done = done && cursors_[m].run == meshes_[m]->schedule().size();
    }
    const bool waits = lanes_.waits() || std::any_of(cursors_.begin(), cursors_.end(),
                                                     [](const Cursor& at) { return at.waits; });
    if (waits && (done || !moved)) return false;
    if (done) return true;
    invariant(moved, "the meshes' schedules deadlock: each waits for another's message");
  }
}

/// Queues what a mesh has to do until it waits for others. Returns true if there was something.
bool StepQueue::advance(int mesh, StepGraphs* graphs, bool checked) {
  const std::vector<lower::ListRun>& schedule = meshes_[mesh]->schedule();
  Cursor& cursor = cursors_[mesh];
  bool moved = false;
  while (cursor.run < schedule.size()) {
    const lower::ListRun& run = schedule[cursor.run];
    const Range stage(meshes_[mesh]->name()), of_run(meshes_[mesh]->name_of(run));
    if (!pass_messages(mesh, run, graphs != nullptr, checked, moved)) return moved;
    cursor.waits =
        meshes_[mesh]->has_work(run, cursor.segment) && !work(mesh, run, graphs, checked);
    if (cursor.waits) return moved;
    std::fill(cursor.messages.begin(), cursor.messages.end(), 0);
    moved = true;
    if (++cursor.segment < meshes_[mesh]->segments(run).size()) continue;
    cursor.segment = 0;
    ++cursor.run;
  }
  return moved;
}

/// Returns false if a member waits for a message that the other side has not reached.
bool StepQueue::pass_messages(int mesh, const lower::ListRun& run, bool captured, bool checked,
                              bool& moved) {
  Cursor& cursor = cursors_[mesh];
  const std::vector<int>& members = meshes_[mesh]->members();
  const Segment& segment = meshes_[mesh]->segments(run)[cursor.segment];
  bool all = true;
  for (std::size_t m = 0; m < members.size(); ++m) {
    const std::vector<Operation>& list = devices_[members[m]]->list(run.list);
    for (std::size_t& at = cursor.messages[m]; at < segment.messages[m].size(); ++at, moved = true)
      if (!lanes_.pass(members[m], run, list[segment.messages[m][at]], members[captured ? 0 : m],
                       checked)) {
        all = false;
        break;
      }
  }
  return all;
}

/// Returns false if the segment waits for other processes.
bool StepQueue::work(int mesh, const lower::ListRun& run, StepGraphs* graphs, bool checked) {
  MeshQueue& queue = *meshes_[mesh];
  const std::size_t segment = cursors_[mesh].segment;
  if (graphs == nullptr) return queue.queue(run, segment, checked);
  GraphExec& graph = (*graphs)[{mesh, run.list, run.micro_batch % queue.slots(run.list),
                                static_cast<int>(segment)}];
  check(cudaSetDevice(devices_[queue.members()[0]]->card().ordinal), "cudaSetDevice");
  if (!graph)
    graph = capture(queue.origin(), [&] {
      queue.fork(queue.origin(), mesh_begun_[mesh].get());
      invariant(queue.queue(run, segment, false), "a captured collective waits for a process");
      queue.join(queue.origin());
    });
  check(cudaGraphLaunch(graph.get(), queue.origin()), "cudaGraphLaunch");
  return true;
}

void StepQueue::check_health() {
  for (const auto& mesh : meshes_) mesh->check_health();
  lanes_.check_health();
}

void StepQueue::abort() noexcept {
  for (const auto& mesh : meshes_) mesh->abort();
  lanes_.abort();
}

std::vector<std::pair<int, comm::Counts>> StepQueue::counts(int index) const {
  std::vector<std::pair<int, comm::Counts>> counts;
  for (const auto& mesh : meshes_)
    for (auto& of_group : mesh->counts(index)) counts.push_back(std::move(of_group));
  if (!lanes_.empty()) counts.emplace_back(2, lanes_.counts(index));
  return counts;
}

}  // namespace alpa::cuda
