#include "alpa/mesh/device_mesh.h"

#include <doctest/doctest.h>

#include "alpa/base/error.h"
#include "support/error_text.h"

namespace device_mesh_test {

using namespace alpa;
using namespace alpa::testing;

TEST_CASE("ranks are row-major over the axes") {
  const DeviceMesh mesh({{"x", 2}, {"y", 3}, {"z", 2}});
  CHECK(mesh.num_devices() == 12);
  CHECK(mesh.coordinates(7) == std::vector<int>{1, 0, 1});
  for (int rank = 0; rank < 12; ++rank) CHECK(mesh.rank(mesh.coordinates(rank)) == rank);
  CHECK_THROWS_AS(mesh.coordinates(12), Bug);
  CHECK_THROWS_AS(mesh.rank({0, 3, 0}), Bug);
}

TEST_CASE("a group differs only along its axes, the first axis slowest") {
  const DeviceMesh mesh({{"x", 2}, {"y", 3}});
  CHECK(mesh.group(4, {1}) == std::vector<int>{3, 4, 5});
  CHECK(mesh.group(4, {0}) == std::vector<int>{1, 4});
  CHECK(mesh.group(4, {0, 1}) == std::vector<int>{0, 1, 2, 3, 4, 5});
  CHECK(mesh.group(4, {1, 0}) == std::vector<int>{0, 3, 1, 4, 2, 5});
  CHECK(mesh.group(4, {}) == std::vector<int>{4});
}

TEST_CASE("a mesh without axes is one device") {
  const DeviceMesh mesh;
  CHECK(mesh.num_devices() == 1);
  CHECK(mesh.coordinates(0).empty());
  CHECK(mesh.rank({}) == 0);
  CHECK(shape_text(mesh) == "1");
  CHECK(shape_text(DeviceMesh({{"x", 2}, {"y", 4}})) == "2x4");
}

TEST_CASE("device ids can be given") {
  const DeviceMesh mesh({{"x", 2}}, {7, 3});
  CHECK(mesh.devices() == std::vector<int>{7, 3});
  CHECK(mesh != DeviceMesh({{"x", 2}}));
}

TEST_CASE("impossible meshes are refused") {
  using Axes = std::vector<MeshAxis>;
  const Axes two{{"x", 2}}, empty{{"x", 2}, {"y", 0}}, twins{{"x", 2}, {"x", 2}},
      five{{"a", 1}, {"b", 1}, {"c", 1}, {"d", 1}, {"e", 1}}, huge{{"x", 1 << 20}, {"y", 1 << 20}};
  CHECK(error_of([&] { DeviceMesh m(empty); }) ==
        "device mesh: axis \"y\" has size 0; give every axis at least one device");
  CHECK(error_of([&] { DeviceMesh m(twins); }) ==
        "device mesh: two axes are called \"x\"; name every axis differently");
  CHECK(error_of([&] { DeviceMesh m(five); }) ==
        "device mesh: 5 axes, but at most 4 are supported; merge some of them");
  CHECK(error_of([&] { DeviceMesh m(huge); }) ==
        "device mesh: more than 1048576 devices; use smaller axes");
  CHECK(error_of([&] {
          DeviceMesh m(two, {0, 1, 2});
        }) == "device mesh: 3 device ids for 2 places (2); give one id per place");
  CHECK(error_of([&] {
          DeviceMesh m(two, {5, 5});
        }) == "device mesh: device 5 is listed twice; list every device once");
}

}  // namespace device_mesh_test
