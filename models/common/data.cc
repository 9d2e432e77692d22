// models/common/data.cc — data sets of the example programs
#include "models/common/data.h"

#include <cmath>

namespace programs {

using namespace alpa;

namespace {

constexpr const char* kTutorial = "tutorial";
constexpr const char* kFashionMnist = "fashion-mnist";

/// Every feature to mean 0 and variance 1 (a constant one to 0).
void standardise(Dataset& data) {
  const std::int64_t rows = data.size(), columns = data.features();
  auto x = data.x.mutable_elements_as<float>();
  for (std::int64_t column = 0; column < columns; ++column) {
    double sum = 0, squares = 0;
    for (std::int64_t row = 0; row < rows; ++row) sum += x[row * columns + column];
    const double mean = sum / static_cast<double>(rows);
    for (std::int64_t row = 0; row < rows; ++row)
      squares += std::pow(x[row * columns + column] - mean, 2);
    const double deviation = std::sqrt(squares / static_cast<double>(rows));
    const double scale = deviation > 0 ? 1 / deviation : 0;
    for (std::int64_t row = 0; row < rows; ++row) {
      float& value = x[row * columns + column];
      value = static_cast<float>((value - mean) * scale);
    }
  }
}

/// Bytes of the tutorial's x and y of [batch, dim] and weights of [dim, dim].
double tutorial_bytes(std::int64_t batch, std::int64_t dim) {
  const auto rows = static_cast<double>(batch), columns = static_cast<double>(dim);
  return 4 * columns * (2 * rows + columns);
}

}  // namespace

void require_memory(double bytes, const std::string& sizes) {
  const std::int64_t available = available_host_bytes();
  require(
      bytes <= static_cast<double>(available),
      "{}: making data for them takes {:.3g} bytes, but {} are available; lower one of them, or "
      "plan with --plan-only",
      sizes, bytes, available);
}

TaskData load_data(const Flags& flags) {
  const std::string& data = flags.data;
  if (data == kTutorial) {
    const TensorType examples{f32, {flags.batch, flags.dim}};
    if (flags.plan_only) return {examples, examples, 0};
    require_memory(tutorial_bytes(flags.batch, flags.dim),
                   fmt::format("--batch is {} and --dim is {}", flags.batch, flags.dim));
    return linear_dataset(flags.batch, flags.dim, static_cast<std::uint64_t>(flags.seed));
  }
  if (data == kFashionMnist || data.starts_with(std::string(kFashionMnist) + ":")) {
    const std::size_t colon = data.find(':');
    TrainingAndTestSet sets =
        load_fashion_mnist(colon == data.npos ? kFashionMnistDirectory : data.substr(colon + 1));
    return {std::move(sets.training), std::move(sets.test)};
  }
  require(data.ends_with(".csv"), "--data is '{}'; it must be {}, {}[:DIR] or a file FILE.csv",
          data, kTutorial, kFashionMnist);
  Dataset table = read_csv(data);
  standardise(table);
  return table;
}

Task dataset_task(const Flags& flags, const TaskData& data,
                  std::function<LossAndMetrics(const Batch&)> model) {
  require(flags.batch <= data.x.shape.at(0), "--batch is {}, but there are only {} examples",
          flags.batch, data.x.shape[0]);
  TensorType x = data.x, y = data.y;
  x.shape[0] = y.shape[0] = flags.batch;
  Task task{
      .model = std::move(model), .inputs = {{"x", x}, {"y", y}}, .items_per_step = flags.batch};
  if (flags.plan_only) return task;
  task.training = batches(data.training, flags.batch, static_cast<std::uint64_t>(flags.seed),
                          {.drop_last = true});
  if (!data.test.x.shape().empty()) task.test = batches(data.test, flags.batch);
  return task;
}

}  // namespace programs
