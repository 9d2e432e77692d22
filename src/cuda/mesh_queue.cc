// src/cuda/mesh_queue.cc — queues the instructions of one mesh's devices
#include "mesh_queue.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>

#include "alpa/base/error.h"
#include "ranges.h"
#include "status.h"
#include "wait_until_done.h"
#include "watch.h"

namespace alpa::cuda {
namespace {

using Kind = lower::Instruction::Kind;

/// Bytes in the ring formulas: those of the operands; for all_gather, of the results.
std::int64_t payload_bytes(const Operation& operation) {
  const bool result = gathers(operation.instruction->call.kind);
  std::int64_t bytes = 0;
  for (const KernelTensor& tensor : result ? operation.call.outputs : operation.call.inputs)
    bytes += tensor.type.bytes();
  return bytes;
}

}  // namespace

MeshQueue::MeshQueue(LoadedDevices& devices, const std::vector<int>& mesh, std::vector<int> members,
                     bool few, const MakeGroup& make_group, Waiting waiting)
    : devices_(devices),
      members_(std::move(members)),
      few_(few),
      waiting_(std::move(waiting)),
      cursors_(members_.size()) {
  std::vector<const lower::DeviceProgram*> programs;
  for (const int index : mesh) {
    programs.push_back(&devices_[index]->program());
    invariant(programs.back()->schedule == programs[0]->schedule,
              "devices {} and {} of a mesh have different schedules", programs[0]->device,
              programs.back()->device);
  }
  for (int list = 0; list < static_cast<int>(programs[0]->lists.size()); ++list)
    add_segments(segments_of(programs, list, few), mesh);
  for (std::size_t m = 0; m < members_.size(); ++m) join_groups(m, make_group);
  name_ = fmt::format("stage {}", programs[0]->mesh);
  for (const lower::ListRun& run : schedule())
    names_[{run.list, run.micro_batch}] =
        fmt::format("{}, micro-batch {}", programs[0]->lists[run.list].name, run.micro_batch);
}

void MeshQueue::wait_for(Stream stream) const {
  wait_until_done(
      [&] {
        waiting_.meanwhile();
        return cudaStreamQuery(stream);
      },
      waiting_.still_well);
}

/// Finds the group of every collective of a member, and counts what it exchanges in a step.
void MeshQueue::join_groups(std::size_t member, const MakeGroup& make_group) {
  const lower::DeviceProgram& program = device(member).program();
  for (int list = 0; list < static_cast<int>(program.lists.size()); ++list)
    for (Operation& operation : device(member).list(list)) {
      const Kind kind = operation.instruction->kind;
      if (kind != Kind::collective && kind != Kind::start) continue;
      const lower::CollectiveCall& call = operation.instruction->call;
      Group& group = group_of(call.group, kind == Kind::start, make_group);
      operation.group = static_cast<int>(&group - groups_.data());
      operation.member = static_cast<int>(
          std::find(group.members.begin(), group.members.end(), static_cast<int>(member)) -
          group.members.begin());
      comm::Count& count = group.counts[operation.member][call.kind];
      count.calls += lower::runs_of(program, list);
      count.payload_bytes += lower::runs_of(program, list) * payload_bytes(operation);
    }
}

MeshQueue::Group& MeshQueue::group_of(const std::vector<int>& devices, bool overlapped,
                                      const MakeGroup& make_group) {
  for (Group& group : groups_)
    if (group.devices == devices && group.overlapped == overlapped) return group;
  groups_.push_back(
      {devices, overlapped, make_group(devices, overlapped, ordinal()), {}, {}, 0, {}, {}, {}});
  Group& group = groups_.back();
  for (std::size_t place = 0; place < devices.size(); ++place)
    if (const std::optional<int> member = member_of(devices[place])) {
      group.members.push_back(*member);
      group.places.push_back(static_cast<int>(place));
    }
  const std::size_t size = group.members.size();
  group.waiting.resize(size);
  group.arrivals.resize(size);
  group.counts.resize(size);
  return group;
}

/// nullopt: the device is on another card.
std::optional<int> MeshQueue::member_of(int id) const {
  for (std::size_t member = 0; member < members_.size(); ++member)
    if (device(member).program().device == id) return static_cast<int>(member);
  return std::nullopt;
}

/// Adds the members' part of the segments of one more list, which are cut for all of the mesh: a
/// wait must not come before a collective that the sender is behind. The list's end is queued after
/// its last work.
void MeshQueue::add_segments(const std::vector<Segment>& of_mesh, const std::vector<int>& mesh) {
  std::vector<Segment> segments(of_mesh.size());
  for (const int index : members_) {
    const auto at = std::find(mesh.begin(), mesh.end(), index) - mesh.begin();
    for (std::size_t s = 0; s < segments.size(); ++s) {
      segments[s].messages.push_back(of_mesh[s].messages[at]);
      segments[s].work.push_back(of_mesh[s].work[at]);
    }
  }
  std::vector<bool> has_work;
  for (const Segment& segment : segments)
    has_work.push_back(std::any_of(segment.work.begin(), segment.work.end(),
                                   [](const std::vector<int>& work) { return !work.empty(); }));
  if (std::find(has_work.begin(), has_work.end(), true) == has_work.end()) has_work.front() = true;
  segments_.push_back(std::move(segments));
  has_work_.push_back(std::move(has_work));
}

int MeshQueue::slots(int list) const {
  int slots = 1;
  for (std::size_t m = 0; m < members_.size(); ++m) slots = std::lcm(slots, device(m).slots(list));
  return slots;
}

bool MeshQueue::begins_clear() const {
  return std::all_of(members_.begin(), members_.end(),
                     [&](int index) { return devices_[index]->begins_clear(); });
}

void MeshQueue::fork(Stream stream, cudaEvent_t event) const {
  check(cudaEventRecord(event, stream), "cudaEventRecord");
  for (std::size_t m = 0; m < members_.size(); ++m) device(m).fork(stream, event);
}

void MeshQueue::join(Stream stream) const {
  for (std::size_t m = 0; m < members_.size(); ++m) device(m).join(stream);
}

void MeshQueue::queue_clearing(bool checked) const {
  for (std::size_t m = 0; m < members_.size(); ++m) try {
      check(cudaSetDevice(device(m).card().ordinal), "cudaSetDevice");
      device(m).queue_clearing();
      if (checked) wait_for(device(m).compute());
    } catch (...) {
      blame_on(fmt::format("device {}: clearing of the accumulators", device(m).program().device));
    }
}

void MeshQueue::rewind(const lower::ListRun& run) {
  run_ = run;
  for (std::size_t m = 0; m < members_.size(); ++m) device(m).place_list(run);
  for (Group& group : groups_) {
    group.met = 0;
    for (auto& waiting : group.waiting) waiting.clear();
    std::fill(group.arrivals.begin(), group.arrivals.end(), 0);
  }
}

void MeshQueue::queue(const lower::ListRun& run, std::size_t segment, bool checked) {
  if (!(run == run_) || segment <= segment_) rewind(run);
  segment_ = segment;
  std::fill(cursors_.begin(), cursors_.end(), Cursor{});
  queue_work(segments_[run.list][segment].work, checked);
  const std::vector<bool>& has_work = has_work_[run.list];
  if (std::find(has_work.begin() + static_cast<std::ptrdiff_t>(segment) + 1, has_work.end(),
                true) == has_work.end())
    finish(run.list, checked);
}

void MeshQueue::queue_work(const std::vector<std::vector<int>>& work, bool checked) {
  for (bool done = false; !done;) {
    bool moved = false;
    done = true;
    for (std::size_t m = 0; m < members_.size(); ++m) {
      moved = advance(m, work[m], checked) || moved;
      done = done && cursors_[m].at == work[m].size();
    }
    invariant(done || moved,
              "the devices' programs deadlock: each waits for another in a collective");
  }
}

/// Ends a list: queues what follows its work.
void MeshQueue::finish(int list, bool checked) {
  for (std::size_t m = 0; m < members_.size(); ++m) try {
      check(cudaSetDevice(device(m).card().ordinal), "cudaSetDevice");
      device(m).queue_next(list);
      if (list == schedule().back().list) {
        device(m).queue_metrics();
        device(m).queue_last_mark();
      }
      if (checked) wait_for(device(m).compute());
    } catch (...) {
      const lower::DeviceProgram& program = device(m).program();
      blame_on(
          fmt::format("device {}: end of list \"{}\"", program.device, program.lists[list].name));
    }
}

/// Queues what a member has to do until it waits for others. Returns true if there was something.
bool MeshQueue::advance(std::size_t member, const std::vector<int>& work, bool checked) {
  check(cudaSetDevice(device(member).card().ordinal), "cudaSetDevice");
  Cursor& cursor = cursors_[member];
  bool moved = false;
  LayerRange layers;
  while (cursor.at < work.size()) {
    const bool arrived = cursor.arrived;
    Operation& operation = device(member).list(run_.list)[work[cursor.at]];
    if (!std::exchange(cursor.marked, true))
      device(member).queue_mark(run_.list, work[cursor.at], device(member).compute());
    layers.enter(device(member).node_of(operation).layer);
    const Range range(device(member).node_of(operation).name);
    device(member).times().begin(run_, work[cursor.at]);
    if (!pass(member, operation, checked)) return moved || cursor.arrived != arrived;
    device(member).times().end(run_, work[cursor.at]);
    cursor.marked = cursor.arrived = false;
    moved = true;
    ++cursor.at;
  }
  return moved;
}

/// Queues one operation. Returns false if others must come first.
bool MeshQueue::pass(std::size_t member, Operation& operation, bool checked) {
  LoadedDevice& own = device(member);
  Cursor& cursor = cursors_[member];
  switch (operation.instruction->kind) {
    case Kind::collective:
      if (!cursor.arrived) arrive(member, operation, checked);
      cursor.arrived = true;
      return groups_[operation.group].met > operation.meeting;
    case Kind::start:
      at(member, operation,
         [&] { check(cudaEventRecord(operation.done.get(), own.compute()), "cudaEventRecord"); });
      arrive(member, operation, checked);
      return true;
    case Kind::wait: {
      const Operation& started = own.list(run_.list)[operation.instruction->awaits];
      if (groups_[started.group].met <= started.meeting) return false;
      if (!is_in_segment(member, operation.instruction->awaits)) return true;
      at(member, operation, [&] {
        check(cudaStreamWaitEvent(own.compute(), started.done.get(), 0), "cudaStreamWaitEvent");
      });
      return true;
    }
    default:
      at(member, operation, [&] {
        own.queue(operation);
        if (checked) wait_for(own.stream_of(operation));
      });
      return true;
  }
}

/// Collectives started in earlier segments are complete where a captured segment begins.
bool MeshQueue::is_in_segment(std::size_t member, int position) const {
  const std::vector<int>& work = segments_[run_.list][segment_].work[member];
  return !few_ || std::find(work.begin(), work.end(), position) != work.end();
}

void MeshQueue::arrive(std::size_t member, Operation& operation, bool checked) {
  Group& group = groups_[operation.group];
  operation.meeting = group.arrivals[operation.member]++;
  group.waiting[operation.member].push_back(&operation);
  at(member, operation, [&] { meet_all(group, checked); });
}

/// Queues the collectives of a group that all members here have reached.
void MeshQueue::meet_all(Group& group, bool checked) {
  while (std::none_of(group.waiting.begin(), group.waiting.end(),
                      [](const auto& waiting) { return waiting.empty(); }))
    meet(group, checked);
}

/// Queues the oldest collective of a group.
void MeshQueue::meet(Group& group, bool checked) {
  std::vector<Member> members;
  std::vector<Operation*> operations;
  for (std::size_t m = 0; m < group.members.size(); ++m) {
    Operation* operation = group.waiting[m].front();
    const LoadedDevice& own = device(group.members[m]);
    members.push_back({group.places[m], group.overlapped ? own.communication() : own.compute(),
                       &operation->call});
    operations.push_back(operation);
  }
  if (group.overlapped)
    for (std::size_t m = 0; m < members.size(); ++m)
      begin_started(device(group.members[m]), *operations[m]);
  group.collectives->queue(operations[0]->instruction->call, members);
  for (std::size_t m = 0; m < members.size(); ++m) {
    group.waiting[m].pop_front();
    if (group.overlapped) finish_started(device(group.members[m]), *operations[m]);
    if (checked) wait_for(members[m].stream);
  }
  ++group.met;
}

/// The communication stream waits for where the collective was started. Not before that is queued:
/// earlier collectives, which may still wait for members, would wait for it, too.
void MeshQueue::begin_started(LoadedDevice& own, const Operation& started) const {
  check(cudaStreamWaitEvent(own.communication(), started.done.get(), 0), "cudaStreamWaitEvent");
  own.times().begin_beside(run_, own.position_of(started, run_.list), own.communication());
}

/// Marks the end of a collective on the communication stream.
void MeshQueue::finish_started(LoadedDevice& own, const Operation& started) const {
  own.times().end_beside(run_, own.position_of(started, run_.list), own.communication());
  check(cudaEventRecord(started.done.get(), own.communication()), "cudaEventRecord");
}

template <class Body>
void MeshQueue::at(std::size_t member, const Operation& operation, Body&& body) const {
  try {
    body();
  } catch (...) {
    device(member).blame(operation, run_.micro_batch);
  }
}

void MeshQueue::check_health() {
  for (Group& group : groups_) group.collectives->check_health();
}

void MeshQueue::abort() noexcept {
  for (Group& group : groups_) group.collectives->abort();
}

std::vector<std::pair<int, comm::Counts>> MeshQueue::counts(int index) const {
  std::vector<std::pair<int, comm::Counts>> counts;
  for (const Group& group : groups_)
    for (std::size_t m = 0; m < group.members.size(); ++m)
      if (members_[group.members[m]] == index)
        counts.emplace_back(static_cast<int>(group.devices.size()), group.counts[m]);
  return counts;
}

}  // namespace alpa::cuda
