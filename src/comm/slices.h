#pragma once
/// The slices of an all_reduce: of all its tensors laid end to end, one per member. Of one member,
/// its slice is the whole.
#include <cstring>
#include <optional>

#include "pieces.h"

namespace alpa::comm {

class Slices {
 public:
  /// Slices of `size` members.
  explicit Slices(int size) : size_(size) {}

  /// Slices begin at multiples of kSliceElements, so that members do not write into one cache line.
  template <class Body>
  void for_each_range(Tensors tensors, int member, Body&& body) const {
    const std::int64_t total = total_elements(tensors);
    const auto bound = [&](int i) {
      return i == size_ ? total : total * i / size_ / kSliceElements * kSliceElements;
    };
    std::int64_t first = 0;
    for (std::size_t t = 0; t < tensors.size(); first += tensors[t++].type.elements()) {
      const std::int64_t begin = std::max(bound(member), first) - first;
      const std::int64_t end = std::min(bound(member + 1) - first, tensors[t].type.elements());
      if (begin < end) body(Range{t, begin, end});
    }
  }

  std::int64_t elements(Tensors tensors, int member, std::size_t tensor) const {
    std::int64_t elements = 0;
    for_each_range(tensors, member, [&](const Range& range) {
      if (range.tensor == tensor) elements = range.elements();
    });
    return elements;
  }

  std::int64_t bytes(Tensors tensors, int member) const {
    std::int64_t bytes = 0;
    for_each_range(tensors, member, [&](const Range& range) {
      bytes += range.elements() * element_bytes(tensors[range.tensor]);
    });
    return bytes;
  }

  /// Bytes of all `pieces` of member `member`'s slice.
  std::int64_t pieces_bytes(Tensors tensors, int member,
                            const std::vector<std::pair<int, int>>& pieces) const {
    std::int64_t bytes = 0;
    for_each_range(tensors, member, [&](const Range& range) {
      take_pieces(bytes, tensors[range.tensor].type.dtype, pieces, range.elements());
    });
    return bytes;
  }

  /// The tensor's range if all of the slice is in one tensor.
  std::optional<Range> only_range(Tensors tensors, int member) const {
    std::optional<Range> only;
    int ranges = 0;
    for_each_range(tensors, member, [&](const Range& range) { ++ranges, only = range; });
    return ranges == 1 ? only : std::nullopt;
  }

  /// Between the tensors and a packed slice.
  void copy(Tensors tensors, int member, std::byte* packed, bool pack) const {
    for_each_range(tensors, member, [&](const Range& range) {
      const KernelTensor& tensor = tensors[range.tensor];
      const std::int64_t size = element_bytes(tensor), bytes = range.elements() * size;
      std::byte* const there = tensor.data + range.begin * size;
      std::memcpy(pack ? packed : there, pack ? there : packed, static_cast<std::size_t>(bytes));
      packed += bytes;
    });
  }

 private:
  static constexpr std::int64_t kSliceElements = 64;
  int size_;
};

}  // namespace alpa::comm
