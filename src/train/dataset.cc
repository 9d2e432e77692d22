// src/train/dataset.cc — synthetic data, shuffling and row selection
#include "alpa/train/dataset.h"

#include <Eigen/Core>
#include <cstring>
#include <numeric>
#include <span>

#include "src/base/host_memory.h"
#include "src/base/philox.h"

namespace alpa {
namespace {

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

Eigen::Map<Matrix> as_matrix(Array& array) {
  return {reinterpret_cast<float*>(array.mutable_data()), array.shape()[0],
          array.elements() / array.shape()[0]};
}

/// Element `index` of the stream as a number in [0, bound), as good as
/// unbiased: bound is far below 2^64.
std::int64_t uniform_below(const RandomStream& stream, std::uint64_t index, std::int64_t bound) {
  const Philox4 words = random_words(stream, index);
  const std::uint64_t wide = (static_cast<std::uint64_t>(words.word[0]) << 32) | words.word[1];
  return static_cast<std::int64_t>(wide % static_cast<std::uint64_t>(bound));
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

std::vector<std::int64_t> shuffled_indices(std::int64_t n, std::uint64_t seed, std::int64_t epoch) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  const RandomStream stream = random_stream(seed, 5, epoch, 0);
  for (std::int64_t i = n - 1; i > 0; --i)
    std::swap(order[i], order[uniform_below(stream, i, i + 1)]);
  return order;
}

Array take_rows(const Array& array, std::span<const std::int64_t> rows) {
  require(!array.shape().empty(), "take_rows: the array is one number; it has no rows");
  TensorType type = array.type();
  const std::int64_t count = type.shape[0];
  type.shape[0] = static_cast<std::int64_t>(rows.size());
  const std::size_t row_bytes = count == 0 ? 0 : static_cast<std::size_t>(array.bytes() / count);
  Array result(type);
  std::byte* out = result.mutable_data();
  for (std::int64_t row : rows) {
    require(row >= 0 && row < count, "take_rows: row {} of an array of {} rows", row, count);
    std::memcpy(out, array.data() + static_cast<std::size_t>(row) * row_bytes, row_bytes);
    out += row_bytes;
  }
  return result;
}

}  // namespace alpa
