#pragma once
/// Reading of any boxes of a checkpoint's tensors, however they were split when they were saved.
#include <cstddef>
#include <string>
#include <vector>

#include "src/api/checkpoint/manifest.h"

namespace alpa::checkpoint {

/// A box of a tensor that is wanted, dense and row-major.
struct WantedBox {
  const StoredTensor* tensor = nullptr;  ///< of the manifest
  Shape begin, extent;                   ///< in the whole tensor
  std::byte* to = nullptr;
};

/// Reads every block of the shards that holds a part of what is wanted, each once, checks it and
/// copies from it. Throws Error naming file and tensor if one is damaged; then some boxes may have
/// been written to.
void read_boxes(const std::string& folder, const Manifest& manifest,
                const std::vector<WantedBox>& wanted);

/// Calls body(begin, extent) for few boxes that together are the elements [begin, end), counted row
/// by row, of a box of shape `extent`; in order.
template <class Body>
void for_boxes_of_range(const Shape& extent, std::int64_t begin, std::int64_t end, Body&& body) {
  const std::size_t rank = extent.size();
  Shape at(rank), part(rank, 1);
  while (begin < end) {
    // The outermost dimension whose rows begin here and of which one fits.
    std::size_t d = 0;
    std::int64_t row = num_elements(extent);
    while (d < rank && (row /= extent[d], begin % row != 0 || end - begin < row)) ++d;
    std::int64_t rest = begin;
    for (std::size_t i = rank; i-- > 0; rest /= extent[i]) at[i] = rest % extent[i];
    for (std::size_t i = 0; i < rank; ++i) part[i] = i > d ? extent[i] : 1;
    if (d < rank) part[d] = std::min((end - begin) / row, extent[d] - at[d]);
    body(at, part);
    begin += num_elements(part);
  }
}

}  // namespace alpa::checkpoint
