#pragma once
/// The task of a run: a model with its data.
#include <alpa/alpa.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace models {

/// Types of a model's data: a `Dataset` without the examples.
struct DataTypes {
  alpa::TensorType x, y;
  std::int64_t classes = 0;

  std::int64_t size() const { return x.shape.at(0); }
};

/// A model and the examples it learns from; `test` is empty if there is no test set.
struct Task {
  std::function<alpa::LossAndMetrics(const alpa::Batch&)> model;
  alpa::Dataset training, test;  ///< without examples where nothing is to be run
  DataTypes types;               ///< of the training set
  std::int64_t batch = 1;

  /// "x" and "y" of one step. Throws Error if the training set has fewer examples than one batch.
  std::vector<alpa::BatchInput> inputs() const;
  bool has_test_set() const { return !test.x.shape().empty(); }
};

/// The data a `--data` flag names: "tutorial" (`batch` examples of y = x·W + b + noise of dimension
/// `dim`), "fashion-mnist[:DIR]" or a CSV file, whose features are brought to mean 0 and variance
/// 1. Throws Error on anything else.
struct TaskData {
  alpa::Dataset training, test;
};
TaskData load_data(const std::string& data, std::int64_t batch, std::int64_t dim,
                   std::uint64_t seed);

/// The types of that training set; "tutorial" is not made for it. For planning alone.
DataTypes load_types(const std::string& data, std::int64_t batch, std::int64_t dim);
DataTypes types_of(const alpa::Dataset& data);

/// Batches of "x" and "y": every epoch in another order, which depends on the seed alone; the
/// examples left over at the end of an epoch are skipped in it.
class BatchStream {
 public:
  BatchStream(const alpa::Dataset& data, std::int64_t batch, std::uint64_t seed)
      : data_(data), batch_(batch), seed_(seed) {}
  std::map<std::string, alpa::Array> next();

 private:
  const alpa::Dataset& data_;
  std::int64_t batch_;
  std::uint64_t seed_;
  std::int64_t epoch_ = -1, position_ = 0;
  std::vector<std::int64_t> order_;
};

/// Share of the test examples the trained model gets right. `trained` holds the parameters.
double test_accuracy(const Task& task, const alpa::TrainState& trained, const alpa::Method& method,
                     const alpa::Cluster& cluster);

}  // namespace models
