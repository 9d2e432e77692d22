// src/cuda/step_queue.cc — queues the schedules of all meshes in turns, on a thread per card
#include "step_queue.h"

#include <algorithm>
#include <chrono>
#include <set>

#include "alpa/base/error.h"
#include "captured_step.h"
#include "ranges.h"
#include "status.h"

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

int count_cards(const LoadedDevices& devices) {
  std::set<int> cards;
  for (const auto& device : devices) cards.insert(device->card().ordinal);
  return static_cast<int>(cards.size());
}

}  // namespace

StepQueue::StepQueue(LoadedDevices& devices, bool captures, const MeshQueue::MakeGroup& make_group,
                     const Lanes::MakeChannel& make_channel, StillWell still_well)
    : devices_(devices),
      still_well_([this, still_well = std::move(still_well)] { require_running(), still_well(); }),
      progress_(count_cards(devices)),
      lanes_(devices, make_channel, still_well_, progress_),
      threads_(count_cards(devices)) {
  for (const std::vector<int>& mesh : members_of_meshes(devices)) {
    std::map<int, std::vector<int>> by_card;
    for (const int index : mesh) by_card[devices[index]->card().ordinal].push_back(index);
    // the first device's card first
    add_queue(mesh, by_card.extract(devices[mesh[0]]->card().ordinal).mapped(), captures,
              make_group);
    for (auto& [ordinal, members] : by_card)
      add_queue(mesh, std::move(members), captures, make_group);
  }
  check(cudaSetDevice(queues_[0]->ordinal()), "cudaSetDevice");
  begun_ = make_event();
  threads_.run([&](int card) {
    name_this_thread(fmt::format("alpa: queues for GPU {}", cards_[card].ordinal));
  });
}

void StepQueue::add_queue(const std::vector<int>& mesh, std::vector<int> members, bool captures,
                          const MeshQueue::MakeGroup& make_group) {
  const int ordinal = devices_[members[0]]->card().ordinal;
  check(cudaSetDevice(ordinal), "cudaSetDevice");
  queue_begun_.push_back(make_event());
  queue_done_.push_back(make_event());
  const auto known = std::find_if(cards_.begin(), cards_.end(),
                                  [&](const Card& card) { return card.ordinal == ordinal; });
  Card& card = known == cards_.end() ? cards_.emplace_back(Card{ordinal, {}}) : *known;
  card.queues.push_back(static_cast<int>(queues_.size()));
  queues_.push_back(std::make_unique<MeshQueue>(
      devices_, mesh, std::move(members), captures, make_group,
      Waiting{still_well_, [this, ordinal] { lanes_.go_on(ordinal, /*checked=*/false); }}));
}

void StepQueue::queue(bool checked) {
  begin_step();
  for (const auto& queue : queues_) queue->fork(origin(), begun_.get());
  for (const auto& queue : queues_) queue->queue_clearing(checked);
  walk(nullptr, checked);
  for (const auto& queue : queues_) queue->join(origin());
  lanes_.join(origin());
}

void StepQueue::launch(StepGraphs& graphs) {
  begin_step();
  graphs.resize(queues_.size());
  for (std::size_t q = 1; q < queues_.size(); ++q)
    order(origin(), begun_.get(), queues_[q]->origin());
  for (std::size_t q = 0; q < queues_.size(); ++q) {
    MeshQueue& queue = *queues_[q];
    if (queue.begins_clear()) continue;
    queue.fork(queue.origin(), queue_begun_[q].get());
    queue.queue_clearing(false);
    queue.join(queue.origin());
  }
  walk(&graphs, false);
  for (std::size_t q = 1; q < queues_.size(); ++q)
    order(queues_[q]->origin(), queue_done_[q].get(), origin());
  lanes_.join(origin());
}

void StepQueue::begin_step() {
  lanes_.begin_step();
  progress_.begin_step();
  cursors_.clear();
  for (const auto& queue : queues_)
    cursors_.push_back({0, 0, std::vector<std::size_t>(queue->members().size())});
  failed_ = false;
  failure_ = nullptr;
}

void StepQueue::walk(StepGraphs* graphs, bool checked) {
  threads_.run([&](int card) {
    try {
      walk_card(card, graphs, checked);
    } catch (...) {
      fail();
    }
  });
  if (failure_) std::rethrow_exception(failure_);
}

