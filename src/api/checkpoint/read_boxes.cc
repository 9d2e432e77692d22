// src/api/checkpoint/read_boxes.cc — reads blocks of shards with several threads, and copies what
// is wanted out of them
#include "src/api/checkpoint/read_boxes.h"

#include <algorithm>
#include <memory>

#include "src/api/checkpoint/block_sums.h"
#include "src/api/checkpoint/shard_file.h"
#include "src/base/thread_team.h"
#include "src/tensor/box_copy.h"

namespace alpa::checkpoint {
namespace {

constexpr std::int64_t kBlocksAtOnce = 16;  // a MiB stays in the caches while it is copied

/// A box of a shard, and who wants parts of it.
struct Source {
  const StoredBox* box = nullptr;
  std::int64_t element = 0, end = 0;  ///< bytes of an element; end of the box in the shard's data
  std::vector<const WantedBox*> wanted = {};
};

Shape minus(Shape a, const Shape& b) {
  for (std::size_t d = 0; d < a.size(); ++d) a[d] -= b[d];
  return a;
}

Shape plus(Shape a, const Shape& b) {
  for (std::size_t d = 0; d < a.size(); ++d) a[d] += b[d];
  return a;
}

/// A box in the coordinates of the whole tensor.
struct Box {
  Shape begin, extent;
};

/// What two boxes have in common; false if nothing.
bool intersect(const Box& a, const Shape& begin, const Shape& extent, Box& common) {
  common = a;
  for (std::size_t d = 0; d < begin.size(); ++d) {
    const std::int64_t from = std::max(a.begin[d], begin[d]),
                       to = std::min(a.begin[d] + a.extent[d], begin[d] + extent[d]);
    if (from >= to) return false;
    common.begin[d] = from;
    common.extent[d] = to - from;
  }
  return true;
}

/// Copies the part of `box`, whose elements are dense at `from`, to everybody who wants some of it.
void hand_out(const Source& source, const Box& box, const std::byte* from) {
  Box common;
  for (const WantedBox* wanted : source.wanted)
    if (intersect(box, wanted->begin, wanted->extent, common))
      BoxCopy::make(box.extent, minus(common.begin, box.begin), wanted->extent,
                    minus(common.begin, wanted->begin), common.extent)
          .copy(from, wanted->to, static_cast<std::size_t>(source.element));
}

/// The boxes of a shard that hold something wanted, by their place in it.
std::vector<Source> sources_in(int shard, const Manifest& manifest,
                               const std::vector<WantedBox>& wanted) {
  std::map<const StoredTensor*, std::vector<const WantedBox*>> of_tensor;
  for (const WantedBox& box : wanted) of_tensor[box.tensor].push_back(&box);
  std::vector<Source> sources;
  for (const auto& [name, tensor] : manifest.tensors) {
    const auto wants = of_tensor.find(&tensor);
    if (wants == of_tensor.end()) continue;
    for (const StoredBox& box : tensor.boxes) {
      if (box.shard != shard) continue;
      Source source{&box, static_cast<std::int64_t>(size_of(tensor.type.dtype)),
                    box.offset + TensorType{tensor.type.dtype, box.extent}.bytes()};
      Box common;
      for (const WantedBox* one : wants->second)
        if (intersect({box.begin, box.extent}, one->begin, one->extent, common))
          source.wanted.push_back(one);
      if (!source.wanted.empty()) sources.push_back(std::move(source));
    }
  }
  std::sort(sources.begin(), sources.end(),
            [](const Source& a, const Source& b) { return a.box->offset < b.box->offset; });
  return sources;
}

/// Hands out what bytes [begin, end) of a shard's data hold, which lie at `bytes`.
void hand_out_range(const std::vector<Source>& sources, std::int64_t begin, std::int64_t end,
                    const std::byte* bytes) {
  auto source = std::partition_point(sources.begin(), sources.end(),
                                     [&](const Source& s) { return s.end <= begin; });
  for (; source != sources.end() && source->box->offset < end; ++source) {
    const StoredBox& box = *source->box;
    const std::int64_t from = std::max(begin, box.offset), to = std::min(end, source->end);
    const std::byte* at = bytes + (from - begin);
    for_boxes_of_range(box.extent, (from - box.offset) / source->element,
                       (to - box.offset) / source->element,
                       [&](const Shape& part_at, const Shape& part) {
                         hand_out(*source, {plus(box.begin, part_at), part}, at);
                         at += num_elements(part) * source->element;
                       });
  }
}

/// Where bytes [begin, end) of a shard's data go as they are: one box is all that they hold, and is
/// wanted in this very layout, once. Else null.
std::byte* destination_of(const std::vector<Source>& sources, std::int64_t begin,
                          std::int64_t end) {
  const auto source = std::partition_point(sources.begin(), sources.end(),
                                           [&](const Source& s) { return s.end <= begin; });
  if (source == sources.end() || source->box->offset > begin || source->end < end) return nullptr;
  const WantedBox& wanted = *source->wanted.front();
  const bool same = source->wanted.size() == 1 && wanted.begin == source->box->begin &&
                    wanted.extent == source->box->extent;
  return same ? wanted.to + (begin - source->box->offset) : nullptr;
}

/// Calls body(begin, end) for ranges of bytes, of a box of shape `extent`, that hold `part` of it.
/// Between two ranges is more than a block. `bytes`: of an element; `d`: dimension from which on
/// the box is looked at, which begins at byte `at`.
template <class Body>
void for_ranges_of(const Shape& extent, const Box& part, std::int64_t bytes, Body&& body,
                   std::size_t d = 0, std::int64_t at = 0) {
  std::int64_t first = at, last = at, row = bytes;
  for (std::size_t i = extent.size(); i-- > d; row *= extent[i]) {
    first += part.begin[i] * row;
    last += (part.begin[i] + part.extent[i] - 1) * row;
  }
  if (d == extent.size() || (row /= extent[d]) <= kBlockBytes) return body(first, last + bytes);
  for (std::int64_t i = 0; i < part.extent[d]; ++i)
    for_ranges_of(extent, part, bytes, body, d + 1, at + (part.begin[d] + i) * row);
}

/// Consecutive blocks of a shard.
struct Piece {
  std::int64_t first = 0, count = 0;
};

/// The blocks that hold something wanted, each once; at most so many together.
std::vector<Piece> pieces_of(const std::vector<Source>& sources, std::int64_t num_blocks) {
  std::vector<bool> wanted(static_cast<std::size_t>(num_blocks));
  for (const Source& source : sources)
    for (const WantedBox* box : source.wanted) {
      Box common;
      intersect({source.box->begin, source.box->extent}, box->begin, box->extent, common);
      common.begin = minus(common.begin, source.box->begin);
      for_ranges_of(
          source.box->extent, common, source.element, [&](std::int64_t begin, std::int64_t end) {
            const std::int64_t from = source.box->offset + begin, to = source.box->offset + end;
            for (std::int64_t b = from / kBlockBytes; b <= (to - 1) / kBlockBytes; ++b)
              wanted[b] = true;
          });
    }
  std::vector<Piece> pieces;
  for (std::int64_t b = 0; b < num_blocks; ++b) {
    if (!wanted[b]) continue;
    const bool goes_on =
        b % kBlocksAtOnce != 0 && !pieces.empty() && pieces.back().first + pieces.back().count == b;
    if (!goes_on) pieces.push_back({b, 0});
    ++pieces.back().count;
  }
  return pieces;
}

}  // namespace

void read_boxes(const std::string& folder, const Manifest& manifest,
                const std::vector<WantedBox>& wanted) {
  ThreadTeam team(usable_cores());
  for (int number = 0; number < std::ssize(manifest.shards); ++number) {
    const std::vector<Source> sources = sources_in(number, manifest, wanted);
    if (sources.empty()) continue;
    const ShardReader shard(folder, manifest, number);
    const std::vector<Piece> pieces = pieces_of(sources, shard.num_blocks());
    team.parallel_for(std::ssize(pieces), 1, [&](std::int64_t begin, std::int64_t end) {
      const auto buffer = std::make_unique<std::byte[]>(kBlocksAtOnce * kBlockBytes);
      for (std::int64_t i = begin; i < end; ++i) {
        const auto [first, blocks] = pieces[i];
        const std::int64_t from = first * kBlockBytes,
                           to = std::min(from + blocks * kBlockBytes, shard.data_bytes());
        if (std::byte* direct = destination_of(sources, from, to)) {
          shard.read(first, blocks, direct);
          continue;
        }
        shard.read(first, blocks, buffer.get());
        hand_out_range(sources, from, to, buffer.get());
      }
    });
  }
}

}  // namespace alpa::checkpoint
