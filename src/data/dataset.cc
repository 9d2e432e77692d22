// src/data/dataset.cc — made data, and batches of data sets
#include "alpa/data/dataset.h"

#include <Eigen/Core>

#include "alpa/base/error.h"
#include "src/base/host_memory.h"

namespace alpa {
namespace {

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

Eigen::Map<Matrix> as_matrix(Array& array) {
  return {reinterpret_cast<float*>(array.mutable_data()), array.shape()[0],
          array.elements() / array.shape()[0]};
}

}  // namespace

std::int64_t available_host_bytes() { return host_memory().available_bytes; }

Dataset linear_dataset(std::int64_t n, std::int64_t dim, std::uint64_t seed) {
  require(n >= 1 && dim >= 1,
          "linear_dataset: {} examples of dimension {}; both must be at least 1", n, dim);
  Array x = standard_normal({n, dim}, seed, 1), w = standard_normal({dim, dim}, seed, 2);
  Array b = standard_normal({1, dim}, seed, 3), y = standard_normal({n, dim}, seed, 4);
  Eigen::Map<Matrix> target = as_matrix(y);
  target *= 0.1F;
  target.noalias() += as_matrix(x) * as_matrix(w);
  target.rowwise() += as_matrix(b).row(0);
  return {x, y, 0};
}

Batches batches(const Dataset& data, std::int64_t batch, std::optional<std::uint64_t> seed,
                BatchOptions options) {
  return batches({{"x", data.x}, {"y", data.y}}, batch, seed, options);
}

}  // namespace alpa
