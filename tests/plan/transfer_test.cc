// Who sends what when a tensor goes from one mesh to another, and what it costs.
#include "src/plan/cost/transfer.h"

#include <doctest/doctest.h>

#include <map>
#include <set>

#include "alpa/base/error.h"
#include "src/plan/cost/reshard.h"
#include "support/steps.h"
#include "support/two_meshes.h"

namespace transfer_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

std::int64_t bytes_of(const cost::TransferTile& tile) {
  return TensorType{f32, tile.extent}.bytes();
}

std::set<Shape> elements_of(const Shape& begin, const Shape& extent) {
  std::set<Shape> elements;
  for (std::int64_t i = begin[0]; i < begin[0] + extent[0]; ++i)
    for (std::int64_t j = begin[1]; j < begin[1] + extent[1]; ++j) elements.insert({i, j});
  return elements;
}

std::set<Shape> held_by(const Shape& shape, const cost::MeshLayout& layout, int rank) {
  const std::vector<int> at = layout.mesh.coordinates(rank);
  return elements_of(local_offset(shape, layout.spec, layout.mesh, at),
                     local_shape(shape, layout.spec, layout.mesh, at));
}

}  // namespace

TEST_CASE(
    "every device gets each of its elements once, from a device that has it, for all pairs of "
    "specs") {
  const TensorType type{f32, {5, 6}};
  for (const DeviceMesh& a : {mesh_from(0, {2, 2}), mesh_from(0, {3}), mesh_from(0, {1})})
    for (const DeviceMesh& b : {mesh_from(4, {3}), mesh_from(4, {2, 2})})
      for (const ShardingSpec& p : cost::all_specs(type, a, cost::kNoPartials))
        for (const ShardingSpec& q : cost::all_specs(type, b, cost::kNoPartials)) {
          for (const cost::TransferRoute& route :
               {cost::TransferRoute{}, {.devices_per_host = 2}, {2, 1}, {3, 3}}) {
            std::map<int, std::set<Shape>> got;
            for (const cost::TransferTile& tile :
                 cost::transfer_tiles(type, {a, p}, {b, q}, route)) {
              const std::set<Shape> source =
                  tile.passed_on ? got[tile.from] : held_by(type.shape, {a, p}, tile.from);
              for (const Shape& element : elements_of(tile.begin, tile.extent)) {
                REQUIRE(source.count(element));
                REQUIRE(got[tile.to].insert(element).second);
              }
            }
            for (int rank = 0; rank < b.num_devices(); ++rank)
              REQUIRE(got[b.devices()[rank]] == held_by(type.shape, {b, q}, rank));
          }
        }
}

TEST_CASE("devices with equal shards share the sending") {
  const DeviceMesh a = mesh_from(0, {4}), b = mesh_from(4, {4});
  const TensorType type{f32, {8, 2}};
  std::map<int, std::int64_t> sent;
  for (const cost::TransferTile& tile :
       cost::transfer_tiles(type, {a, ShardingSpec::replicated()}, {b, parse_spec("S0@0")}))
    sent[tile.from] += bytes_of(tile);
  CHECK(sent == std::map<int, std::int64_t>{{0, 16}, {1, 16}, {2, 16}, {3, 16}});
}

TEST_CASE("a transfer costs what its busiest device does") {
  const DeviceMesh a = mesh_from(0, {2}), b = mesh_from(2, {4});
  const TensorType type{f32, {8, 2}};  // 64 bytes
  Cluster cluster;
  cluster.devices_per_host = 6;
  cluster.within_host = {1e-6, 1e-9};
  // Each of two senders has two boxes of 16 bytes to send.
  const cost::TransferCost split =
      cost::transfer_cost(type, {a, parse_spec("S0@0")}, {b, parse_spec("S0@0")}, cluster);
  CHECK(split.bytes == 64);
  CHECK(split.seconds == doctest::Approx(2 * (1e-6 + 16e-9)));
  // Four copies: each sender sends its half to all of them.
  const cost::TransferCost copies =
      cost::transfer_cost(type, {a, parse_spec("S0@0")}, {b, ShardingSpec::replicated()}, cluster);
  CHECK(copies.bytes == 4 * 64);
  CHECK(copies.seconds == doctest::Approx(4 * (1e-6 + 32e-9)));
  CHECK_THROWS_AS(
      cost::transfer_cost(type, {a, parse_spec("P+@0")}, {b, ShardingSpec::replicated()}, cluster),
      Bug);
}

TEST_CASE("meshes of one host have its link, others the slower one") {
  Cluster cluster;
  cluster.num_hosts = 2;
  cluster.devices_per_host = 4;
  cluster.within_host = {1e-6, 1e-10};
  cluster.between_hosts = {5e-6, 1e-9};
  CHECK(cost::link_between(cluster, mesh_from(0, {2}), mesh_from(2, {2})) == cluster.within_host);
  CHECK(cost::link_between(cluster, mesh_from(0, {4}), mesh_from(4, {4})) == cluster.between_hosts);
  CHECK(cost::link_between(cluster, mesh_from(4, {2}), mesh_from(6, {2})) == cluster.within_host);
}

TEST_CASE("no way to move a tensor takes less than the least, and the cheapest takes no more") {
  const TensorType type{f32, {6, 8}};
  Cluster cluster;
  cluster.devices_per_host = 8;
  cluster.within_host = {1e-6, 1e-8};
  const auto bytes = static_cast<double>(type.bytes());
  for (const DeviceMesh& a : {mesh_from(0, {2, 2}), mesh_from(0, {3}), mesh_from(0, {1})})
    for (const DeviceMesh& b : {mesh_from(4, {3}), mesh_from(4, {2, 2})})
      for (const ShardingSpec& p : cost::all_specs(type, a, cost::kNoPartials))
        for (const ShardingSpec& q : cost::all_specs(type, b, cost::kNoPartials)) {
          const double least = cost::least_transfer_seconds(bytes, a.num_devices(), b.num_devices(),
                                                            cluster.within_host);
          const double direct = cost::transfer_cost(type, {a, p}, {b, q}, cluster).seconds,
                       broadcast = cost::transfer_cost(type, {a, p}, {b, q}, cluster, {.chunks = 2})
                                       .seconds,
                       best = cost::plan_transfer(type, {a, p}, {b, q}, cluster).cost.seconds;
          REQUIRE(best >= least * (1 - 1e-12));
          REQUIRE(best <= std::min(direct, broadcast));
        }
}

}  // namespace transfer_test
