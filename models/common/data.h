#pragma once
/// Data sets of examples with features and targets, by the names of `--data`.
#include <alpa/alpa.h>

#include <string>

namespace programs {

/// Types of a model's data: a `Dataset` without the examples.
struct DataTypes {
  alpa::TensorType x, y;
  std::int64_t classes = 0;

  std::int64_t size() const { return x.shape.at(0); }
};

/// Throws Error if made data of so many bytes do not fit into the memory that is available.
/// `sizes`: the flags that they follow from, "--batch is 8 and --dim is 16".
void require_memory(double bytes, const std::string& sizes);

/// The data a `--data` flag names: "tutorial" (`batch` examples of y = x·W + b + noise of dimension
/// `dim`), "fashion-mnist[:DIR]" or a CSV file, whose features are brought to mean 0 and variance
/// 1. Throws Error on anything else.
struct TaskData {
  alpa::Dataset training, test;  ///< `test` is empty if there is no test set
};
TaskData load_data(const std::string& data, std::int64_t batch, std::int64_t dim,
                   std::uint64_t seed);

/// The types of that training set; "tutorial" is not made for it. For planning alone.
DataTypes load_types(const std::string& data, std::int64_t batch, std::int64_t dim);
DataTypes types_of(const alpa::Dataset& data);

/// "x" and "y" of one step. Throws Error if there are fewer examples than one batch.
std::vector<alpa::BatchInput> inputs_of(const DataTypes& types, std::int64_t batch);

}  // namespace programs
