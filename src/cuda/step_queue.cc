#include "step_queue.h"

#include <fmt/core.h>

#include <algorithm>

#include "alpa/base/error.h"
#include "alpa/base/exception_text.h"
#include "status.h"

namespace alpa::cuda {
namespace {

using Kind = Instruction::Kind;

void wait_for(Stream stream) { check(cudaStreamSynchronize(stream), "cudaStreamSynchronize"); }

comm::Operation counted_as(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::all_reduce: return comm::Operation::all_reduce;
    case CollectiveKind::reduce_scatter: return comm::Operation::reduce_scatter;
    case CollectiveKind::all_gather: return comm::Operation::all_gather;
    case CollectiveKind::all_to_all: return comm::Operation::all_to_all;
  }
  bug("unknown collective");
}

/// Bytes that a ring's formula is about: the operands, for all_gather the results.
std::int64_t payload_bytes(const Operation& operation) {
  const bool gathers = operation.instruction->call.kind == CollectiveKind::all_gather;
  std::int64_t bytes = 0;
  for (const KernelTensor& tensor : gathers ? operation.call.outputs : operation.call.inputs)
    bytes += tensor.type.bytes();
  return bytes;
}

}  // namespace

StepQueue::StepQueue(const SpmdProgram& program, LoadedDevices& devices, const MakeGroup& make_group)
    : program_(program), devices_(devices), cursors_(devices.size()) {
  for (int rank = 0; rank < static_cast<int>(devices_.size()); ++rank)
    for (const ListRun& run : devices_[rank]->schedule()) join(rank, run, make_group);
}

/// Finds the group of every collective of a list, and counts what the run exchanges.
void StepQueue::join(int rank, const ListRun& run, const MakeGroup& make_group) {
  for (Operation& operation : devices_[rank]->list(run.list)) {
    const Kind kind = operation.instruction->kind;
    if (kind != Kind::collective && kind != Kind::start) continue;
    const CollectiveCall& call = operation.instruction->call;
    Group& group = group_of(numbers_of(call.group), kind == Kind::start, make_group);
    operation.group = static_cast<int>(&group - groups_.data());
    operation.member =
        static_cast<int>(std::find(group.ranks.begin(), group.ranks.end(), rank) - group.ranks.begin());
    comm::Count& count = group.counts[operation.member][static_cast<int>(counted_as(call.kind))];
    ++count.calls;
    count.payload_bytes += payload_bytes(operation);
  }
}

std::vector<int> StepQueue::numbers_of(const std::vector<int>& devices) const {
  std::vector<int> numbers;
  for (int id : devices) {
    const auto at = std::find_if(devices_.begin(), devices_.end(),
                                 [id](const auto& device) { return device->program().device == id; });
    invariant(at != devices_.end(), "device {} is not one of this process", id);
    numbers.push_back(static_cast<int>(at - devices_.begin()));
  }
  return numbers;
}

StepQueue::Group& StepQueue::group_of(const std::vector<int>& ranks, bool overlapped,
                                      const MakeGroup& make_group) {
  for (Group& group : groups_)
    if (group.ranks == ranks && group.overlapped == overlapped) return group;
  const std::size_t size = ranks.size();
  groups_.push_back({ranks, overlapped, make_group(ranks), 0, {}, {}, {}});
  Group& group = groups_.back();
  group.waiting.resize(size);
  group.arrivals.resize(size);
  group.counts.resize(size);
  return group;
}

void StepQueue::rewind(const ListRun& run) {
  run_ = run;
  for (Group& group : groups_) {
    group.met = 0;
    for (auto& waiting : group.waiting) waiting.clear();
    std::fill(group.arrivals.begin(), group.arrivals.end(), 0);
  }
  std::fill(cursors_.begin(), cursors_.end(), Cursor{});
}

void StepQueue::queue_clearing(bool checked) const {
  for (const auto& device : devices_) try {
      check(cudaSetDevice(device->card().ordinal), "cudaSetDevice");
      device->queue_clearing();
      if (checked) wait_for(device->compute());
    } catch (...) {
      rethrow_at(fmt::format("device {}: clearing of the accumulators", device->program().device),
                 std::current_exception());
    }
}

void StepQueue::queue(const ListRun& run, bool checked) {
  rewind(run);
  const int n = static_cast<int>(devices_.size());
  for (bool done = false, moved = true; !done;) {
    invariant(moved, "the devices' programs do not meet: every one waits for another in a collective");
    done = true, moved = false;
    for (int rank = 0; rank < n; ++rank) {
      moved = advance(rank, checked) || moved;
      done = done && at_end(rank);
    }
  }
}

