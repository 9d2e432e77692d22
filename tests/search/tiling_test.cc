// Which lists of submeshes the stage search may use: those that can be placed.
#include "src/search/bound/tiling.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "alpa/base/error.h"

namespace tiling_test {

using namespace alpa;
using inter_op::Submesh;
using inter_op::SubmeshSpace;
using inter_op::Tiling;

namespace {

bool accepts(const Tiling& tiling, const std::vector<int>& list) {
  std::vector<bool> reached(tiling.states, false);
  reached[0] = true;
  for (int m : list) {
    std::vector<bool> next(tiling.states, false);
    for (const inter_op::TilingStep& step : tiling.steps[m])
      for (int i = 0; i < step.count; ++i)
        if (reached[step.from + i]) next[step.to + i] = true;
    reached = next;
  }
  return tiling.full >= 0 && reached[tiling.full];
}

bool accept(const std::vector<Tiling>& tilings, const std::vector<int>& list) {
  return std::any_of(tilings.begin(), tilings.end(),
                     [&](const Tiling& tiling) { return accepts(tiling, list); });
}

bool can_place(const Submesh& cluster, const std::vector<Submesh>& submeshes,
               const std::vector<int>& list) {
  std::vector<Submesh> of_list;
  for (int m : list) of_list.push_back(submeshes[m]);
  try {
    inter_op::place(cluster, of_list);
    return true;
  } catch (const Error&) {
    return false;
  }
}

/// Random lists with the right number of devices, most of them of parts.
std::vector<int> random_list(const Submesh& cluster, const std::vector<Submesh>& submeshes,
                             std::mt19937& random) {
  std::vector<int> list;
  for (int left = cluster.num_devices(); left > 0;) {
    const auto m = static_cast<int>(random() % submeshes.size());
    if (submeshes[m].num_devices() > left) continue;
    if (submeshes[m].hosts > 1 && random() % 4 > 0) continue;
    list.push_back(m);
    left -= submeshes[m].num_devices();
  }
  return list;
}

struct Counts {
  int accepted = 0, placeable = 0, refused = 0;
};

Counts compare(const Submesh& cluster, SubmeshSpace space, int lists) {
  const auto submeshes = inter_op::submesh_choices(cluster, space);
  const auto tilings = inter_op::tilings(cluster, submeshes);
  std::mt19937 random(1);
  Counts counts;
  for (int i = 0; i < lists; ++i) {
    const std::vector<int> list = random_list(cluster, submeshes, random);
    const bool accepted = accept(tilings, list), placeable = can_place(cluster, submeshes, list);
    if (accepted) CHECK(placeable);
    counts.accepted += accepted;
    counts.placeable += placeable;
    counts.refused += !placeable;
  }
  return counts;
}

}  // namespace

TEST_CASE("one host, powers of two or few ways to fill hosts: exactly the lists that tile") {
  for (const Submesh& cluster : {Submesh{2, 3}, {2, 8}, {3, 4}, {3, 6}, {4, 5}, {4, 8}}) {
    CAPTURE(cluster);
    const Counts counts = compare(cluster, SubmeshSpace::any_size, 200);
    CHECK(counts.accepted == counts.placeable);
    if (cluster.devices > 3) CHECK(counts.refused > 0);
  }
  for (const Submesh& cluster : {Submesh{1, 7}, {1, 16}})
    CHECK(compare(cluster, SubmeshSpace::any_size, 100).accepted == 100);
  for (const Submesh& cluster : {Submesh{2, 8}, {8, 8}, {5, 4}})
    CHECK(compare(cluster, SubmeshSpace::all, 100).accepted == 100);
}

TEST_CASE("many ways to fill hosts: lists of powers of two, and those that fill host by host") {
  const Submesh cluster{8, 8};
  CHECK(compare(cluster, SubmeshSpace::any_size, 100).placeable > 0);
  const auto submeshes = inter_op::submesh_choices(cluster, SubmeshSpace::any_size);
  const auto tilings = inter_op::tilings(cluster, submeshes);
  const auto with = [&](std::vector<int> parts) {  // devices; the other hosts are whole
    int devices = 0;
    for (int part : parts) devices += part;
    for (; devices < 64; devices += 8) parts.push_back(8);
    for (int& part : parts) --part;
    return parts;
  };
  CHECK(accept(tilings, with({1, 4, 1, 4, 4, 2})));  // powers of two in any order
  CHECK(accept(tilings, with({3, 5, 2, 3, 3})));
  CHECK(accept(tilings, with({3, 8, 5})));      // a whole host between two parts
  CHECK(!accept(tilings, with({3, 3, 5, 5})));  // parts of two hosts in turn
  CHECK(!accept(tilings, with({5, 5, 5, 1})));
  // 12 devices per host: neither 4 nor 6 divides the other, but each is in a list of its own.
  const auto twelve = inter_op::submesh_choices({8, 12}, SubmeshSpace::any_size);
  std::vector<int> list(6, 11);
  list.insert(list.end(), {3, 1, 3, 3, 3, 1, 3});
  CHECK(accept(inter_op::tilings({8, 12}, twelve), list));
  for (int& m : list) m = m == 3 ? 5 : m;
  list.resize(6);
  list.insert(list.end(), {5, 1, 5, 1, 1, 5});
  CHECK(accept(inter_op::tilings({8, 12}, twelve), list));
}

}  // namespace tiling_test
