// Times of instructions on cards: every one has them, in the order of its stream and of what it
// depends on.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>
#include <tuple>

#include "emulation.h"
#include "src/runtime/executor.h"
#include "support/cards_of_processes.h"
#include "support/error_text.h"

namespace trace_test {

using namespace alpa;
using namespace alpa::testing;
using runtime::DeviceTimes;
using runtime::TimedInstruction;
using Kind = lower::Instruction::Kind;

namespace {

template <class M>
M recorded(M method) {
  method.executor.tune = false;
  method.executor.record_times = true;
  return method;
}

/// Methods with all that a device can do, and the devices that each is run on.
std::vector<std::pair<Method, int>> methods() {
  Serial overlapped;
  overlapped.executor.overlap_updates = true;
  DataParallel captured;
  captured.executor.bucket_bytes = 0;  // so that collectives run beside the backward pass
  captured.executor.capture = Capture::always;
  DataParallel together{.num_micro_batches = 2};
  together.executor.overlap = Overlap::never;
  return {{recorded(overlapped), 1},
          {recorded(captured), 2},
          {recorded(together), 4},
          {recorded(PipeshardParallel{.num_micro_batches = 4}), 2},
          {recorded(PipeshardParallel{.num_micro_batches = 2, .stages = UniformStages{2}}), 4}};
}

constexpr std::int64_t kMillisecond = 1'000'000;
/// How far the clocks of cards may be from the host's, on a busy machine.
constexpr std::int64_t kApart = 50 * kMillisecond;

/// A trained step, in whose last run the last card began its kernels late: at `released`.
struct Trained {
  Trained(const Method& method, int devices, int cards) {
    emulation::restart({.devices = cards});
    step = parallelize(staged_mlp_step(kRows, kWidth), method, Cluster::local(devices, "cuda"));
    TrainState state = step->init(3);
    const BatchData batch = staged_mlp_batch();
    for (int i = 0; i < 2; ++i) step->run(state, batch).loss();
    emulation::hold(cards - 1, true);
    std::thread later([&] {
      std::this_thread::sleep_for(std::chrono::nanoseconds(3 * kApart));
      released = std::chrono::steady_clock::now().time_since_epoch().count();
      emulation::hold(cards - 1, false);
    });
    step->run(state, batch).loss();
    later.join();
    times = step->executor().times();
  }

  const lower::DeviceProgram& program(std::size_t device) const {
    return step->executor().device_program(static_cast<int>(device));
  }

