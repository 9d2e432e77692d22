#include "alpa/mesh/sharding_spec.h"

#include <doctest/doctest.h>

#include <set>

#include "alpa/base/error.h"
#include "alpa/mesh/device_mesh.h"

namespace sharding_spec_test {

using namespace alpa;

namespace {

DeviceMesh mesh_of(const std::vector<int>& sizes) {
  std::vector<MeshAxis> axes;
  for (std::size_t i = 0; i < sizes.size(); ++i)
    axes.push_back({"a" + std::to_string(i), sizes[i]});
  return DeviceMesh(axes);
}

std::string error_of(std::string_view text) {
  try {
    parse_spec(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

std::string message(const std::string& text, const std::string& what) {
  return "sharding spec \"" + text + "\": " + what +
         "; write \"R\", or words like \"S0@1\" (tensor dimension 0 split over mesh axis 1, "
         "major axis first), \"P+@0\", \"Pmax@0\" or \"Plse@0\" (partial over mesh axis 0)";
}

/// Parts of [0, size) along one dimension, over all devices of the mesh.
std::vector<Extent> parts(std::int64_t size, const ShardingSpec& spec, const DeviceMesh& mesh) {
  std::vector<Extent> result;
  for (int rank = 0; rank < mesh.num_devices(); ++rank) {
    result.push_back(shard_extent(size, spec, 0, mesh, mesh.coordinates(rank)));
  }
  return result;
}

/// Alpa's notation for a layout: number of tiles per dimension (then copies per tile, if any) and
/// the devices in tile order.
struct Tiling {
  std::vector<int> tiles;
  std::vector<int> devices;
  bool operator==(const Tiling&) const = default;
};

Tiling tiling(const Shape& shape, const ShardingSpec& spec, const DeviceMesh& mesh) {
  Tiling result;
  std::set<std::pair<Shape, int>> by_tile;
  std::set<Shape> tiles;
  std::vector<std::set<std::int64_t>> starts(shape.size());
  for (int rank = 0; rank < mesh.num_devices(); ++rank) {
    const Shape offset = local_offset(shape, spec, mesh, mesh.coordinates(rank));
    by_tile.insert({offset, rank});
    tiles.insert(offset);
    for (std::size_t d = 0; d < shape.size(); ++d) starts[d].insert(offset[d]);
  }
  for (const auto& s : starts) result.tiles.push_back(static_cast<int>(s.size()));
  const int copies = mesh.num_devices() / static_cast<int>(tiles.size());
  if (copies > 1) result.tiles.push_back(copies);
  for (const auto& [offset, rank] : by_tile) result.devices.push_back(rank);
  return result;
}

}  // namespace

TEST_CASE("specs print by dimension, major axis first, then partial axes") {
  CHECK(to_string(ShardingSpec::replicated()) == "R");
  CHECK(to_string(ShardingSpec{}.split(1, 0).split(0, 0).partial(2)) == "S0@1 S0@0 P+@2");
  CHECK(to_string(ShardingSpec{}.split(3, 2).split(0, 1)) == "S1@0 S2@3");
  CHECK(to_string(ShardingSpec{}.partial(1, Combiner::max).partial(0, Combiner::max)) ==
        "Pmax@0 Pmax@1");
  CHECK(to_string(ShardingSpec{}.partial(1, Combiner::log_sum_exp)) == "Plse@1");
}

TEST_CASE(
    "every spec of four axes and three dimensions reads back from its text, and texts differ") {
  std::set<std::string> texts;
  std::set<std::size_t> hashes;
  for (Combiner combiner : kCombiners) {
    std::vector<ShardingSpec> specs{{}};
    // every way to add this axis, in every order of axes
    for (int axis = 0; axis < kMaxMeshAxes; ++axis) {
      const std::size_t before = specs.size();
      for (std::size_t i = 0; i < before; ++i) {
        for (int dim = 0; dim < 3; ++dim) specs.push_back(specs[i].split(axis, dim));
        specs.push_back(specs[i].partial(axis, combiner));
      }
    }
    CHECK(specs.size() == 625);
    for (const ShardingSpec& spec : specs) {
      const std::string text = to_string(spec);
      CHECK(parse_spec(text) == spec);
      texts.insert(text);
      hashes.insert(std::hash<ShardingSpec>()(spec));
    }
  }
  // 256 have no partial axis
  CHECK(texts.size() == 256 + 3 * (625 - 256));
  CHECK(hashes.size() == texts.size());
}

TEST_CASE("a spec does not depend on how it was reached") {
  CHECK(ShardingSpec{}.split(0, 1).split(1, 0) == ShardingSpec{}.split(1, 0).split(0, 1));
  CHECK(ShardingSpec{}.split(0, 0).split(1, 0) != ShardingSpec{}.split(1, 0).split(0, 0));
  CHECK(ShardingSpec{}.split(0, 0).without(0) == ShardingSpec{});
  CHECK(ShardingSpec{}.partial(2, Combiner::max).without(2).is_replicated());
  CHECK(parse_spec("P+@2 S1@0 S0@1") == parse_spec("S0@1 S1@0 P+@2"));
  CHECK(parse_spec("S0@1 S0@0").axes_of(0) == std::vector<int>{1, 0});
  CHECK(parse_spec("S0@1 S0@0").axes_of(1).empty());
  CHECK(parse_spec("S0@1 P+@0").is_partial());
  CHECK_FALSE(parse_spec("S0@1").is_partial());
}

TEST_CASE("only free axes can be used and only minor-most ones given up") {
  CHECK_THROWS_AS(ShardingSpec{}.split(0, 0).split(0, 1), Bug);
  CHECK_THROWS_AS(ShardingSpec{}.split(0, 0).partial(0), Bug);
  CHECK_THROWS_AS(ShardingSpec{}.split(4, 0), Bug);
  CHECK_THROWS_AS(ShardingSpec{}.split(0, 0).split(1, 0).without(0), Bug);
}

TEST_CASE("a text that is not a spec is refused with the place and the rule") {
  CHECK(error_of("") == message("", "empty"));
  CHECK(error_of("Q0@1") == message("Q0@1", "unknown word \"Q0@1\""));
  CHECK(error_of("R S0@0") == message("R S0@0", "unknown word \"R\""));
  CHECK(error_of("S0@0  S1@1") ==
        message("S0@0  S1@1", "words must be separated by single spaces"));
  CHECK(error_of("S0@0 ") == message("S0@0 ", "words must be separated by single spaces"));
  CHECK(error_of("Sx@0") == message("Sx@0", "expected a tensor dimension at \"x@0\""));
  CHECK(error_of("S-1@0") == message("S-1@0", "expected a tensor dimension at \"-1@0\""));
  CHECK(error_of("S999@0") == message("S999@0", "tensor dimension 999 is not below 256"));
  CHECK(error_of("S0") == message("S0", "expected \"@\" and a mesh axis at \"\""));
  CHECK(error_of("S0@4") == message("S0@4", "mesh axis 4 is not below 4"));
  CHECK(error_of("S0@1x") == message("S0@1x", "unexpected \"x\" after mesh axis 1"));
  CHECK(error_of("S0@1 S1@1") == message("S0@1 S1@1", "mesh axis 1 is used twice"));
  CHECK(error_of("P*@0") ==
        message("P*@0", "expected \"+\", \"max\" or \"lse\" after \"P\" at \"*@0\""));
  CHECK(error_of("P+@0 Pmax@1") ==
        message("P+@0 Pmax@1", "partial results of several kinds cannot be mixed"));
}

TEST_CASE(
    "7 rows on 4 devices are 2, 2, 2, 1; 5 rows on 4 are 2, 2, 1, 0; 2 rows on 4 are 1, 1, 0, 0") {
  const DeviceMesh mesh = mesh_of({4});
  const ShardingSpec spec = parse_spec("S0@0");
  CHECK(parts(7, spec, mesh) == std::vector<Extent>{{0, 2}, {2, 2}, {4, 2}, {6, 1}});
  CHECK(parts(5, spec, mesh) == std::vector<Extent>{{0, 2}, {2, 2}, {4, 1}, {5, 0}});
  CHECK(parts(2, spec, mesh) == std::vector<Extent>{{0, 1}, {1, 1}, {2, 0}, {2, 0}});
  CHECK(parts(0, spec, mesh) == std::vector<Extent>{{0, 0}, {0, 0}, {0, 0}, {0, 0}});
}

TEST_CASE("two axes on one dimension split the chunks of the major one") {
  const DeviceMesh mesh = mesh_of({2, 3});  // ranks are (axis 0, axis 1) row-major
  CHECK(parts(10, parse_spec("S0@0 S0@1"), mesh) ==
        std::vector<Extent>{{0, 2}, {2, 2}, {4, 1}, {5, 2}, {7, 2}, {9, 1}});
  CHECK(parts(10, parse_spec("S0@1 S0@0"), mesh) ==
        std::vector<Extent>{{0, 2}, {4, 2}, {8, 2}, {2, 2}, {6, 2}, {10, 0}});
}

TEST_CASE("parts cover every dimension exactly once, whatever its size") {
  for (const std::vector<int>& sizes : {std::vector<int>{3}, {4}, {2, 2}, {2, 3}, {3, 2, 2}}) {
    const DeviceMesh mesh = mesh_of(sizes);
    ShardingSpec forward, backward;
    for (int axis = 0; axis < mesh.num_axes(); ++axis) forward = forward.split(axis, 0);
    for (int axis = mesh.num_axes() - 1; axis >= 0; --axis) backward = backward.split(axis, 0);
    for (std::int64_t size = 0; size <= 40; ++size) {
      for (const ShardingSpec& spec : {forward, backward}) {
        std::vector<int> owners(size, 0);
        const Extent largest = shard_extent(size, spec, 0, mesh, std::vector<int>(sizes.size(), 0));
        for (const Extent& part : parts(size, spec, mesh)) {
          REQUIRE((part.begin >= 0 && part.extent >= 0 && part.begin + part.extent <= size));
          CHECK(part.extent <= largest.extent);
          for (std::int64_t i = part.begin; i < part.begin + part.extent; ++i) ++owners[i];
        }
        CHECK(owners == std::vector<int>(size, 1));
      }
    }
  }
}

TEST_CASE("local shape, offset and bytes follow from the parts") {
  const DeviceMesh mesh = mesh_of({2, 4});
  const ShardingSpec spec = parse_spec("S1@1 P+@0");
  CHECK(local_shape({5, 7, 3}, spec, mesh, {1, 3}) == Shape{5, 1, 3});
  CHECK(local_offset({5, 7, 3}, spec, mesh, {1, 3}) == Shape{0, 6, 0});
  CHECK(shard_bytes({bf16, {5, 7, 3}}, spec, mesh) == 5 * 2 * 3 * 2);
  CHECK(shard_bytes({f32, {}}, parse_spec("P+@0"), mesh) == 4);
}

TEST_CASE("layouts are Alpa's tile assignments (test_sharding_spec.py)") {
  const std::vector<int> rows{0, 1, 2, 3, 4, 5}, columns{0, 3, 1, 4, 2, 5};
  const DeviceMesh mesh = mesh_of({2, 3});
  const Shape square{12, 12}, cube{12, 12, 12};
  CHECK(tiling(square, parse_spec("S0@0 S1@1"), mesh) == Tiling{{2, 3}, rows});
  CHECK(tiling(square, parse_spec("S1@1 S0@0"), mesh) == Tiling{{2, 3}, rows});
  CHECK(tiling(square, parse_spec("S0@1 S1@0"), mesh) == Tiling{{3, 2}, columns});
  CHECK(tiling(square, parse_spec("S0@0"), mesh) == Tiling{{2, 1, 3}, rows});
  CHECK(tiling(square, parse_spec("S0@1"), mesh) == Tiling{{3, 1, 2}, columns});
  CHECK(tiling(square, parse_spec("S1@1"), mesh) == Tiling{{1, 3, 2}, columns});
  CHECK(tiling(square, parse_spec("S1@0"), mesh) == Tiling{{1, 2, 3}, rows});
  CHECK(tiling(cube, parse_spec("S0@0 S1@1"), mesh) == Tiling{{2, 3, 1}, rows});
  CHECK(tiling(cube, parse_spec("S0@1 S1@0"), mesh) == Tiling{{3, 2, 1}, columns});
  CHECK(tiling(cube, parse_spec("S1@0"), mesh) == Tiling{{1, 2, 1, 3}, rows});
  const std::vector<int> four{0, 1, 2, 3};
  CHECK(tiling(square, parse_spec("S1@1"), mesh_of({1, 4})) == Tiling{{1, 4}, four});
  CHECK(tiling(square, parse_spec("S1@0"), mesh_of({1, 4})) == Tiling{{1, 1, 4}, four});
  CHECK(tiling(square, parse_spec("S1@0"), mesh_of({4, 1})) == Tiling{{1, 4}, four});
  CHECK(tiling(square, parse_spec("S1@1"), mesh_of({4, 1})) == Tiling{{1, 1, 4}, four});
}

}  // namespace sharding_spec_test
