// src/mesh/cluster.cc — logical meshes and parts of a cluster
#include "alpa/mesh/cluster.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "alpa/base/error.h"
#include "alpa/base/text.h"
#include "alpa/mesh/sharding_spec.h"
#include "known_clusters.h"

namespace alpa {
namespace {

/// True if devices `stride` apart, `size` of them, all sit in one host for every group of the mesh.
bool within_one_host(const Cluster& cluster, int stride, int size) {
  const int block = stride * size;
  for (int first = 0; first < cluster.num_devices(); first += block) {
    for (int rank = first; rank < first + stride; ++rank) {
      const int last = rank + (size - 1) * stride;
      if (rank / cluster.devices_per_host != last / cluster.devices_per_host) return false;
    }
  }
  return true;
}

Link slower(const Link& a, const Link& b) {
  return {std::max(a.alpha_seconds, b.alpha_seconds),
          std::max(a.beta_seconds_per_byte, b.beta_seconds_per_byte)};
}

}  // namespace

DeviceMesh Cluster::mesh(const std::vector<int>& shape) const {
  require(!shape.empty() && shape.size() <= kMaxMeshAxes, "mesh shape \"{}\": give 1 to {} axes",
          fmt::join(shape, "x"), kMaxMeshAxes);
  std::int64_t product = 1;
  for (int size : shape) {
    require(size >= 1, "mesh shape {}: every axis needs at least one device",
            fmt::join(shape, "x"));
    product *= size;
    require(product <= num_devices(),
            "mesh shape {}: the cluster has {} devices ({} hosts of {}), fewer than the mesh needs",
            fmt::join(shape, "x"), num_devices(), num_hosts, devices_per_host);
  }
  require(product == num_devices(),
          "mesh shape {} has {} devices, but the cluster has {} ({} hosts of {}); "
          "the product of the axes must be {}",
          fmt::join(shape, "x"), product, num_devices(), num_hosts, devices_per_host,
          num_devices());
  std::vector<MeshAxis> axes;
  int stride = num_devices();
  for (std::size_t i = 0; i < shape.size(); ++i) {
    stride /= shape[i];
    const Link link =
        within_one_host(*this, stride, shape[i]) ? within_host : slower(within_host, between_hosts);
    axes.push_back(
        {std::string(1, "xyzw"[i]), shape[i], link.alpha_seconds, link.beta_seconds_per_byte});
  }
  return DeviceMesh(std::move(axes));
}

Cluster Cluster::submesh(int hosts, int devices) const {
  require(hosts >= 1 && hosts <= num_hosts, "submesh of {} hosts: the cluster has {}", hosts,
          num_hosts);
  require(devices >= 1 && devices <= devices_per_host,
          "submesh of {} devices per host: the hosts have {}", devices, devices_per_host);
  Cluster part = *this;
  part.num_hosts = hosts;
  part.devices_per_host = devices;
  return part;
}

std::vector<std::vector<int>> logical_mesh_shapes(int n) {
  require(n >= 1, "logical mesh shapes of {} devices; give at least 1", n);
  std::vector<std::vector<int>> shapes{{n}};
  for (int rows = 2; rows < n; ++rows) {
    if (n % rows == 0) shapes.push_back({rows, n / rows});
  }
  return shapes;
}

std::vector<int> parse_mesh_shape(const std::string& text) {
  std::vector<int> shape;
  const char *at = text.data(), *end = at + text.size();
  while (true) {
    int size = 0;
    const auto [next, error] = std::from_chars(at, end, size);
    require(
        error == std::errc() && size >= 1 && (next == end || *next == 'x') &&
            shape.size() < kMaxMeshAxes,
        "mesh shape \"{}\": expected 1 to {} positive sizes joined by \"x\", like \"8\" or \"2x4\"",
        excerpt(text), kMaxMeshAxes);
    shape.push_back(size);
    if (next == end) return shape;
    at = next + 1;
  }
}

}  // namespace alpa
