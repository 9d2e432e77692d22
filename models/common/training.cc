// models/common/training.cc — trains a number of steps, and compares the result with one device
#include "models/common/training.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <limits>

#include "alpa/base/text.h"

namespace programs {

using namespace alpa;

namespace {

using Clock = std::chrono::steady_clock;

/// Seconds between two lines of progress.
constexpr double kLiveInterval = 0.1, kPlainInterval = 2;

double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

/// "0:07", "1:02:03".
std::string duration_text(double seconds) {
  const auto whole = static_cast<long long>(std::llround(seconds));
  const long long hours = whole / 3600, minutes = whole / 60 % 60;
  return hours > 0 ? fmt::format("{}:{:02}:{:02}", hours, minutes, whole % 60)
                   : fmt::format("{}:{:02}", minutes, whole % 60);
}

/// The share of a measured peak. Nothing exceeds a peak: what is faster is one.
double share_of(double peak_rate, double rate) { return rate / std::max(peak_rate, rate); }

/// A step's items, of which progress tells, and its floating-point operations.
struct Work {
  double items = 0, flops = 0;
};

/// The work of a step with these inputs, which has as many items as they have elements.
Work work_of(const Task& task, const std::vector<BatchInput>& inputs, const Executable& step) {
  const auto elements = [](const std::vector<BatchInput>& of) {
    return of.empty() ? 1 : static_cast<double>(num_elements(of.front().type.shape));
  };
  return {static_cast<double>(task.items_per_step) * elements(inputs) / elements(task.inputs),
          flops_per_step(step.graph())};
}

/// Whether the batch has this input in its type.
bool takes(const BatchInput& input, const BatchData& batch) {
  const auto found = batch.find(input.name);
  return found != batch.end() && found->second.type() == input.type;
}

/// The progress of a run: on a terminal one live line, otherwise plain lines at intervals.
struct Progress {
  const Task& task;
  std::int64_t first, steps;   ///< that an earlier run did, and all with them
  std::int64_t planned_bytes;  ///< peak of one device
  double peak_rate;            ///< FLOP/s of matrix products alone, or 0 if nobody knows
  std::int64_t done = first;
  Work work = {};  ///< of the steps done
  bool live = isatty(fileno(stdout)) != 0;
  Clock::time_point start = Clock::now(), last_line = start;

  bool due(Clock::time_point now) const {
    if (done == first + 1 || done == steps) return true;
    return seconds_between(last_line, now) >= (live ? kLiveInterval : kPlainInterval);
  }

  /// FLOP/s and their share of the peak; in a live line, which must be short, one of them.
  std::string speed_text(double rate) const {
    const std::string flops = fmt::format("{:.1f} GFLOP/s", rate * 1e-9);
    if (peak_rate == 0) return flops;
    const std::string share = fmt::format("{:.0f} % of peak", 100 * share_of(peak_rate, rate));
    return live ? share : fmt::format("{} ({})", flops, share);
  }

