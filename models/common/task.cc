// models/common/task.cc — tasks on data sets
#include "models/common/task.h"

namespace programs {

using namespace alpa;

Task dataset_task(std::function<LossAndMetrics(const Batch&)> model, std::vector<BatchInput> inputs,
                  const Dataset& training, const Dataset& test, std::uint64_t seed) {
  const std::int64_t batch = inputs.at(0).type.shape.at(0);
  Task task{.model = std::move(model), .inputs = std::move(inputs), .items_per_step = batch};
  const auto has_examples = [](const Dataset& data) { return !data.x.shape().empty(); };
  if (has_examples(training)) task.training = batches(training, batch, seed, {.drop_last = true});
  if (has_examples(test)) task.test = batches(test, batch);
  return task;
}

}  // namespace programs
