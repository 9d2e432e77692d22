// Submeshes: the shapes of Alpa's spaces and of any size, and placement.
#include "src/search/bound/submesh.h"

#include <doctest/doctest.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <random>

#include "support/error_text.h"

namespace submesh_test {

using namespace alpa;
using namespace alpa::testing;
using inter_op::Submesh;
using inter_op::SubmeshSpace;

namespace {

std::string choices(const Submesh& cluster, SubmeshSpace space) {
  return fmt::format("{}", fmt::join(inter_op::submesh_choices(cluster, space), ", "));
}

/// "0-3 6-7": first and last device per submesh.
std::string places(const Submesh& cluster, const std::vector<Submesh>& submeshes) {
  std::string text;
  for (const std::vector<int>& devices : inter_op::place(cluster, submeshes)) {
    CHECK(devices.back() - devices.front() + 1 == static_cast<int>(devices.size()));
    text += fmt::format("{}{}-{}", text.empty() ? "" : " ", devices.front(), devices.back());
  }
  return text;
}

/// Whether parts with these devices can fill hosts: every part to every host.
bool can_fill(const std::vector<int>& parts, std::size_t next, std::vector<int>& free) {
  if (next == parts.size()) return true;
  for (int& host : free) {
    if (host < parts[next]) continue;
    host -= parts[next];
    const bool can = can_fill(parts, next + 1, free);
    host += parts[next];
    if (can) return true;
  }
  return false;
}

}  // namespace

// Source: Alpa, get_submesh_choices.
TEST_CASE("submesh choices are those of Alpa's spaces, or parts of any size") {
  CHECK(choices({2, 8}, SubmeshSpace::all) == "1x1, 1x2, 1x4, 1x8, 2x8");
  CHECK(choices({8, 8}, SubmeshSpace::power_of_two) == "1x1, 1x2, 1x4, 1x8, 2x8, 4x8, 8x8");
  CHECK(choices({4, 4}, SubmeshSpace::all) == "1x1, 1x2, 1x4, 2x4, 3x4, 4x4");
  CHECK(choices({3, 4}, SubmeshSpace::power_of_two) == "1x1, 1x2, 1x4, 2x4");
  CHECK(choices({1, 7}, SubmeshSpace::any_size) == "1x1, 1x2, 1x3, 1x4, 1x5, 1x6, 1x7");
  CHECK(choices({3, 3}, SubmeshSpace::any_size) == "1x1, 1x2, 1x3, 2x3, 3x3");
  const auto large = inter_op::submesh_choices({1, 1024}, SubmeshSpace::any_size);
  CHECK(large.size() == 64 + 4 * 8);
  CHECK(fmt::format("{}", fmt::join(large.begin() + 62, large.begin() + 74, ", ")) ==
        "1x63, 1x64, 1x72, 1x80, 1x88, 1x96, 1x104, 1x112, 1x120, 1x128, 1x144, 1x160");
  CHECK(large.back() == Submesh{1, 1024});
  const auto hosts = inter_op::submesh_choices({128, 8}, SubmeshSpace::any_size);
  CHECK(fmt::format("{}", fmt::join(hosts.begin() + 8, hosts.end(), ", ")) ==
        "2x8, 3x8, 4x8, 5x8, 6x8, 7x8, 8x8, 12x8, 16x8, 24x8, 32x8, 48x8, 64x8, 96x8, 128x8");
  CHECK(inter_op::submesh_choices({2048, 8}, SubmeshSpace::any_size).front() == Submesh{2, 8});
  CHECK(error_of([] {
          inter_op::submesh_choices({2, 6}, SubmeshSpace::power_of_two);
        }) ==
        "submeshes: parts of 1, 2, 4, … devices do not tile hosts of 6 devices; use parts of any "
        "size");
}

// Source: Alpa's get_sliced_virtual_submeshes, executed.
TEST_CASE("submeshes are placed as Alpa slices its mesh") {
  CHECK(places({1, 8}, {{1, 2}, {1, 2}, {1, 4}}) == "6-7 4-5 0-3");
  CHECK(places({2, 8}, {{1, 4}, {1, 4}, {1, 8}}) == "12-15 8-11 0-7");
  CHECK(places({2, 8}, {{1, 8}, {1, 4}, {1, 2}, {1, 2}}) == "0-7 8-11 14-15 12-13");
  CHECK(places({4, 4}, {{1, 1}, {2, 4}, {1, 1}, {1, 2}, {1, 4}}) == "15-15 0-7 14-14 12-13 8-11");
  CHECK(places({1, 4}, {{1, 1}, {1, 2}, {1, 1}}) == "3-3 0-1 2-2");
}

TEST_CASE("parts whose largest-first order leaves gaps are placed by other orders") {
  // Largest first: 4 + 3, then 3 + 2 + 2, and the last 2 has no place.
  CHECK(places({2, 8}, {{1, 4}, {1, 3}, {1, 3}, {1, 2}, {1, 2}, {1, 2}}) ==
        "0-3 11-13 8-10 14-15 6-7 4-5");
}

TEST_CASE("placement gives every device to one submesh within a host, or says that none does") {
  std::mt19937 random(3);
  int tiled = 0, refused = 0;
  for (int trial = 0; trial < 400; ++trial) {
    const Submesh cluster{1 + static_cast<int>(random() % 3), 3 + static_cast<int>(random() % 6)};
    std::vector<Submesh> submeshes;
    std::vector<int> parts, free(cluster.hosts, cluster.devices);
    for (int left = cluster.num_devices(); left > 0;) {
      const int most = std::min(left, cluster.devices);
      const int devices = 1 + static_cast<int>(random() % most);
      submeshes.push_back({1, devices});
      parts.push_back(devices);
      left -= devices;
    }
    if (!can_fill(parts, 0, free)) {
      ++refused;
      CHECK_THROWS_AS(inter_op::place(cluster, submeshes), Error);
      continue;
    }
    ++tiled;
    std::vector<bool> used(cluster.num_devices());
    const auto placed = inter_op::place(cluster, submeshes);
    for (std::size_t s = 0; s < placed.size(); ++s) {
      CHECK(static_cast<int>(placed[s].size()) == submeshes[s].devices);
      CHECK(placed[s].front() / cluster.devices == placed[s].back() / cluster.devices);
      for (int device : placed[s]) {
        CHECK(!used[device]);
        used[device] = true;
      }
    }
  }
  CHECK(tiled > 50);
  CHECK(refused > 20);
}

TEST_CASE("submeshes that do not tile the cluster are errors") {
  CHECK(error_of([] {
          inter_op::place({1, 8}, {{1, 2}, {1, 4}});
        }) ==
        "submeshes 1x2, 1x4 have 6 devices, the cluster 1x8 has 8; stages must use each device "
        "once");
  CHECK(error_of([] {
          inter_op::place({2, 4}, {{1, 3}, {1, 3}, {1, 2}});
        }) == "submeshes 1x3, 1x3, 1x2 do not tile 2 hosts of 4 devices; change their sizes");
  CHECK(error_of([] {
          inter_op::place({2, 4}, {{2, 2}, {1, 4}});
        }) ==
        "submesh 2x2: a stage has part of one host or all 4 devices of several; the cluster is "
        "2x4");
  CHECK(error_of([] {
          inter_op::place({2, 4}, {{1, 8}});
        }) ==
        "submesh 1x8: a stage has part of one host or all 4 devices of several; the cluster is "
        "2x4");
}

}  // namespace submesh_test