/// Ends the step on all cards with the exception that is being handled, unless another one came
/// first.
void StepQueue::fail() noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (!failed_.exchange(true)) failure_ = std::current_exception();
  }
  progress_.note();
}

/// Ends a thread that may wait for one that failed.
void StepQueue::require_running() const { require(!failed_, "a step failed on another card"); }

/// Queues the card's work of a step, on the card's thread.
void StepQueue::walk_card(int card, StepGraphs* graphs, bool checked) {
  using Clock = std::chrono::steady_clock;
  constexpr auto kAsk = std::chrono::milliseconds(50);
  for (Clock::time_point asked = Clock::now();;) {
    require_running();
    const std::uint32_t seen = progress_.count();
    if (walk_on(cards_[card], graphs, checked)) return progress_.finish(card);
    invariant(!progress_.is_stuck(card, seen),
              "the meshes' schedules deadlock: each waits for another's message");
    progress_.wait(seen, kAsk);
    if (Clock::now() - asked > kAsk) still_well_(), asked = Clock::now();
  }
}

/// Queues what can be on a card. Returns true if that is all of the step.
bool StepQueue::walk_on(const Card& card, StepGraphs* graphs, bool checked) {
  for (;;) {
    bool moved = lanes_.go_on(card.ordinal, checked), done = true;
    for (const int queue : card.queues) {
      moved = advance(queue, graphs, checked) || moved;
      done = done && cursors_[queue].run == queues_[queue]->schedule().size();
    }
    if (done && !lanes_.waits(card.ordinal)) return true;
    if (!moved) return false;
  }
}

/// Queues what a mesh has to do until it waits for others. Returns true if there was something.
bool StepQueue::advance(int q, StepGraphs* graphs, bool checked) {
  const std::vector<lower::ListRun>& schedule = queues_[q]->schedule();
  Cursor& cursor = cursors_[q];
  bool moved = false;
  while (cursor.run < schedule.size()) {
    const lower::ListRun& run = schedule[cursor.run];
    const Range stage(queues_[q]->name()), of_run(queues_[q]->name_of(run));
    if (!pass_messages(q, run, graphs != nullptr, checked, moved)) return moved;
    if (queues_[q]->has_work(run, cursor.segment)) work(q, run, graphs, checked);
    std::fill(cursor.messages.begin(), cursor.messages.end(), 0);
    moved = true;
    if (++cursor.segment < queues_[q]->segments(run).size()) continue;
    cursor.segment = 0;
    ++cursor.run;
  }
  return moved;
}

/// Returns false if a member waits for a message that the other side has not reached.
bool StepQueue::pass_messages(int q, const lower::ListRun& run, bool captured, bool checked,
                              bool& moved) {
  Cursor& cursor = cursors_[q];
  const std::vector<int>& members = queues_[q]->members();
  const Segment& segment = queues_[q]->segments(run)[cursor.segment];
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

void StepQueue::work(int q, const lower::ListRun& run, StepGraphs* graphs, bool checked) {
  MeshQueue& queue = *queues_[q];
  const std::size_t segment = cursors_[q].segment;
  if (graphs == nullptr) return queue.queue(run, segment, checked);
  GraphExec& graph =
      (*graphs)[q][{run.list, run.micro_batch % queue.slots(run.list), static_cast<int>(segment)}];
  check(cudaSetDevice(queue.ordinal()), "cudaSetDevice");
  if (!graph)
    graph = capture(queue.origin(), [&] {
      queue.fork(queue.origin(), queue_begun_[q].get());
      queue.queue(run, segment, false);
      queue.join(queue.origin());
    });
  check(cudaGraphLaunch(graph.get(), queue.origin()), "cudaGraphLaunch");
}

void StepQueue::check_health() {
  for (const auto& queue : queues_) queue->check_health();
  lanes_.check_health();
}

void StepQueue::abort() noexcept {
  for (const auto& queue : queues_) queue->abort();
  lanes_.abort();
}

std::vector<std::pair<int, comm::Counts>> StepQueue::counts(int index) const {
  std::vector<std::pair<int, comm::Counts>> counts;
  for (const auto& queue : queues_)
    for (auto& of_group : queue->counts(index)) counts.push_back(std::move(of_group));
  if (!lanes_.empty()) counts.emplace_back(2, lanes_.counts(index));
  return counts;
}

}  // namespace alpa::cuda
