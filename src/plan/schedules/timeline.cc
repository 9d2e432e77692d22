// src/plan/schedules/timeline.cc — plays a schedule on a clock and prints it, one column per clock
#include "src/plan/schedules/timeline.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "alpa/base/shape.h"

namespace alpa::pipeline {
namespace {

int clocks_of(const RegionRun& run, const RunClocks& clocks) {
  if (run.part == GradientPart::weights) return clocks.weights;
  if (run.region == Region::forward) return clocks.forward;
  return run.region == Region::backward ? clocks.backward : clocks.apply;
}

class Player {
 public:
  Player(const PipelineSchedule& schedule, const RunTimes& times)
      : schedule_(schedule), times_(times) {
    timeline_.meshes.resize(schedule.size());
    for (const std::vector<RegionRun>& runs : schedule)
      for (const RegionRun& run : runs) stages_ = std::max(stages_, (run.chunk + 1) * meshes());
  }

  Timeline run() && {
    for (bool moved = true; moved;) {
      moved = false;
      for (int mesh = 0; mesh < meshes(); ++mesh)
        while (begin_next(mesh)) moved = true;
    }
    for (int mesh = 0; mesh < meshes(); ++mesh)
      timeline_.complete = timeline_.complete && next(mesh) == schedule_[mesh].size();
    return std::move(timeline_);
  }

 private:
  int meshes() const { return static_cast<int>(schedule_.size()); }
  int stage_of(int mesh, const RegionRun& run) const { return run.chunk * meshes() + mesh; }
  std::size_t next(int mesh) const { return timeline_.meshes[mesh].size(); }

  /// False at the mesh's end, or if its next run waits for one without a time.
  bool begin_next(int mesh) {
    if (next(mesh) == schedule_[mesh].size()) return false;
    const RegionRun& run = schedule_[mesh][next(mesh)];
    const std::optional<double> ready = ready_at(mesh, run);
    if (!ready) return false;
    std::vector<TimedRun>& runs = timeline_.meshes[mesh];
    const double begin = std::max(*ready, runs.empty() ? 0 : runs.back().end);
    runs.push_back({run, begin, begin + times_.run(stage_of(mesh, run), run)});
    if (run.part != GradientPart::weights)
      end_of_[{run.region, stage_of(mesh, run), run.micro_batch}] = runs.back().end;
    timeline_.clocks = std::max(timeline_.clocks, runs.back().end);
    timeline_.micro_batches = std::max(timeline_.micro_batches, run.micro_batch + 1);
    return true;
  }

  std::optional<double> ready_at(int mesh, const RegionRun& run) const {
    if (run.region == Region::apply) return all_done();
    const int next = run.part == GradientPart::weights ? 0 : run.region == Region::forward ? -1 : 1;
    const int source = stage_of(mesh, run) + next;
    if (source < 0 || source == stages_) return 0;
    const auto end = end_of_.find({run.region, source, run.micro_batch});
    if (end == end_of_.end()) return std::nullopt;
    return end->second + (next == 0 ? 0 : times_.transfer(source, stage_of(mesh, run)));
  }

  std::optional<double> all_done() const {
    double done = 0;
    for (int mesh = 0; mesh < meshes(); ++mesh) {
      const std::vector<RegionRun>& runs = schedule_[mesh];
      if (next(mesh) < runs.size() && runs[next(mesh)].region != Region::apply) return std::nullopt;
      for (const TimedRun& timed : timeline_.meshes[mesh])
        if (timed.run.region != Region::apply) done = std::max(done, timed.end);
    }
    return done;
  }

  const PipelineSchedule& schedule_;
  const RunTimes& times_;
  Timeline timeline_;
  int stages_ = 0;
  std::map<std::tuple<Region, int, int>, double> end_of_;  ///< by region, stage and micro-batch
};

int in_flight(const std::vector<RegionRun>& runs) {
  int live = 0, most = 0;
  for (const RegionRun& run : runs) {
    if (run.region == Region::forward) most = std::max(most, ++live);
    if (run.region == Region::backward && run.part != GradientPart::inputs) --live;
  }
  return most;
}

std::string row_of(const std::vector<TimedRun>& runs, double clocks, int micro_batches) {
  std::vector<std::string> cells(static_cast<std::size_t>(clocks), ".");
  for (const auto& [run, begin, end] : runs) {
    std::fill(cells.begin() + static_cast<int>(begin), cells.begin() + static_cast<int>(end),
              run.region == Region::apply ? fmt::format("A{}", micro_batches - 1) : to_string(run));
  }
  std::string row;
  for (const std::string& cell : cells) row += " " + cell;
  return row;
}

}  // namespace

double Timeline::bubble() const {
  double busy = 0;
  for (const std::vector<TimedRun>& runs : meshes)
    for (const TimedRun& timed : runs) busy += timed.end - timed.begin;
  return clocks > 0 ? 1 - busy / (clocks * static_cast<double>(meshes.size())) : 0;
}

Timeline play(const PipelineSchedule& schedule, const RunTimes& times) {
  Timeline timeline = Player(schedule, times).run();
  for (const std::vector<RegionRun>& runs : schedule) timeline.in_flight.push_back(in_flight(runs));
  return timeline;
}

Timeline play(const PipelineSchedule& schedule, const RunClocks& clocks) {
  return play(schedule,
              {[&](int /*stage*/, const RegionRun& run) { return clocks_of(run, clocks); },
               [](int /*from*/, int /*to*/) { return 0; }});
}

std::string to_string(const Timeline& timeline) {
  std::string text = fmt::format("mesh {} mb {} clocks {}\n", timeline.meshes.size(),
                                 timeline.micro_batches, timeline.clocks);
  for (std::size_t mesh = 0; mesh < timeline.meshes.size(); ++mesh)
    text += fmt::format("  m{}:{}\n", mesh,
                        row_of(timeline.meshes[mesh], timeline.clocks, timeline.micro_batches));
  const Shape in_flight(timeline.in_flight.begin(), timeline.in_flight.end());
  return text + fmt::format("  max in flight {}\n", alpa::to_string(in_flight));
}

}  // namespace alpa::pipeline
