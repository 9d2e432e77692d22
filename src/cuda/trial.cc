// src/cuda/trial.cc — times alternatives against each other on the current device
#include "trial.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <cstdio>

#include "alpa/base/error.h"
#include "kernels/cuda/random.h"
#include "status.h"

namespace alpa::cuda {
namespace {

constexpr int kRounds = 5;
/// least seconds per alternative and round, up to kMostRuns runs
constexpr double kRoundSeconds = 5e-4;
constexpr int kMostRuns = 20;  ///< per alternative and round
/// Bytes left free, beside those that the kernels of an earlier trial took when they were loaded,
/// at their first run. Of the latter at most kMostLoadedBytes count: others may have taken them.
constexpr std::int64_t kReserveBytes = std::int64_t{64} << 20,
                       kMostLoadedBytes = std::int64_t{1} << 30;
std::atomic<std::int64_t> loaded_bytes{0};
/// An alternative must be this much faster than the first; smaller differences may be noise.
constexpr double kWorthIt = 0.99;

struct Runner {
  int way, runs;
  std::vector<double> seconds = {};
};

}  // namespace

std::int64_t free_bytes() {
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return static_cast<std::int64_t>(free);
}

std::optional<Trial> Trial::of(std::int64_t bytes) {
  if (bytes + kReserveBytes + loaded_bytes > free_bytes()) return std::nullopt;
  return Trial();
}

Trial::Trial()
    : stream_(make_stream()),
      start_(make_event(true)),
      stop_(make_event(true)),
      step_(allocate_device(sizeof(StepNumbers))) {
  check(cudaMemset(step_.get(), 0, sizeof(StepNumbers)), "cudaMemset");
  check(cudaDeviceSynchronize(),
        "cudaDeviceSynchronize");  // the stream does not wait for the memset
}

std::byte* Trial::random(DType dtype, std::int64_t elements) {
  const auto bytes = elements * static_cast<std::int64_t>(size_of(dtype));
  std::byte* const data = scratch(bytes);
  const bool integers = dtype == u8 || dtype == i32;
  const std::int64_t drawn = integers ? bytes / 4 : elements, begin = 0;
  RandomLaunch launch;
  invariant(plan_random(launch, Distribution::uniform, integers ? f32 : dtype, memory_.size(), -1,
                        1, 1, &drawn, &begin, &drawn),
            "trial: {} random numbers", drawn);
  check(static_cast<cudaError_t>(
            run_random(launch, static_cast<const StepNumbers*>(step_.get()), data, stream_.get())),
        "random numbers of a trial");
  return data;
}

std::byte* Trial::scratch(std::int64_t bytes) {
  return static_cast<std::byte*>(memory_.emplace_back(allocate_device(bytes)).get());
}

/// Runs it once. A refused call leaves an error, which is cleared here; an error
/// that remains is the device's.
std::string Trial::refusal_of(const Way& way) const {
  std::string refusal;
  try {
    way(stream_.get());
  } catch (const Error& error) {
    refusal = error.what();
    cudaGetLastError();
  }
  check(cudaStreamSynchronize(stream_.get()), "cudaStreamSynchronize");
  return refusal;
}

/// Seconds of one run: the mean of `runs` runs in a row.
double Trial::seconds(const Way& way, int runs) const {
  check(cudaEventRecord(start_.get(), stream_.get()), "cudaEventRecord");
  for (int i = 0; i < runs; ++i) way(stream_.get());
  check(cudaEventRecord(stop_.get(), stream_.get()), "cudaEventRecord");
  return seconds_between(start_.get(), stop_.get()) / runs;
}

Trial::Outcome Trial::run(const std::vector<Way>& ways, const Stopwatch& node) const {
  const auto in_time = [&] { return node.seconds() < kNodeSeconds; };
  const std::int64_t free_before = free_bytes();
  Outcome outcome;
  std::vector<Runner> runners;
  for (std::size_t i = 0; i < ways.size() && (runners.empty() || in_time()); ++i) {
    const std::string refusal = refusal_of(ways[i]);  // loads kernels, too
    if (refusal.empty())
      runners.push_back({static_cast<int>(i), 1});
    else if (outcome.refusal.empty())
      outcome.refusal = refusal;
  }
  loaded_bytes = std::clamp(free_before - free_bytes(), loaded_bytes.load(), kMostLoadedBytes);
  if (!runners.empty()) outcome.fastest = runners[0].way;
  if (runners.size() < 2) return outcome;
  for (Runner& runner : runners) {
    runner.seconds = {seconds(ways[runner.way], 1)};  // counts if no round follows
    runner.runs = static_cast<int>(
        std::clamp(kRoundSeconds / std::max(runner.seconds[0], 1e-9), 1.0, 1.0 * kMostRuns));
  }
  for (int round = 0; round < kRounds && in_time(); ++round)
    for (Runner& runner : runners) {
      if (round == 0) runner.seconds.clear();
      runner.seconds.push_back(seconds(ways[runner.way], runner.runs));
    }
  std::vector<double> medians;
  for (const Runner& runner : runners) medians.push_back(median(runner.seconds));
  const auto best = std::min_element(medians.begin(), medians.end());
  if (*best < kWorthIt * medians[0]) outcome.fastest = runners[best - medians.begin()].way;
  return outcome;
}

bool Trial::prefers(const Way& second, const Way& first) const {
  const Outcome outcome = run({first, second});
  require(outcome.fastest >= 0, "{}", outcome.refusal);
  if (!outcome.refusal.empty())
    fmt::print(stderr, "alpa: {}; another form is computed\n", outcome.refusal);
  return outcome.fastest == 1;
}

}  // namespace alpa::cuda
