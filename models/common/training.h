#pragma once
/// Runs a training step a number of times and collects the results.
#include <optional>
#include <span>

#include "models/common/curve.h"
#include "models/common/flags.h"
#include "models/common/task.h"

namespace programs {

/// Measurements of a run.
struct RunResult {
  std::int64_t first_step = 0;                         ///< of this run; those before were resumed
  std::vector<double> losses, seconds;                 ///< per step
  std::int64_t measured_bytes = 0;                     ///< peak per device, maximum over devices
  std::int64_t exchange_bytes = 0;                     ///< `Executable::exchange_bytes`
  std::map<std::string, alpa::Traffic> communication;  ///< of one step, per device
  std::optional<double> max_abs_parameter_difference;  ///< from the run on one device
  std::map<std::string, double> test;                  ///< metrics of the test set; empty: none

  double median_seconds() const;  ///< of a step; 0 without steps
};

/// A run that is over: its executable, the trained state and the measurements. A log that can't be
/// written any more does not end it.
struct Run {
  alpa::Executable executable;
  alpa::TrainState state;
  RunResult result;
  std::optional<LossLog> log = {};           ///< of --log
  std::optional<alpa::EventLog> board = {};  ///< of --tensorboard
  std::string unwritten = {};                ///< the first failure of one of them; "": none
  alpa::Executable last = executable;        ///< of the last step

  /// Adds numbers of a step to `board`, if there is one.
  void add_to_board(std::int64_t step, const std::map<std::string, double>& values);
};

/// Reports of a run while it goes on; by default none.
struct ReportOptions {
  bool progress = false;
  double peak_rate = 0;    ///< FLOP/s, of which shares are told; 0: nobody knows
  std::string log;         ///< file of losses; "": none
  std::string board = {};  ///< folder of events for TensorBoard; "": none
  /// `TrainingStep::scalars`, for the learning rate on the board.
  std::function<std::map<std::string, double>(std::int64_t step)> scalars = {};
  std::int64_t check_replicas = 0;  ///< steps between comparisons of replicas; 0: none
};

/// Trains from `seed` up to step `steps` on the task's batches. With `saved`, from where its newest
/// checkpoint ended; the end is saved, too. `shorter`: the executables for `Task::shorter`.
Run train(const Task& task, alpa::Executable executable, std::int64_t steps, std::uint64_t seed,
          const ReportOptions& options = {}, alpa::Checkpoints* saved = nullptr,
          std::span<const alpa::Executable> shorter = {});

/// Element type of most floating-point operations of a step.
alpa::DType computed_in(const alpa::Graph& graph);

/// The steps on one device, whatever memory they take: the reference.
std::vector<alpa::Executable> serial_reference(std::span<const alpa::TrainingStep> steps,
                                               int num_micro_batches, const alpa::Cluster& cluster,
                                               bool reproducible);

/// Largest |a - b| of elements at the same place. NaN if an element of either is NaN, also if
/// both are: runs that diverged are not alike. Infinite where only one is infinite; 0 where
/// both are the same infinity.
double largest_difference(const std::vector<double>& a, const std::vector<double>& b);

/// `largest_difference` of equally named parameters, the largest of all; NaN if one of them is.
double max_abs_parameter_difference(const Run& run, const Run& reference);

}  // namespace programs
