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
                             bool tight) const {
  constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
  struct Rest {
    const Bytes *next, *end;
  };
  std::vector<Rest> used;
  for_each(range, [&](int node, bool whole) {
    const ByteRanges& ranges = whole ? nodes_[node].touching : nodes_[node].covering;
    if (!ranges.empty()) used.push_back({ranges.data(), ranges.data() + ranges.size()});
  });
  std::int64_t best = -1, best_size = kNever;
  for (std::int64_t from = begin;;) {
    std::int64_t to = kNever;  // end of the gap that starts at `from`, if one does
    for (bool moved = true; moved;) {
      moved = false;
      to = kNever;
      for (Rest& rest : used) {
        while (rest.next != rest.end && rest.next->end <= from) ++rest.next;
        if (rest.next == rest.end) continue;
        if (rest.next->begin <= from)
          from = rest.next->end, moved = true;
        else
          to = std::min(to, rest.next->begin);
      }
    }
    if (to == kNever) return best >= 0 ? best : from;
    if (to - from >= bytes && to - from < best_size) {
      if (!tight) return from;
      best = from;
      best_size = to - from;
    }
    from = to;
  }
}

}  // namespace alpa::lower
