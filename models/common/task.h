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

}  // namespace models
