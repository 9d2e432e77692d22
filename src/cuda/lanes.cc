// src/cuda/lanes.cc — streams and events of messages between meshes
#include "lanes.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "alpa/base/error.h"
#include "ranges.h"
#include "src/lower/kernel_call.h"
#include "status.h"
#include "wait_until_done.h"

namespace alpa::cuda {
namespace {

using Kind = lower::Instruction::Kind;

void use_card(const LoadedDevice& device) {
  check(cudaSetDevice(device.card().ordinal), "cudaSetDevice");
}

const lower::Instruction& awaited_by(const lower::DeviceProgram& program, int list,
                                     const lower::Instruction& wait) {
  return program.lists[wait.awaits_list < 0 ? list : wait.awaits_list].instructions[wait.awaits];
}

}  // namespace

Lanes::Lanes(LoadedDevices& devices, const MakeChannel& make_channel, const StillWell& still_well,
             Progress& progress)
    : devices_(devices), still_well_(still_well), progress_(progress), counts_(devices.size()) {
  for (int index = 0; index < static_cast<int>(devices.size()); ++index)
    add(index, devices[index]->program(), make_channel);
}

/// Adds lanes and events for a device's messages, with as many events as waits look back on runs.
void Lanes::add(int index, const lower::DeviceProgram& program, const MakeChannel& make_channel) {
  std::map<const lower::Instruction*, int> looked_back;
  for (int list = 0; list < static_cast<int>(program.lists.size()); ++list)
    for (const lower::Instruction& instruction : program.lists[list].instructions)
      if (instruction.kind == Kind::wait) {
        int& runs = looked_back[&awaited_by(program, list, instruction)];
        const bool same_list = instruction.awaits_list < 0 || instruction.awaits_list == list;
        runs = std::max(runs, same_list ? instruction.behind
                                        : lower::runs_of(program, instruction.awaits_list) - 1);
      }
  for (int list = 0; list < static_cast<int>(program.lists.size()); ++list)
    for (const lower::Instruction& instruction : program.lists[list].instructions) {
      const bool sends = instruction.kind == Kind::send;
      if (!sends && instruction.kind != Kind::receive) continue;
      count(index, instruction, lower::runs_of(program, list));
      const int own = program.device, peer = instruction.message.peer;
      Flow& flow = flows_[&instruction];
      flow.lane =
          lane_of(sends ? own : peer, sends ? peer : own, instruction.message.lane, make_channel);
      use_card(*devices_[index]);
      for (int run = 0; run <= looked_back[&instruction]; ++run) flow.done.push_back(make_event());
    }
}

void Lanes::count(int index, const lower::Instruction& instruction, int runs) {
  if (instruction.kind != Kind::send) return;
  const DType dtype = devices_[index]->program().buffers[instruction.inputs[0]].type.dtype;
  counts_[index].add_sent(runs, runs * TensorType{dtype, instruction.message.extent}.bytes());
}

/// A lane's side on `device`, without a stream yet.
Lanes::Side Lanes::side_of(int device) const {
  Side side;
  side.device = device;
  const auto at = std::find_if(devices_.begin(), devices_.end(), [&](const auto& known) {
    return known->program().device == device;
  });
  if (at != devices_.end()) {
    side.index = static_cast<int>(at - devices_.begin());
    side.ordinal = (*at)->card().ordinal;
  }
  return side;
}

int Lanes::lane_of(int from, int to, int number, const MakeChannel& make_channel) {
  for (std::size_t lane = 0; lane < lanes_.size(); ++lane)
    if (const auto& [sender, receiver] = lanes_[lane].sides;
        sender.device == from && receiver.device == to && lanes_[lane].number == number)
      return static_cast<int>(lane);
  CardLane lane{{side_of(from), side_of(to)}, number, make_channel(from, to, number)};
  auto& [sender, receiver] = lane.sides;
  lane.one_card = sender.index && receiver.index && sender.ordinal == receiver.ordinal;
  for (Side& side : lane.sides) {
    if (!side.index) continue;
    use_card(*devices_[*side.index]);
    side.over = make_event();
    if (!lane.one_card || &side == &sender) side.own_stream = make_stream(Priority::high);
    if (side.own_stream)
      name_stream(side.own_stream.get(),
                  fmt::format("device {} to {}, lane {}, {}", from, to, number,
                              &side == &sender ? "sender" : "receiver"));
    side.stream = side.own_stream ? side.own_stream.get() : sender.stream;
  }
  lanes_.push_back(std::move(lane));
  return static_cast<int>(lanes_.size()) - 1;
}

void Lanes::begin_step() {
  for (auto& [instruction, flow] : flows_) flow.posted = flow.queued = 0;
  for (CardLane& lane : lanes_)
    for (Side& side : lane.sides) {
      side.posted.clear();
      side.first = side.came = side.went = 0;
    }
}

bool Lanes::pass(int index, const lower::ListRun& run, const Operation& operation, int behind,
                 bool checked) {
  try {
    use_card(*devices_[behind]);
    const Range range(devices_[index]->node_of(operation).name);
    const int at = devices_[index]->position_of(operation, run.list);
    devices_[index]->times().begin(run, at);
    const bool waits = operation.instruction->kind == Kind::wait;
    if (waits && !wait(index, run, operation, devices_[behind]->compute())) return false;
    if (!waits) post(index, run, operation, behind);
    devices_[index]->times().end(run, at);
    if (waits) return true;
  } catch (...) {
    devices_[index]->blame(operation, run.micro_batch);
  }
  CardLane& lane = lanes_[flows_.at(operation.instruction).lane];
  go_on(lane, devices_[index]->card().ordinal, checked);
  return true;
}

void Lanes::post(int index, const lower::ListRun& run, const Operation& operation, int behind) {
  const lower::Instruction& instruction = *operation.instruction;
  const LoadedDevice& device = *devices_[index];
  const bool sends = instruction.kind == Kind::send;
  Flow& flow = flows_.at(&instruction);
  Side& side = lanes_[flow.lane].sides[sends ? 0 : 1];
  const int buffer = sends ? instruction.inputs[0] : instruction.outputs[0],
            ordinal = devices_[behind]->card().ordinal;
  Post post{&flow, index, run, &operation, {}, ordinal, take_event(ordinal)};
  post.end.tensor = lower::kernel_tensor(device.program(), buffer);
  post.end.tensor.data = device.placed_address(buffer, run.micro_batch);
  if (instruction.workspace >= 0)
    post.end.workspace = device.placed_address(instruction.workspace, run.micro_batch);
  post.end.stream = side.stream;
  check(cudaEventRecord(post.ready.get(), devices_[behind]->compute()), "cudaEventRecord");
  ++flow.posted;
  ++side.came;
  {
    const std::lock_guard lock(mutex_);
    side.posted.push_back(std::move(post));
  }
  progress_.note();
}

/// An event of the current card.
EventHandle Lanes::take_event(int ordinal) {
  {
    const std::lock_guard lock(mutex_);
    if (std::vector<EventHandle>& free = events_[ordinal]; !free.empty()) {
      EventHandle event = std::move(free.back());
      free.pop_back();
      return event;
    }
  }
  return make_event();
}

bool Lanes::wait(int index, const lower::ListRun& run, const Operation& operation,
                 Stream stream) const {
  const lower::Instruction& instruction = *operation.instruction;
  const Flow& flow = flows_.at(&awaited_by(devices_[index]->program(), run.list, instruction));
  const int wanted = instruction.behind == lower::Instruction::kAllRuns
                         ? flow.posted - 1
                         : run.micro_batch - instruction.behind;
  if (wanted < 0) return true;
  if (wanted >= flow.queued) return false;
  const LoadedDevice& device = *devices_[index];
  device.queue_mark(run.list, device.position_of(operation, run.list), stream);
  const EventHandle& done = flow.done[wanted % flow.done.size()];
  check(cudaStreamWaitEvent(stream, done.get(), 0), "cudaStreamWaitEvent");
  return true;
}

bool Lanes::go_on(int ordinal, bool checked) {
  bool moved = false;
  for (CardLane& lane : lanes_) moved = go_on(lane, ordinal, checked) || moved;
  return moved;
}

bool Lanes::go_on(CardLane& lane, int ordinal, bool checked) {
  bool moved = false;
  for (int side = 0; side < (lane.one_card ? 1 : 2); ++side)
    if (lane.sides[side].ordinal == ordinal)
      while (queue_next(lane, side, checked)) moved = true;
  return moved;
}

/// Queues the next message of one side of a lane, or of both on one card. False: there is none to
/// which all sides here have come.
bool Lanes::queue_next(CardLane& lane, int side, bool checked) {
  const Posts posts = next_of(lane, side);
  if (posts[side] == nullptr) return false;
  Posts going = posts;
  if (!lane.one_card) going[1 - side] = nullptr;
  const Post& own = lane.one_card ? *posts[1] : *posts[side];
  const Operation& operation = *own.operation;
  const int micro_batch = own.run.micro_batch, index = *lane.sides[lane.one_card ? 1 : side].index;
  const Stream stream = own.end.stream;
  try {
    go(lane, posts, going);
    note_gone(lane, going);
    if (checked) wait_for(stream, devices_[index]->card().ordinal);
  } catch (...) {
    devices_[index]->blame(operation, micro_batch);
  }
  return true;
}

/// The message that a side queues next, or nulls if a side here has not come to it. What it points
/// to stays until the side has queued it.
Lanes::Posts Lanes::next_of(const CardLane& lane, int side) const {
  const std::lock_guard lock(mutex_);
  Posts posts = {};
  for (int s = 0; s < 2; ++s) {
    const Side& of = lane.sides[s];
    if (!of.index) continue;
    const std::int64_t at = lane.sides[side].went - of.first;
    if (at >= static_cast<std::int64_t>(of.posted.size())) return {};
    posts[s] = &of.posted[at];
  }
  return posts;
}

/// Queues the sides `going` of a message; `posts`: those here. It starts when all sides here are
/// ready: a side that came first would occupy multiprocessors until then.
void Lanes::go(CardLane& lane, const Posts& posts, const Posts& going) const {
  const auto& [send, receive] = posts;
  const lower::Message& message = (send ? send : receive)->operation->instruction->message;
  if (send && receive) {
    const lower::Message& received = receive->operation->instruction->message;
    invariant(message.begin == received.begin && message.extent == received.extent &&
                  send->end.tensor.type.dtype == receive->end.tensor.type.dtype,
              "device {} sends a box of {} at {}, but device {} expects one of {} at {}",
              lane.sides[0].device, alpa::to_string(message.extent), alpa::to_string(message.begin),
              lane.sides[1].device, alpa::to_string(received.extent),
              alpa::to_string(received.begin));
  }
  use_card(*devices_[*(going[0] ? lane.sides[0] : lane.sides[1]).index]);
  for (const Post* waiting : going)
    for (const Post* ready : posts)
      if (waiting && ready)
        check(cudaStreamWaitEvent(waiting->end.stream, ready->ready.get(), 0),
              "cudaStreamWaitEvent");
  for (const Post* beginning : going)
    if (beginning) begin(*beginning);
  lane.channel->queue(message, going[0] ? &going[0]->end : nullptr,
                      going[1] ? &going[1]->end : nullptr);
  for (const Post* gone : going)
    if (gone) end(*gone);
}

void Lanes::begin(const Post& post) const {
  LoadedDevice& own = *devices_[post.index];
  own.times().begin_beside(post.run, own.position_of(*post.operation, post.run.list),
                           post.end.stream);
}

/// Marks the end of a message, which waits wait for.
void Lanes::end(const Post& post) const {
  LoadedDevice& own = *devices_[post.index];
  Flow& flow = *post.flow;
  own.times().end_beside(post.run, own.position_of(*post.operation, post.run.list),
                         post.end.stream);
  check(cudaEventRecord(flow.done[flow.queued++ % flow.done.size()].get(), post.end.stream),
        "cudaEventRecord");
}

/// Counts a message that sides have queued, and drops those that all sides here have.
void Lanes::note_gone(CardLane& lane, const Posts& going) {
  const std::lock_guard lock(mutex_);
  std::int64_t gone = std::numeric_limits<std::int64_t>::max();
  for (int s = 0; s < 2; ++s) {
    if (going[s]) ++lane.sides[s].went;
    if (lane.sides[s].index) gone = std::min(gone, lane.sides[s].went);
  }
  for (Side& side : lane.sides)
    for (; side.index && side.first < gone; ++side.first) {
      events_[side.posted.front().ordinal].push_back(std::move(side.posted.front().ready));
      side.posted.pop_front();
    }
}

/// Waits for a message of a card, and lets other messages of the card go on meanwhile.
void Lanes::wait_for(Stream stream, int ordinal) {
  wait_until_done(
      [&] {
        go_on(ordinal, /*checked=*/false);
        return cudaStreamQuery(stream);
      },
      still_well_);
}

bool Lanes::waits(int ordinal) const {
  for (const CardLane& lane : lanes_)
    for (const Side& side : lane.sides)
      if (side.ordinal == ordinal && side.went < side.came) return true;
  return false;
}

void Lanes::join(Stream stream) const {
  for (const CardLane& lane : lanes_)
    for (const Side& side : lane.sides)
      if (side.own_stream) order(side.stream, side.over.get(), stream);
}

void Lanes::check_health() {
  for (CardLane& lane : lanes_) lane.channel->check_health();
}

void Lanes::abort() noexcept {
  for (CardLane& lane : lanes_) lane.channel->abort();
}

}  // namespace alpa::cuda
