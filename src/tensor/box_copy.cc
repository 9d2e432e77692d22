// src/tensor/box_copy.cc — copies a box between dense tensors in contiguous runs
#include "src/tensor/box_copy.h"

#include <algorithm>
#include <cstring>

#include "alpa/base/error.h"
#include "src/base/thread_team.h"

namespace alpa {
namespace {

void check(Extents source, Extents source_at, Extents target, Extents target_at, Extents extent) {
  const std::size_t rank = extent.size();
  invariant(rank <= BoxCopy::kMaxRank && source.size() == rank && source_at.size() == rank &&
                target.size() == rank && target_at.size() == rank,
            "box copy: ranks {}, {}, {}", source.size(), target.size(), rank);
  for (std::size_t d = 0; d < rank; ++d)
    invariant(extent[d] == 0 || (source_at[d] >= 0 && source_at[d] + extent[d] <= source[d] &&
                                 target_at[d] >= 0 && target_at[d] + extent[d] <= target[d]),
              "box copy: dimension {}: {} elements from {} of {} to {} of {}", d, extent[d],
              source_at[d], source[d], target_at[d], target[d]);
}

/// Adds a loop outside the others, as part of the outermost one where both tensors allow.
void add_loop(BoxCopy& copy, std::int64_t count, std::int64_t source_stride,
              std::int64_t target_stride) {
  if (count == 1) return;
  const int last = copy.loops - 1;
  if (last >= 0 && source_stride == copy.source_stride[last] * copy.count[last] &&
      target_stride == copy.target_stride[last] * copy.count[last]) {
    copy.count[last] *= count;
    return;
  }
  copy.count[copy.loops] = count;
  copy.source_stride[copy.loops] = source_stride;
  copy.target_stride[copy.loops++] = target_stride;
}

/// The innermost loop becomes the run if it is dense in both tensors.
void take_run(BoxCopy& copy) {
  if (copy.loops == 0 || copy.source_stride[0] != 1 || copy.target_stride[0] != 1) return;
  copy.run = copy.count[0];
  --copy.loops;
  for (int i = 0; i < copy.loops; ++i) {
    copy.count[i] = copy.count[i + 1];
    copy.source_stride[i] = copy.source_stride[i + 1];
    copy.target_stride[i] = copy.target_stride[i + 1];
  }
}

template <class Word>
void copy_words(const BoxCopy& box, const std::byte* source, std::byte* target, std::int64_t begin,
                std::int64_t end) {
  box.for_each_run(begin, end, [&](std::int64_t from, std::int64_t to) {
    std::memcpy(target + to * sizeof(Word), source + from * sizeof(Word), sizeof(Word));
  });
}

}  // namespace

BoxCopy BoxCopy::make(Extents source, Extents source_at, Extents target, Extents target_at,
                      Extents extent) {
  check(source, source_at, target, target_at, extent);
  BoxCopy copy;
  std::int64_t source_stride = 1, target_stride = 1;
  for (std::size_t d = extent.size(); d-- > 0;
       source_stride *= source[d], target_stride *= target[d]) {
    if (extent[d] == 0) return BoxCopy{.run = 0};
    add_loop(copy, extent[d], source_stride, target_stride);
    copy.source_begin += source_at[d] * source_stride;
    copy.target_begin += target_at[d] * target_stride;
  }
  take_run(copy);
  return copy;
}

std::int64_t BoxCopy::runs() const {
  std::int64_t runs = run > 0;
  for (int i = 0; i < loops; ++i) runs *= count[i];
  return runs;
}

void BoxCopy::copy(const std::byte* source, std::byte* target, std::size_t element_bytes,
                   std::int64_t begin, std::int64_t end) const {
  const auto bytes = static_cast<std::size_t>(run) * element_bytes;
  if (bytes == 4 && element_bytes == 4)
    return copy_words<std::uint32_t>(*this, source, target, begin, end);
  if (bytes == 8 && element_bytes == 8)
    return copy_words<std::uint64_t>(*this, source, target, begin, end);
  const auto size = static_cast<std::int64_t>(element_bytes);
  for_each_run(begin, end, [&](std::int64_t from, std::int64_t to) {
    std::memcpy(target + to * size, source + from * size, bytes);
  });
}

void copy(const BoxCopy& box, const std::byte* source, std::byte* target, std::size_t element_bytes,
          ThreadTeam& team) {
  // elements below which sharing among threads is not worth it
  constexpr std::int64_t kGrain = 32 * 1024;
  if (box.runs() != 1)
    return team.parallel_for(box.runs(),
                             std::max<std::int64_t>(1, kGrain / std::max<std::int64_t>(1, box.run)),
                             [&](std::int64_t begin, std::int64_t end) {
                               box.copy(source, target, element_bytes, begin, end);
                             });
  const auto size = static_cast<std::int64_t>(element_bytes);
  team.parallel_for(box.run, kGrain, [&](std::int64_t begin, std::int64_t end) {
    std::memcpy(target + (box.target_begin + begin) * size,
                source + (box.source_begin + begin) * size,
                static_cast<std::size_t>((end - begin) * size));
  });
}

}  // namespace alpa
