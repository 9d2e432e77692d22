// src/search/bound/label_program.cc — labels of partitions, from the last layer to the first
#include "src/search/bound/label_program.h"
#include "src/base/work.h"
#include "src/search/tuning.h"

#include <algorithm>
#include <utility>

namespace alpa::inter_op {

LabelProgram::LabelProgram(const StageCosts& costs, const Tiling& tiling,
                           std::function<bool(double work)> is_over)
    : costs_(costs), tiling_(tiling), is_over_(std::move(is_over)) {
  for (const std::vector<TilingStep>& steps : tiling.steps) {
    auto& next = next_.emplace_back(tiling.states);
    for (const TilingStep& step : steps)
      for (int i = 0; i < step.count; ++i) next[step.from + i].push_back(step.to + i);
  }
  set_transfers();
}

void LabelProgram::drop_small_differences(double seconds) {
  if (*std::max_element(slack_.begin(), slack_.end()) > seconds) return;
  for (auto row = transfers_.begin(); row != transfers_.end(); row += costs_.parts())
    std::fill_n(row, costs_.parts(), *std::min_element(row, row + costs_.parts()));
  std::fill(slack_.begin(), slack_.end(), 0);
}

double LabelProgram::quick_bound(OnceRange once, double below) {
  begin(once, below);
  const std::size_t all = rest(costs_.layers(), 0);
  return std::max(rest_alone_[all], with_rest({}, all));
}

Found LabelProgram::solve(OnceRange once, double below) {
  begin(once, below);
  below_ = below;
  found_ = {};
  const int layers = costs_.layers();
  buckets_.assign(layers + 1, {}), index_.assign(layers + 1, {});
  buckets_[layers].push_back({0, 0, {Label{}}});
  for (int end = layers; end > 0 && !ended_; --end) {
    const auto candidates = candidates_before(end);
    for (int b = 0; b < static_cast<int>(buckets_[end].size()) && !ended_; ++b)
      extend(end, b, candidates);
    index_[end] = {};
  }
  found_.is_complete = !ended_;
  return std::move(found_);
}

std::size_t LabelProgram::rest(int layers, int state) const {
  return static_cast<std::size_t>(layers) * tiling_.states + state;
}

double LabelProgram::transfer(int layer, int before, int after) const {
  return after < 0 ? 0
                   : transfers_[(static_cast<std::size_t>(layer) * costs_.parts() + before) *
                                    costs_.parts() +
                                after];
}

double LabelProgram::slack(int layer, int better, int worse) const {
  return slack_[(static_cast<std::size_t>(layer) * costs_.parts() + better) * costs_.parts() +
                worse];
}

void LabelProgram::set_transfers() {
  const int parts = costs_.parts();
  transfers_.assign(static_cast<std::size_t>(costs_.layers()) * parts * parts, 0);
  slack_ = transfers_;
  for (int layer = 1; layer < costs_.layers(); ++layer) {
    const std::size_t at = static_cast<std::size_t>(layer) * parts * parts;
    for (int before = 0; before < parts; ++before)
      for (int after = 0; after < parts; ++after)
        transfers_[at + before * parts + after] = costs_.transfer(layer, before, after);
    for (int better = 0; better < parts; ++better)
      for (int worse = 0; worse < parts; ++worse)
        for (int before = 0; before < parts; ++before)
          slack_[at + better * parts + worse] =
              std::max(slack_[at + better * parts + worse],
                       transfer(layer, before, better) - transfer(layer, before, worse));
  }
}

void LabelProgram::begin(OnceRange once, double below) {
  if (stages_.empty() || once.least != once_.least || once.most != once_.most ||
      below > stages_below_) {
    once_ = once, stages_below_ = below;
    schedule_ = costs_.schedule();
    schedule_.once = once.least;
    stages_.resize(costs_.ranges() * costs_.kinds_of_memory());
    work_ += static_cast<double>(stages_.size());
    costs_.for_each_range([&](int first, int last, int part) {
      const std::size_t at = costs_.range(first, last, part);
      stages_[at] = costs_.runs(first, last, part, 0, once);
      const bool is_used = stages_[at].alone < below;  // of other kinds it takes no less
      for (int kind = 1; kind < costs_.kinds_of_memory(); ++kind)
        stages_[kind * costs_.ranges() + at] =
            is_used ? costs_.runs(first, last, part, kind, once) : stages_[at];
    });
  }
  sum_up_rest(below);
}

void LabelProgram::sum_up_rest(double below) {
  constexpr double kSumsPerLabel = 8;  // states of a step follow each other in memory
  const std::size_t size = rest(costs_.layers() + 1, 0);
  for (auto* sums : {&rest_sum_, &rest_alone_, &rest_longer_}) sums->assign(size, kInfinity);
  const std::size_t none = rest(0, tiling_.full);
  rest_sum_[none] = rest_alone_[none] = rest_longer_[none] = 0;
  for (int layers = 1; layers <= costs_.layers(); ++layers)
    for (const auto& [first, part] : candidates_before(layers, below)) {
      const StageRuns& stage = stages_[costs_.range(first, layers - 1, part)];
      const double before = schedule_.before(stage, 0), longer = longer_run(stage);
      for (const TilingStep& step : tiling_.steps[part]) {
        const std::size_t from = rest(first, step.to), to = rest(layers, step.from);
        work_ += step.count / kSumsPerLabel;
        for (int i = 0; i < step.count; ++i) {
          if (rest_alone_[from + i] == kInfinity) continue;
          const auto least = [&](std::vector<double>& sums, double sum) {
            sums[to + i] = std::min(sums[to + i], sum);
          };
          least(rest_sum_, rest_sum_[from + i] + before);
          least(rest_alone_, std::max(rest_alone_[from + i], stage.alone));
          least(rest_longer_, std::max(rest_longer_[from + i], longer));
        }
      }
    }
}

double LabelProgram::longer_run(const StageRuns& stage) const {
  switch (schedule_.kind) {
    case ScheduleKind::gpipe:
    case ScheduleKind::inference: return stage.least;
    case ScheduleKind::one_f_one_b:
    case ScheduleKind::one_f_one_b_overlap:
      return std::max({stage.forward, stage.backward, stage.least / 2});
    case ScheduleKind::zero_bubble:
    case ScheduleKind::interleaved_one_f_one_b: return 0;
  }
  return 0;
}

double LabelProgram::with_rest(const PathSums& sums, std::size_t rest) const {
  return std::max(sums.step + rest_sum_[rest],
                  sums.to_end + rest_sum_[rest] + schedule_.once +
                      (costs_.micro_batches() - 1) * rest_longer_[rest]);
}

std::vector<LabelProgram::Candidate> LabelProgram::candidates_before(int end, double below) const {
  std::vector<Candidate> candidates;
  for (int first = end - 1; first >= 0; --first)
    for (int part = 0; part < costs_.parts(); ++part)
      if (stages_[costs_.range(first, end - 1, part)].alone < below)
        candidates.push_back({first, part});
  return candidates;
}

void LabelProgram::extend(int end, int bucket, const std::vector<Candidate>& candidates) {
  const auto [state, count] = std::pair(buckets_[end][bucket].state, buckets_[end][bucket].count);
  const int kind = costs_.kind_of_memory(count);
  if (kind == costs_.kinds_of_memory()) return;
  const int in_flight = schedule_.in_flight(count);
  for (const Candidate& candidate : candidates) {
    const StageRuns& stage =
        stages_[kind * costs_.ranges() + costs_.range(candidate.first, end - 1, candidate.part)];
    if (stage.alone >= below_) continue;
    for (const int next : next_[candidate.part][state]) {
      const std::size_t left = rest(candidate.first, next);
      if (rest_alone_[left] >= below_) continue;
      if (is_ended()) return;
      Bucket* to = nullptr;
      const std::vector<Label>& labels = buckets_[end][bucket].labels;
      work_ += static_cast<double>(labels.size());
      for (int l = 0; l < static_cast<int>(labels.size()); ++l) {
        const Label& behind = labels[l];
        const double seconds = transfer(end, candidate.part, behind.part);
        if (behind.sums.step + schedule_.before(stage, seconds) + rest_sum_[left] >= below_)
          continue;
        const Label label{schedule_.with_stage(behind.sums, stage, seconds, in_flight), end - 1,
                          candidate.part, bucket, l};
        if (with_rest(label.sums, left) >= below_) continue;
        if (candidate.first == 0) {
          take(label);
          continue;
        }
        if (!to) to = &bucket_of(candidate.first, next, std::min(count + 1, costs_.counts() - 1));
        insert(candidate.first, label, to->labels);
      }
    }
  }
}

Bucket& LabelProgram::bucket_of(int layer, int state, int count) {
  std::vector<int>& index = index_[layer];
  if (index.empty()) index.assign(static_cast<std::size_t>(tiling_.states) * costs_.counts(), -1);
  int& at = index[static_cast<std::size_t>(state) * costs_.counts() + count];
  if (at < 0) {
    at = static_cast<int>(buckets_[layer].size());
    buckets_[layer].push_back({state, count, {}});
  }
  return buckets_[layer][at];
}

bool LabelProgram::is_ended() {
  constexpr double kBetween = 1e5;  // little work
  if (ended_ || work_ < asked_ + kBetween) return ended_;
  spend_work((work_ - asked_) * search::kTuning.step_bound.seconds_per_label);
  asked_ = work_;
  return ended_ = is_over_(work_);
}

void LabelProgram::insert(int layer, const Label& label, std::vector<Label>& labels) {
  work_ += static_cast<double>(labels.size());  // are compared
  const auto dominates = [&](const Label& a, const Label& b) {
    const double more = slack(layer, a.part, b.part);
    return a.sums.to_end + more <= b.sums.to_end && a.sums.step + more <= b.sums.step &&
           a.sums.forward <= b.sums.forward && a.sums.backward <= b.sums.backward;
  };
  for (const Label& other : labels)
    if (dominates(other, label)) return;
  std::erase_if(labels, [&](const Label& other) { return dominates(label, other); });
  labels.push_back(label);
}

void LabelProgram::take(const Label& label) {
  std::vector<Label> stages = {label};
  for (int end = label.last + 1, bucket = label.bucket, at = label.label; end < costs_.layers();) {
    const Label& next = buckets_[end][bucket].labels[at];
    stages.push_back(next);
    end = next.last + 1, bucket = next.bucket, at = next.label;
  }
  if (costs_.is_known(stages)) return;
  below_ = found_.seconds = label.sums.step;
  found_.stages = std::move(stages);
}

}  // namespace alpa::inter_op
