#pragma once
/// Data sets of examples with features and targets, by the names of `--data`.
#include "models/common/flags.h"
#include "models/common/task.h"

namespace programs {

/// The data of a task, without the examples if it is only planned.
struct TaskData {
  alpa::TensorType x, y;                   ///< of all examples
  std::int64_t classes = 0;                ///< 0: `y` holds values
  alpa::Dataset training = {}, test = {};  ///< `test` is empty also if there is no test set

  TaskData(alpa::TensorType examples, alpa::TensorType targets, std::int64_t number_of_classes)
      : x(std::move(examples)), y(std::move(targets)), classes(number_of_classes) {}
  /// With the types of the examples.
  TaskData(alpa::Dataset examples, alpa::Dataset of_test = {})
      : TaskData(examples.x.type(), examples.y.type(), examples.classes) {
    training = std::move(examples), test = std::move(of_test);
  }
};

/// Throws Error if made data of so many bytes do not fit into the memory that is available.
/// `sizes`: the flags that they follow from, "--batch is 8 and --dim is 16".
void require_memory(double bytes, const std::string& sizes);

/// The data of --data: "tutorial" (--batch examples of y = x·W + b + noise of dimension --dim, not
/// made for planning alone), "fashion-mnist[:DIR]" or a CSV file, whose features are brought to
/// mean 0 and variance 1. Throws Error on anything else.
TaskData load_data(const Flags& flags);

/// A task on "x" and "y" of --batch examples, shuffled by --seed. Throws Error if there are fewer.
Task dataset_task(const Flags& flags, const TaskData& data,
                  std::function<alpa::LossAndMetrics(const alpa::Batch&)> model);

}  // namespace programs
