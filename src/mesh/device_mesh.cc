// src/mesh/device_mesh.cc — devices arranged along named axes, row-major
#include "alpa/mesh/device_mesh.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <ranges>

#include "alpa/base/error.h"
#include "alpa/base/text.h"
#include "alpa/mesh/sharding_spec.h"

namespace alpa {
namespace {

constexpr std::int64_t kMaxDevices = 1 << 20;

std::int64_t checked_places(const std::vector<MeshAxis>& axes) {
  require(axes.size() <= kMaxMeshAxes,
          "device mesh: {} axes, but at most {} are supported; merge some of them", axes.size(),
          kMaxMeshAxes);
  std::int64_t places = 1;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    require(axes[i].size >= 1,
            "device mesh: axis \"{}\" has size {}; give every axis at least one device",
            excerpt(axes[i].name), axes[i].size);
    for (std::size_t j = 0; j < i; ++j) {
      require(axes[i].name != axes[j].name,
              "device mesh: two axes are called \"{}\"; name every axis differently",
              excerpt(axes[i].name));
    }
    places *= axes[i].size;
    require(places <= kMaxDevices, "device mesh: more than {} devices; use smaller axes",
            kMaxDevices);
  }
  return places;
}

std::vector<int> first_devices(const std::vector<MeshAxis>& axes) {
  std::vector<int> devices(checked_places(axes));
  std::iota(devices.begin(), devices.end(), 0);
  return devices;
}

}  // namespace

DeviceMesh::DeviceMesh(std::vector<MeshAxis> axes)
    : axes_(std::move(axes)), devices_(first_devices(axes_)) {}

DeviceMesh::DeviceMesh(std::vector<MeshAxis> axes, std::vector<int> devices)
    : axes_(std::move(axes)), devices_(std::move(devices)) {
  const std::int64_t places = checked_places(axes_);
  require(static_cast<std::int64_t>(devices_.size()) == places,
          "device mesh: {} device ids for {} places ({}); give one id per place", devices_.size(),
          places, shape_text(*this));
  std::vector<int> sorted = devices_;
  std::sort(sorted.begin(), sorted.end());
  const auto twin = std::adjacent_find(sorted.begin(), sorted.end());
  if (twin != sorted.end())
    fail("device mesh: device {} is listed twice; list every device once", *twin);
}

std::vector<int> DeviceMesh::coordinates(int rank) const {
  invariant(rank >= 0 && rank < num_devices(), "device mesh: rank {} of {}", rank, num_devices());
  std::vector<int> at(axes_.size());
  for (int axis = num_axes() - 1; axis >= 0; --axis) {
    at[axis] = rank % axes_[axis].size;
    rank /= axes_[axis].size;
  }
  return at;
}

int DeviceMesh::rank(const std::vector<int>& coordinates) const {
  invariant(coordinates.size() == axes_.size(), "device mesh: {} coordinates for {} axes",
            coordinates.size(), axes_.size());
  int rank = 0;
  for (int axis = 0; axis < num_axes(); ++axis) {
    invariant(coordinates[axis] >= 0 && coordinates[axis] < axes_[axis].size,
              "device mesh: coordinate {} on axis {} of size {}", coordinates[axis], axis,
              axes_[axis].size);
    rank = rank * axes_[axis].size + coordinates[axis];
  }
  return rank;
}

std::vector<int> DeviceMesh::group(int rank, const std::vector<int>& axes) const {
  std::vector<int> at = coordinates(rank);
  int members = 1;
  for (int axis : axes) {
    invariant(axis >= 0 && axis < num_axes(), "device mesh: axis {} of {}", axis, num_axes());
    members *= size(axis);
  }
  std::vector<int> ranks;
  ranks.reserve(members);
  for (int member = 0; member < members; ++member) {
    int rest = member;
    for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
      at[*axis] = rest % size(*axis);
      rest /= size(*axis);
    }
    ranks.push_back(this->rank(at));
  }
  return ranks;
}

std::string shape_text(const DeviceMesh& mesh) {
  if (mesh.num_axes() == 0) return "1";
  return fmt::format("{}", fmt::join(mesh.axes() | std::views::transform(&MeshAxis::size), "x"));
}

}  // namespace alpa
