#pragma once
/// Entries sorted by the row that they belong to, such as the tokens of every row of a table.
#include <algorithm>
#include <cstdint>
#include <numeric>

#include "src/tensor/kernel.h"

namespace alpa::cpu {

/// The entries of every row, in order: those of row r are entries[begins[r]] to
/// entries[begins[r + 1]].
struct Buckets {
  std::int64_t* begins;
  std::int64_t* entries;

  const std::int64_t* begin(std::int64_t row) const { return entries + begins[row]; }
  const std::int64_t* end(std::int64_t row) const { return entries + begins[row + 1]; }
};

/// Workspace of `sort_entries`.
constexpr std::int64_t buckets_bytes(std::int64_t rows, std::int64_t entries) {
  return (rows + 1 + entries) * static_cast<std::int64_t>(sizeof(std::int64_t));
}

/// Sorts entries 0 … n-1 by row_of(entry), which is -1 for those of no row.
template <class RowOf>
Buckets sort_entries(const KernelCall& call, std::int64_t rows, std::int64_t n,
                     const RowOf& row_of) {
  auto* const begins = reinterpret_cast<std::int64_t*>(call.workspace);
  auto* const entries = begins + rows + 1;
  std::fill(begins, entries, 0);
  for (std::int64_t t = 0; t < n; ++t)
    if (const std::int64_t row = row_of(t); row >= 0) ++begins[row + 1];
  std::partial_sum(begins, entries, begins);
  for (std::int64_t t = 0; t < n; ++t)
    if (const std::int64_t row = row_of(t); row >= 0) entries[begins[row]++] = t;
  std::copy_backward(begins, entries - 1, entries);  // each begin has become its end
  begins[0] = 0;
  return {begins, entries};
}

}  // namespace alpa::cpu
