// Where a block finds room in an arena: against a look at every byte.
#include "src/lower/arena_gaps.h"

#include <doctest/doctest.h>

#include <random>

namespace arena_gaps_test {

using namespace alpa;

namespace {

constexpr int kPositions = 21;
constexpr std::int64_t kBytes = 400;

struct Placed {
  lower::LiveRange range;
  std::int64_t offset, bytes;
};

/// The offset by a look at every byte from `begin` on.
std::int64_t searched(const std::vector<Placed>& blocks, const lower::LiveRange& range,
                      std::int64_t bytes, std::int64_t begin, bool tight) {
  std::vector<bool> used(kBytes + 1);
  for (const Placed& block : blocks)
    for (std::int64_t b = 0; block.range.overlaps(range) && b < block.bytes; ++b)
      used[block.offset + b] = true;
  std::int64_t best = -1, best_size = kBytes + 1, end = begin;
  for (std::int64_t from = begin, to; from < kBytes; from = to + 1) {
    for (to = from; to < kBytes && !used[to];) ++to;
    if (to == kBytes) break;
    if (to - from >= bytes && to - from < best_size && (tight || best < 0)) {
      best = from;
      best_size = to - from;
    }
    end = to + 1;
  }
  return best >= 0 ? best : end;
}

}  // namespace

TEST_CASE("a block gets the lowest gap, or the smallest, that is free as long as it lives") {
  std::mt19937 random(3);
  for (int round = 0; round < 50; ++round) {
    lower::ArenaGaps gaps(kPositions);
    std::vector<Placed> blocks;
    const std::int64_t begin = static_cast<std::int64_t>(random() % 9);
    for (int n = 0; n < 40; ++n) {
      const int a = static_cast<int>(random() % (kPositions + 2)) - 1,
                b = static_cast<int>(random() % (kPositions + 2)) - 1;
      const lower::LiveRange range{std::min(a, b), std::max(a, b)};
      const std::int64_t bytes = 1 + static_cast<std::int64_t>(random() % 7);
      for (const bool tight : {false, true})
        CHECK(gaps.find(range, bytes, begin, tight) ==
              searched(blocks, range, bytes, begin, tight));
      const std::int64_t offset = gaps.find(range, bytes, begin, random() % 2 == 0);
      gaps.place(range, offset, bytes);
      blocks.push_back({range, offset, bytes});
    }
  }
}

TEST_CASE("twice as many blocks of a training step take little more than twice the work") {
  // What forward makes and backward reads lives from i to 2n - i; gradients live for a moment.
  const auto looks = [](int n) {
    lower::ArenaGaps gaps(2 * n);
    const auto place = [&](const lower::LiveRange& range, std::int64_t bytes) {
      gaps.place(range, gaps.find(range, bytes, 0, false), bytes);
    };
    for (int i = 0; i < n; ++i) place({i, 2 * n - i}, i % 2 == 0 ? 512 : 2048);
    for (int i = 0; i < n; ++i) place({2 * n - i - 1, 2 * n - i}, 1024);
    return gaps.looks();
  };
  CHECK(looks(1000) > 0);
  CHECK(looks(4000) < 2.5 * looks(2000));
}

}  // namespace arena_gaps_test
