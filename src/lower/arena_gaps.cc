// src/lower/arena_gaps.cc — finds room in an arena among blocks that live at the same time
#include "src/lower/arena_gaps.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace alpa::lower {

ArenaGaps::ArenaGaps(int positions)
    : size_(static_cast<int>(std::bit_ceil(static_cast<unsigned>(positions) + 2))),
      nodes_(2 * static_cast<std::size_t>(size_)) {}

template <class Visit>
void ArenaGaps::for_each(const LiveRange& range, Visit&& visit) const {
  const int begin = range.begin + 1, end = range.end + 1;
  struct Interval {
    int node, begin, end;
  };
  std::vector<Interval> open{{1, 0, size_ - 1}};
  while (!open.empty()) {
    const Interval now = open.back();
    open.pop_back();
    if (now.end < begin || end < now.begin) continue;
    const bool whole = begin <= now.begin && now.end <= end;
    visit(now.node, whole);
    if (whole) continue;
    const int middle = (now.begin + now.end) / 2;
    open.push_back({2 * now.node, now.begin, middle});
    open.push_back({2 * now.node + 1, middle + 1, now.end});
  }
}

void ArenaGaps::add(ByteRanges& ranges, Bytes bytes) {
  const auto first =
      std::lower_bound(ranges.begin(), ranges.end(), bytes.begin,
                       [](const Bytes& range, std::int64_t begin) { return range.end < begin; });
  auto last = first;
  for (; last != ranges.end() && last->begin <= bytes.end; ++last) {
    bytes.begin = std::min(bytes.begin, last->begin);
    bytes.end = std::max(bytes.end, last->end);
  }
  if (first == last) {
    ranges.insert(first, bytes);
    return;
  }
  *first = bytes;
  ranges.erase(first + 1, last);
}

void ArenaGaps::place(const LiveRange& range, std::int64_t offset, std::int64_t bytes) {
  for_each(range, [&](int node, bool whole) {
    if (whole) add(nodes_[node].covering, {offset, offset + bytes});
    add(nodes_[node].touching, {offset, offset + bytes});
  });
}

std::int64_t ArenaGaps::find(const LiveRange& range, std::int64_t bytes, std::int64_t begin,
                             bool tight) {
  struct Rest {
    const Bytes *next, *end;
  };
  std::vector<Rest> used;  // a heap: the lowest next range first
  for_each(range, [&](int node, bool whole) {
    const ByteRanges& ranges = whole ? nodes_[node].touching : nodes_[node].covering;
    if (!ranges.empty()) used.push_back({ranges.data(), ranges.data() + ranges.size()});
  });
  const auto later = [](const Rest& a, const Rest& b) { return a.next->begin > b.next->begin; };
  std::make_heap(used.begin(), used.end(), later);
  std::int64_t best = -1, best_size = std::numeric_limits<std::int64_t>::max(), from = begin;
  for (; !used.empty(); ++looks_) {
    std::pop_heap(used.begin(), used.end(), later);
    Rest& lowest = used.back();
    const std::int64_t size = lowest.next->begin - from;
    if (size >= bytes && size < best_size) {
      if (!tight) return from;
      best = from;
      best_size = size;
    }
    from = std::max(from, lowest.next->end);
    lowest.next = std::upper_bound(
        lowest.next, lowest.end, from,
        [](std::int64_t offset, const Bytes& range) { return offset < range.end; });
    if (lowest.next == lowest.end)
      used.pop_back();
    else
      std::push_heap(used.begin(), used.end(), later);
  }
  return best >= 0 ? best : from;
}

}  // namespace alpa::lower
