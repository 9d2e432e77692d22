#pragma once
/// The task of a run: a model with its data.
#include <alpa/alpa.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace programs {

/// A model and the examples it learns from.
struct Task {
  std::function<alpa::LossAndMetrics(const alpa::Batch&)> model;
  std::vector<alpa::BatchInput> inputs;  ///< of one step
  /// Inputs of the same step on batches of other shapes; empty: all batches have one.
  std::vector<std::vector<alpa::BatchInput>> shorter = {};
  /// Instead of `model`: a step that is given, without an evaluation.
  std::optional<alpa::TrainingStep> step = {};
  std::string loss = "loss";  ///< the metric that progress and logs show
  /// Absent where nothing is to be run; `test` also where there is no test set.
  std::optional<alpa::Batches> training = {}, test = {};
  /// Changes the parameters before the first step, e.g. to those of a file; empty: as initialised.
  std::function<void(alpa::TrainState&)> load = {};
  std::optional<alpa::Lora> lora = {};          ///< adapters that alone are trained
  std::vector<alpa::Quantized> quantized = {};  ///< layers with quantised kernels
  /// What progress counts, and how many of them a step takes: "samples", "tokens".
  std::string item = "samples";
  std::int64_t items_per_step = 1;
};

}  // namespace programs
