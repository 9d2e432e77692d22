// src/api/checkpoint/shares.cc — divides the boxes of a state among the processes that hold them
#include "src/api/checkpoint/shares.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

namespace alpa::checkpoint {

std::vector<BoxPlace> divide(std::span<const runtime::StateBox> boxes) {
  std::vector<std::size_t> order(boxes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  // Those that only one process holds leave no choice, so they come first.
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const auto weight = [&](std::size_t i) {
      return std::pair(boxes[i].ranks.size() > 1, -boxes[i].type.bytes());
    };
    return weight(a) < weight(b);
  });
  std::vector<BoxPlace> places(boxes.size());
  std::map<int, std::int64_t> load;
  for (const std::size_t i : order) {
    places[i].rank = *std::min_element(boxes[i].ranks.begin(), boxes[i].ranks.end(),
                                       [&](int a, int b) { return load[a] < load[b]; });
    load[places[i].rank] += boxes[i].type.bytes();
  }
  std::map<int, std::int64_t> end;
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    std::int64_t& at = end[places[i].rank];
    places[i].offset = std::exchange(at, at + boxes[i].type.bytes());
  }
  return places;
}

std::vector<runtime::StateBox> share_of(int rank, std::span<const runtime::StateBox> boxes,
                                        std::span<const BoxPlace> places) {
  std::vector<runtime::StateBox> share;
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    if (places[i].rank != rank) continue;
    share.push_back(boxes[i]);
    share.back().offset = places[i].offset;
  }
  return share;
}

}  // namespace alpa::checkpoint