  /// After every step; `loss` as it reported it, `bytes` of a device in use.
  void step(double loss, std::int64_t bytes, const Work& of_step) {
    ++done;
    work.items += of_step.items, work.flops += of_step.flops;
    const Clock::time_point now = Clock::now();
    if (!due(now)) return;
    last_line = now;
    const double taken = seconds_between(start, now);
    const double per_step = taken / static_cast<double>(done - first);
    const double shown = std::isnan(loss) ? std::abs(loss) : loss;  // a NaN's sign says nothing
    const std::string line =
        fmt::format("step {:>{}}/{}  loss {:.4f}  {:.0f} {}/s  {}  {}  ETA {}", done,
                    fmt::formatted_size("{}", steps), steps, shown, work.items / taken, task.item,
                    speed_text(work.flops / taken),
                    live ? bytes_text(static_cast<double>(bytes)) + " in use"
                         : bytes_text(static_cast<double>(planned_bytes)) + " per device planned",
                    duration_text(per_step * static_cast<double>(steps - done)));
    // A line that is wider than the terminal is cut, not wrapped: it could not be replaced.
    fmt::print("{}{}{}{}", live ? "\r\033[K\033[?7l" : "", line, live ? "\033[?7h" : "",
               live && done < steps ? "" : "\n");
    std::fflush(stdout);
  }
};

/// Writes to one of the logs of a run, if there is one. A failure is told of at once.
template <class Log, class Write>
void write_to(std::optional<Log>& log, std::string& unwritten, Write&& write) {
  try {
    if (log) write(*log);
  } catch (const Error& error) {
    fmt::print(stderr, "{}; the run goes on without it\n", error.what());
    if (unwritten.empty()) unwritten = error.what();
    log.reset();
  }
}

/// The numbers of a step that is over, by the names of their curves.
std::map<std::string, double> curves_of(const Task& task, const ReportOptions& options,
                                        const RunResult& result, const Work& work,
                                        std::map<std::string, double> curves) {
  const std::size_t steps = result.losses.size();
  const double seconds = result.seconds[steps - 1];
  curves["step_seconds"] = seconds;
  curves[task.item + "_per_second"] = work.items / seconds;
  if (options.peak_rate > 0)
    curves["share_of_peak"] = share_of(options.peak_rate, work.flops / seconds);
  curves["memory_bytes"] = static_cast<double>(result.measured_bytes);
  const auto scalars = options.scalars(result.first_step + static_cast<std::int64_t>(steps));
  if (const auto rate = scalars.find("learning_rate"); rate != scalars.end()) curves.insert(*rate);
  return curves;
}

}  // namespace

void Run::add_to_board(std::int64_t step, const std::map<std::string, double>& values) {
  write_to(board, unwritten, [&](EventLog& events) { events.scalars(step, values); });
}

Run train(const Task& task, Executable executable, std::int64_t steps, std::uint64_t seed,
          const ReportOptions& options, Checkpoints* saved, std::span<const Executable> shorter) {
  Run run{executable, executable.init(seed), {}};
  if (task.load) task.load(run.state);
  const Batches& examples = task.training.value();
  const std::int64_t epochs = (steps + examples.size() - 1) / examples.size();
  std::optional<ResumedBatches> rest;
  if (saved) rest.emplace(saved->resume(executable, run.state, examples, epochs));
  const std::int64_t first = run.result.first_step = run.state.step();
  std::int64_t planned_bytes = executable.memory_bytes();
  std::vector<Work> works{work_of(task, task.inputs, executable)};
  for (const Executable& other : shorter) {
    planned_bytes = std::max(planned_bytes, other.memory_bytes());
    works.push_back(work_of(task, task.shorter[works.size() - 1], other));
  }
  Progress progress{task, first, steps, planned_bytes, options.peak_rate};
  if (!options.log.empty()) run.log.emplace(options.log, first);
  if (!options.board.empty()) run.board.emplace(options.board, first);
  // A step's loss is read when the next one has been started: on CUDA the
  // devices never wait for the host.
  std::optional<StepResult> under_way;
  Work work;  // of that step
  const auto finish = [&] {
    RunResult& result = run.result;
    result.losses.push_back(under_way->metrics[task.loss]);
    // The processes of a launch ask together: at a step, not when one of them prints a line.
    if (result.losses.size() == 1) result.measured_bytes = executable.measured_bytes(run.state);
    write_to(run.log, run.unwritten, [&](LossLog& log) {
      log.add(result.losses.back(), result.seconds[result.losses.size() - 1]);
    });
    if (run.board)
      run.add_to_board(first + static_cast<std::int64_t>(result.losses.size()),
                       curves_of(task, options, result, work, under_way->metrics.values()));
    if (options.progress) progress.step(result.losses.back(), result.measured_bytes, work);
  };
  const auto run_step = [&](const BatchData& batch) {
    const auto start = std::chrono::steady_clock::now();
    std::size_t shape = shorter.size();  // 0: of the task's `inputs`
    while (shape > 0 && !takes(task.shorter[shape - 1].front(), batch)) --shape;
    run.last = shape > 0 ? shorter[shape - 1] : executable;
    StepResult next = run.last.run(run.state, batch);
    if (under_way) finish();
    under_way = std::move(next);
    work = works[shape];
    if (options.check_replicas > 0 && run.state.step() % options.check_replicas == 0)
      run.state.check_replicas();
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    run.result.seconds.push_back(taken.count());
  };
  if (rest) {
    auto batch = rest->begin();
    for (; batch != rest->end() && run.state.step() < steps; ++batch) run_step(*batch);
    if (batch != rest->end() && run.state.step() > first) saved->save(run.state);
    saved->wait();
  } else {
    for (const auto& batch : examples.epochs(0, epochs)) {
      if (run.state.step() == steps) break;
      run_step(batch);
    }
  }
  if (under_way) finish();
  run.result.measured_bytes = executable.measured_bytes(run.state);
  run.result.exchange_bytes = executable.exchange_bytes();
  run.result.communication = run.last.measured_traffic();
  return run;
}

double RunResult::median_seconds() const {
  std::vector<double> sorted = seconds;
  std::sort(sorted.begin(), sorted.end());
  const std::size_t n = sorted.size();
  return n == 0 ? 0 : (sorted[(n - 1) / 2] + sorted[n / 2]) / 2;
}

DType computed_in(const Graph& graph) {
  const auto flops = [&](DType type) { return flops_per_step(graph, type); };
  return std::ranges::max({f32, bf16, f16, f64}, {}, flops);
}

std::vector<Executable> serial_reference(std::span<const TrainingStep> steps, int num_micro_batches,
                                         const Cluster& cluster, bool reproducible) {
  Serial method{.num_micro_batches = num_micro_batches, .executor = {.reproducible = reproducible}};
  method.memory_budget_bytes = std::numeric_limits<std::int64_t>::max() / 2;
  return parallelize(steps, method, cluster);
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  invariant(a.size() == b.size(), "difference of {} and {} numbers", a.size(), b.size());
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) || std::isnan(b[i])) return std::numeric_limits<double>::quiet_NaN();
    if (a[i] != b[i]) largest = std::max(largest, std::abs(a[i] - b[i]));
  }
  return largest;
}

double max_abs_parameter_difference(const Run& run, const Run& reference) {
  double largest = 0;
  for (const std::string& name : parameter_names(run.executable.graph())) {
    const double here = largest_difference(run.state[name].to_host().to_doubles(),
                                           reference.state[name].to_host().to_doubles());
    if (std::isnan(here)) return here;
    largest = std::max(largest, here);
  }
  return largest;
}

}  // namespace programs
