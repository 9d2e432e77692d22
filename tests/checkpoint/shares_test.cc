// Which process writes which part of a state: someone who holds it, and all about as much.
#include "src/api/checkpoint/shares.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>

namespace shares_test {

using namespace alpa;
using namespace alpa::checkpoint;

namespace {

runtime::StateBox box(std::int64_t elements, std::vector<int> ranks) {
  runtime::StateBox box{"w", {f32, {elements}}, {0}};
  box.ranks = std::move(ranks);
  return box;
}

/// Bytes that each of the processes writes.
std::map<int, std::int64_t> loads(const std::vector<runtime::StateBox>& boxes) {
  std::map<int, std::int64_t> load;
  const std::vector<BoxPlace> places = divide(boxes);
  for (std::size_t i = 0; i < boxes.size(); ++i) load[places[i].rank] += boxes[i].type.bytes();
  return load;
}

}  // namespace

TEST_CASE("replicas are divided, the larger first: 5, 4, 3, 3, 3 become 5 + 3 and 4 + 3 + 3") {
  std::vector<runtime::StateBox> boxes;
  for (const std::int64_t elements : {3, 5, 3, 4, 3}) boxes.push_back(box(elements, {0, 1}));
  CHECK(loads(boxes) == std::map<int, std::int64_t>{{0, 4 * 8}, {1, 4 * 10}});
}

TEST_CASE("who holds a box alone writes it, and less of the others") {
  CHECK(loads({box(2, {0, 1, 2}), box(6, {1}), box(2, {0, 1, 2}), box(2, {1, 2})}) ==
        std::map<int, std::int64_t>{{0, 8}, {1, 24}, {2, 16}});
}

TEST_CASE("of any boxes, writers hold what they write, and shares lie without gaps") {
  std::mt19937 random(1);
  for (int round = 0; round < 50; ++round) {
    const int processes = 1 + static_cast<int>(random() % 7);
    std::vector<runtime::StateBox> boxes;
    std::int64_t largest = 0, total = 0;
    for (int i = 0; i < 40; ++i) {
      std::vector<int> ranks;
      for (int rank = 0; rank < processes; ++rank)
        if (round % 2 == 0 || random() % 2 == 0) ranks.push_back(rank);
      if (ranks.empty()) ranks.push_back(static_cast<int>(random() % processes));
      boxes.push_back(box(1 + random() % 100, ranks));
      largest = std::max(largest, boxes.back().type.bytes());
      total += boxes.back().type.bytes();
    }
    const std::vector<BoxPlace> places = divide(boxes);
    std::int64_t written = 0;
    for (int rank = 0; rank < processes; ++rank) {
      std::int64_t end = 0;
      for (const runtime::StateBox& mine : share_of(rank, boxes, places)) {
        CHECK(std::count(mine.ranks.begin(), mine.ranks.end(), rank) == 1);
        CHECK(mine.offset == end);
        end += mine.type.bytes();
      }
      written += end;
      // Where all hold everything.
      if (round % 2 == 0) CHECK(end <= total / processes + largest);
    }
    CHECK(written == total);
  }
}

}  // namespace shares_test
