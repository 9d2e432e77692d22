#pragma once
/// Checks the result of every compiler pass, dumps it where the user asks for it (`dump_dir`), and
/// keeps what the phases of planning took.
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "alpa/ir/graph.h"
#include "src/base/file.h"
#include "src/base/processor_watch.h"
#include "src/spmd/program.h"

namespace alpa {

/// Keeps the phases of planning a step and what they took. One thread.
class PlanningClock {
 public:
  /// The next plan of the step may take `limit` seconds beside tracing, and `kOvertimeSeconds`.
  void begin(double limit);

  /// The time since the last phase was spent on this one.
  void finished(std::string_view phase);

  /// True if the limit has passed by more than `kOvertimeSeconds`.
  bool is_late() const;

  /// "solver_seconds is 3, but planning took 9.2 s: 3.1 s tracing, …; raise solver_seconds, or …".
  std::string late_text() const;

  /// "3.1 s tracing, 5.0 s searching, …": of all plans of the step so far.
  std::string phases_text() const;

 private:
  static constexpr std::string_view kTracing = "tracing";

  double limit_ = 0, begin_ = 0, last_ = 0;
  double tracing_ = 0;  ///< since `begin_`
  ProcessorWatch watch_;
  std::vector<std::pair<std::string_view, double>> phases_;  ///< seconds, in the order of the first
};

/// Dumped files are numbered in the order in which the passes first ran: "01_graph.txt".
class PassLog {
 public:
  /// `directory` is made if it is missing; empty: nothing is dumped. Throws
  /// Error if it cannot be made.
  explicit PassLog(std::string directory);

  /// Logs and dumps the result of pass `name`. Throws Bug if it breaks an invariant.
  Graph check(std::string_view name, Graph graph) const;
  spmd::SpmdProgram check(std::string_view name, spmd::SpmdProgram program) const;

  /// Dumps the text that `text` returns; it is called only if there is a directory.
  template <class Text>
  void write(std::string_view name, Text&& text) const {
    if (!directory_.empty()) write_file(path_of(name), std::forward<Text>(text)());
  }

  /// A plan is made from here on, in so many seconds (PlanningClock).
  void begin_plan(double solver_seconds) const {
    if (!clock_) clock_.emplace();
    clock_->begin(solver_seconds);
  }

  /// Ends the current phase of planning.
  void finished(std::string_view phase) const {
    if (clock_) clock_->finished(phase);
  }

  /// Phases and their seconds, if planning takes too long; else empty.
  std::string overtime() const { return clock_ && clock_->is_late() ? clock_->late_text() : ""; }

  /// Phases of planning and their seconds; empty if nothing was planned.
  std::string phases() const { return clock_ ? clock_->phases_text() : ""; }

 private:
  std::string path_of(std::string_view name) const;

  std::string directory_;
  mutable std::vector<std::string> names_;  ///< of the files written so far
  mutable std::optional<PlanningClock> clock_;
};

}  // namespace alpa
