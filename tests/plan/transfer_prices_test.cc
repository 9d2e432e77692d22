// Transfers that differ only in their hosts are priced once, and as each would be alone.
#include "src/plan/cost/transfer_prices.h"

#include <doctest/doctest.h>

#include "support/two_meshes.h"

namespace transfer_prices_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

Cluster two_devices_a_host() {
  Cluster cluster;
  cluster.num_hosts = 8;
  cluster.devices_per_host = 2;
  cluster.within_host = {1e-6, 1e-10};
  cluster.between_hosts = {5e-6, 1e-9};
  return cluster;
}

}  // namespace

TEST_CASE("a transfer moved by whole hosts has the same price and plan, found once") {
  const TensorType type{f32, {12, 6}};
  const Cluster cluster = two_devices_a_host();
  for (const ShardingSpec& p : cost::all_specs(type, mesh_from(0, {2, 2}), cost::kNoPartials))
    for (const ShardingSpec& q : cost::all_specs(type, mesh_from(4, {4}), cost::kNoPartials)) {
      cost::TransferPrices prices(cluster);
      for (int first = 0; first <= 8; first += 2) {
        const DeviceMesh a = mesh_from(first, {2, 2}), b = mesh_from(first + 4, {4});
        const cost::PlannedTransfer kept = prices.plan(type, {a, p}, {b, q});
        const cost::PlannedTransfer alone = cost::plan_transfer(type, {a, p}, {b, q}, cluster);
        REQUIRE(kept.strategy == alone.strategy);
        REQUIRE(kept.arrives == alone.arrives);
        REQUIRE(kept.route == alone.route);
        REQUIRE(kept.cost.seconds == alone.cost.seconds);
        const cost::MeshLayout to{b, kept.arrives};
        REQUIRE(prices.cost(type, {a, p}, to, kept.route).seconds ==
                cost::transfer_cost(type, {a, p}, to, cluster, kept.route).seconds);
      }
      REQUIRE(prices.distinct() == 2);
    }
}

TEST_CASE("transfers that share hosts in another way are not alike") {
  const TensorType type{f32, {12, 6}};
  const Cluster cluster = two_devices_a_host();
  cost::TransferPrices prices(cluster);
  const auto seconds = [&](int first) {
    return prices
        .plan(type, {mesh_from(first, {1}), ShardingSpec::replicated()},
              {mesh_from(first + 1, {1}), ShardingSpec::replicated()})
        .cost.seconds;
  };
  CHECK(seconds(0) < seconds(1));
  CHECK(seconds(2) == seconds(0));
  CHECK(prices.distinct() == 2);
}

}  // namespace transfer_prices_test
