// src/train/rows.cc — the order of examples, and rows of arrays
#include <cstring>
#include <numeric>
#include <utility>

#include "alpa/base/error.h"
#include "alpa/train/batches.h"
#include "src/base/philox.h"

namespace alpa {
namespace {

/// Element `index` of the stream as a number in [0, bound), as good as
/// unbiased: bound is far below 2^64.
std::int64_t uniform_below(const RandomStream& stream, std::uint64_t index, std::int64_t bound) {
  const Philox4 words = random_words(stream, index);
  const std::uint64_t wide = (static_cast<std::uint64_t>(words.word[0]) << 32) | words.word[1];
  return static_cast<std::int64_t>(wide % static_cast<std::uint64_t>(bound));
}

}  // namespace

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