bool StepQueue::at_end(int rank) { return cursors_[rank].at == list_of(rank).size(); }

/// Queues what `rank` has to do until it waits for others. Returns true if there was something.
bool StepQueue::advance(int rank, bool checked) {
  check(cudaSetDevice(devices_[rank]->card().ordinal), "cudaSetDevice");
  Cursor& cursor = cursors_[rank];
  std::vector<Operation>& list = list_of(rank);
  bool moved = false;
  while (cursor.at < list.size()) {
    const bool arrived = cursor.arrived;
    if (!pass(rank, list[cursor.at], checked)) return moved || cursor.arrived != arrived;
    cursor.arrived = false;
    moved = true;
    if (++cursor.at == list.size()) devices_[rank]->queue_next(run_.list);
  }
  return moved;
}

/// Queues one operation. Returns false if others must come first.
bool StepQueue::pass(int rank, Operation& operation, bool checked) {
  LoadedDevice& device = *devices_[rank];
  Cursor& cursor = cursors_[rank];
  switch (operation.instruction->kind) {
    case Kind::collective:
      if (!cursor.arrived) arrive(rank, operation, checked);
      cursor.arrived = true;
      return groups_[operation.group].met > operation.meeting;
    case Kind::start:
      at_place(rank, operation,
               [&] { order(device.compute(), operation.done.get(), device.communication()); });
      arrive(rank, operation, checked);
      return true;
    case Kind::send:
    case Kind::receive: bug("no lanes to other meshes yet");
    case Kind::wait: {
      const Operation& started = list_of(rank)[operation.instruction->awaits];
      if (groups_[started.group].met <= started.meeting) return false;
      at_place(rank, operation, [&] {
        check(cudaStreamWaitEvent(device.compute(), started.done.get(), 0), "cudaStreamWaitEvent");
      });
      return true;
    }
    default:
      at_place(rank, operation, [&] {
        device.queue(operation);
        if (checked) wait_for(device.stream_of(operation));
      });
      return true;
  }
}

void StepQueue::arrive(int rank, Operation& operation, bool checked) {
  Group& group = groups_[operation.group];
  operation.meeting = group.arrivals[operation.member]++;
  group.waiting[operation.member].push_back(&operation);
  const bool complete = std::none_of(group.waiting.begin(), group.waiting.end(),
                                     [](const auto& waiting) { return waiting.empty(); });
  if (complete) at_place(rank, operation, [&] { meet(group, checked); });
}

/// Queues the oldest collective of a group to which all members have come.
void StepQueue::meet(Group& group, bool checked) {
  std::vector<Member> members;
  std::vector<Operation*> operations;
  for (std::size_t m = 0; m < group.ranks.size(); ++m) {
    Operation* operation = group.waiting[m].front();
    group.waiting[m].pop_front();
    LoadedDevice& device = *devices_[group.ranks[m]];
    members.push_back({static_cast<int>(m), group.overlapped ? device.communication() : device.compute(),
                       &operation->call});
    operations.push_back(operation);
  }
  group.collectives->queue(operations[0]->instruction->call, members);
  for (std::size_t m = 0; m < members.size(); ++m) {
    if (group.overlapped)
      check(cudaEventRecord(operations[m]->done.get(), members[m].stream), "cudaEventRecord");
    if (checked) wait_for(members[m].stream);
  }
  ++group.met;
}

template <class Body>
void StepQueue::at_place(int rank, const Operation& operation, Body&& body) const {
  try {
    body();
  } catch (...) {
    const StepPlace place{rank, operation.instruction, run_.micro_batch};
    rethrow_at(to_string(place, devices_[rank]->program(), program_), std::current_exception());
  }
}

void StepQueue::check_health() {
  for (Group& group : groups_) group.collectives->check_health();
}

void StepQueue::abort() noexcept {
  for (Group& group : groups_) group.collectives->abort();
}

std::vector<std::pair<int, comm::Counts>> StepQueue::counts(int rank) const {
  std::vector<std::pair<int, comm::Counts>> counts;
  for (const Group& group : groups_)
    for (std::size_t m = 0; m < group.ranks.size(); ++m)
      if (group.ranks[m] == rank)
        counts.emplace_back(static_cast<int>(group.ranks.size()), group.counts[m]);
  return counts;
}

}  // namespace alpa::cuda