  std::optional<Executable> step;
  std::vector<DeviceTimes> times;
  std::int64_t released = 0;  ///< by the host's clock
};

/// What has a thread or a stream of its own: kind, peer and lane, or the members of collectives.
using Track = std::tuple<Kind, int, int, std::vector<int>>;

Track track_of(const lower::Instruction& i) {
  return {i.kind, i.message.peer, i.message.lane, i.call.group};
}

/// What is on a track, in order.
std::map<Track, std::vector<TimedInstruction>> by_track(const std::vector<TimedInstruction>& all) {
  std::map<Track, std::vector<TimedInstruction>> tracks;
  for (const TimedInstruction& timed : all) tracks[track_of(*timed.instruction)].push_back(timed);
  return tracks;
}

void check_in_order(const std::vector<TimedInstruction>& times) {
  for (std::size_t i = 0; i < times.size(); ++i) {
    REQUIRE(times[i].begin <= times[i].end);
    if (i > 0) REQUIRE(times[i - 1].end <= times[i].begin);
  }
}

bool runs_beside(const lower::Instruction& i) {
  return i.overlapped || i.kind == Kind::start || i.kind == Kind::send || i.kind == Kind::receive;
}

void check_complete(const lower::DeviceProgram& program, const DeviceTimes& times) {
  std::vector<std::pair<const lower::Instruction*, int>> own, beside, all, all_beside;
  for (const lower::ListRun& run : program.schedule)
    for (const lower::Instruction& i : program.lists[run.list].instructions) {
      all.emplace_back(&i, run.micro_batch);
      if (runs_beside(i)) all_beside.emplace_back(&i, run.micro_batch);
    }
  for (const auto& timed : times.own) own.emplace_back(timed.instruction, timed.micro_batch);
  for (const auto& timed : times.beside) beside.emplace_back(timed.instruction, timed.micro_batch);
  CHECK(own == all);
  CHECK(beside == all_beside);
}

/// What is started begins after its start, and a wait for it ends after it.
void check_waits(const lower::DeviceProgram& program, const DeviceTimes& times) {
  std::map<std::pair<const lower::Instruction*, int>, TimedInstruction> beside;
  for (const TimedInstruction& timed : times.beside)
    beside[{timed.instruction, timed.micro_batch}] = timed;
  const lower::Instruction* list = nullptr;
  for (const TimedInstruction& timed : times.own) {
    const lower::Instruction& i = *timed.instruction;
    for (const lower::InstructionList& own : program.lists)
      if (!own.instructions.empty() && &i == own.instructions.data()) list = &i;
    if (runs_beside(i)) CHECK(timed.begin <= beside.at({&i, timed.micro_batch}).begin);
    if (i.kind != Kind::wait || i.awaits_list >= 0 || i.behind != 0) continue;
    CHECK(timed.end >= beside.at({list + i.awaits, timed.micro_batch}).end);
  }
}

/// Nobody gets past a collective or a message before all have come to it. `apart`: how far the
/// clocks of the cards may be.
void check_meetings(const Trained& trained, std::int64_t apart) {
  std::map<std::tuple<bool, std::vector<int>, std::size_t>, std::pair<std::int64_t, std::int64_t>>
      met;
  const auto meet = [&](bool beside, std::vector<int> members, std::size_t number,
                        const TimedInstruction& timed) {
    auto& [last_begin, first_end] =
        met.try_emplace({beside, std::move(members), number}, timed.begin, timed.end).first->second;
    last_begin = std::max(last_begin, timed.begin);
    first_end = std::min(first_end, timed.end);
  };
  for (std::size_t d = 0; d < trained.times.size(); ++d) {
    const int own = trained.program(d).device;
    for (const bool beside : {false, true})
      for (const auto& [track, all] :
           by_track(beside ? trained.times[d].beside : trained.times[d].own)) {
        const auto& [kind, peer, lane, group] = track;
        for (std::size_t n = 0; n < all.size(); ++n)
          if (kind == (beside ? Kind::start : Kind::collective))
            meet(beside, group, n, all[n]);
          else if (beside && kind == Kind::send)
            meet(true, {-1 - lane, own, peer}, n, all[n]);
          else if (beside && kind == Kind::receive)
            meet(true, {-1 - lane, peer, own}, n, all[n]);
      }
  }
  for (const auto& [what, times] : met) CHECK(times.first <= times.second + apart);
  if (trained.times.size() > 1) CHECK(!met.empty());
}

}  // namespace

TEST_CASE("every instruction of a recorded step has its times, in the order of streams and waits") {
  std::set<Kind> kinds;
  int overlapped = 0;
  for (const auto& [method, devices] : methods())
    for (const int cards : {1, devices}) {
      CAPTURE(devices);
      CAPTURE(cards);
      const Trained trained(method, devices, cards);
      REQUIRE(trained.times.size() == static_cast<std::size_t>(devices));
      for (std::size_t d = 0; d < trained.times.size(); ++d) {
        const DeviceTimes& times = trained.times[d];
        check_complete(trained.program(d), times);
        check_in_order(times.own);
        for (const TimedInstruction& timed : times.own) kinds.insert(timed.instruction->kind);
        for (const TimedInstruction& timed : times.beside)
          overlapped += timed.instruction->overlapped ? 1 : 0;
        for (const auto& [track, of_track] : by_track(times.beside)) check_in_order(of_track);
        check_waits(trained.program(d), times);
      }
      check_meetings(trained, cards == 1 ? 0 : kApart);
    }
  for (const Kind kind : {Kind::compute, Kind::load, Kind::collective, Kind::start, Kind::wait,
                          Kind::send, Kind::receive})
    CHECK_MESSAGE(kinds.contains(kind), static_cast<int>(kind));
  CHECK(overlapped > 0);
}

TEST_CASE("a card that waits for a late one gets past it by the host's clock when it may") {
  for (const Method& method : {Method(recorded(DataParallel{})),
                               Method(recorded(PipeshardParallel{.num_micro_batches = 2}))}) {
    const Trained trained(method, 2, 2);
    std::int64_t first = 0, last = 0;  // end of device 0's first kernel, and of its last wait
    for (const TimedInstruction& timed : trained.times[0].own) {
      const Kind kind = timed.instruction->kind;
      if (kind == Kind::wait || kind == Kind::collective) last = timed.end;
      if (kind == Kind::compute && first == 0) first = timed.end;
    }
    CHECK(first < trained.released + kApart);
    CHECK(last > trained.released - kApart);
    CHECK(trained.times[1].own.back().end > trained.released - kApart);
  }
}

TEST_CASE("a recorded step computes what any other does") {
  emulation::restart({.devices = 2});
  CHECK(train(recorded(DataParallel{}), 2) == train(DataParallel{}, 2));
  const PipeshardParallel stages{.num_micro_batches = 4};
  CHECK(train(recorded(stages), 2) == train(stages, 2));
}

TEST_CASE("the trace of cards has a lane per stream, and the measured seconds") {
  emulation::restart({.devices = 2});
  const Executable step =
      parallelize(staged_mlp_step(kRows, kWidth),
                  recorded(PipeshardParallel{.num_micro_batches = 2}), Cluster::local(2, "cuda"));
  CHECK(error_of([&] { step.trace(); }) == "trace: no step has run yet; run one first");
  TrainState state = step.init(3);
  step.run(state, staged_mlp_batch());  // nobody asks for its loss before the trace
  const nlohmann::json file = nlohmann::json::parse(step.trace());
  std::map<std::pair<int, int>, std::string> lanes;
  std::map<std::string, int> events;
  int labels = 0;
  for (const nlohmann::json& event : file["traceEvents"])
    if (event["name"] == "process_labels") {
      const std::string label = event["args"]["labels"];
      CHECK(label.find(" bytes free before kernels were loaded, ") != label.npos);
      CHECK(label.ends_with(" behind"));
      CHECK(event["pid"] == labels++);
    } else if (event["name"] == "thread_name")
      lanes[{event["pid"], event["tid"]}] = event["args"]["name"];
    else if (event["ph"] == "X")
      ++events[lanes.at({event["pid"], event["tid"]})];
  CHECK(labels == 2);
  CHECK(events["measured"] == 10);  // a stage's forward and backward, twice each, and its update
  CHECK(events["compute"] > 0);
  CHECK(events["transfer"] > 0);
  CHECK(events["waiting"] > 0);
  CHECK(events["beside: to device 1, lane 0"] == 2);
  CHECK(events["beside: from device 0, lane 0"] == 2);
  CHECK(step.trace_summary().find(" measured, ") != std::string::npos);
}

TEST_CASE("processes share the times of their cards") {
  emulation::restart({.devices = 2});
  const auto errors = run_processes(2, [&](int) {
    const Executable step = parallelize(staged_mlp_step(kRows, kWidth), recorded(DataParallel{}),
                                        Cluster::local(2, "cuda"));
    TrainState state = step.init(3);
    step.run(state, staged_mlp_batch()).loss();
    const std::vector<DeviceTimes> times = step.executor().times();
    for (int device = 0; device < 2; ++device) {
      check_complete(step.executor().device_program(device), times[device]);
      check_in_order(times[device].own);
      CHECK(times[device].free_before >= times[device].free_behind);
      CHECK(times[device].free_behind > 0);
    }
  });
  for (const std::string& error : errors) CHECK(error == "");
}

}  // namespace trace_test
