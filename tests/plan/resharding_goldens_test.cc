// Transfers between the meshes of Alpa's resharding suite: counts of messages, bytes received and
// loads of senders are those of Alpa, or lower. Alpa's numbers are its plans' (cases and notes in
// its suite, benchmark/alpa/resharding, and tests/pipeline_parallel/test_cross_mesh_resharding.py).
#include <doctest/doctest.h>

#include <array>
#include <map>

#include "src/plan/cost/cost_model.h"
#include "src/plan/cost/transfer.h"

namespace resharding_goldens_test {

using namespace alpa;

namespace {

/// Hosts of four devices (or `per_host`) from number `first_host` on.
DeviceMesh mesh_at(int first_host, int hosts, int per_host, const std::vector<int>& shape) {
  std::vector<MeshAxis> axes;
  for (std::size_t i = 0; i < shape.size(); ++i)
    axes.push_back({std::string(1, "xyz"[i]), shape[i], 1e-9, i == 0 && hosts > 1 ? 1e-9 : 1e-12});
  std::vector<int> devices;
  for (int d = 0; d < hosts * per_host; ++d) devices.push_back(first_host * per_host + d);
  return DeviceMesh(axes, devices);
}

/// Numbers of a plan. Parts of the tensor are of all its elements.
struct Numbers {
  int tasks = 0;               ///< messages; broadcasts, each with all its receivers
  double received = 0;         ///< parts that arrive, of all devices; a gather's do not count
  double most_sent = 0;        ///< parts that the busiest host sends
  double network_seconds = 0;  ///< with one adapter per host that moves the tensor in one second
};

Numbers numbers_of(const TensorType& type, const cost::MeshLayout& from, const cost::MeshLayout& to,
                   const cost::TransferRoute& route) {
  Numbers numbers;
  std::map<int, double> sent, busy;  // by host
  const auto whole = static_cast<double>(type.elements());
  for (const cost::TransferTile& tile : cost::transfer_tiles(type, from, to, route)) {
    const double part = static_cast<double>(TensorType{f32, tile.extent}.elements()) / whole;
    const int source = tile.from / route.devices_per_host,
              target = tile.to / route.devices_per_host;
    numbers.received += part;
    if (tile.passed_on && source == target) continue;
    if (!tile.passed_on) ++numbers.tasks;
    numbers.most_sent = std::max(numbers.most_sent, sent[source] += part);
    busy[source] = busy[target] = std::max(busy[source], busy[target]) + part;
    numbers.network_seconds = std::max(numbers.network_seconds, busy[target]);
  }
  return numbers;
}

struct Case {
  const char* name;
  std::array<int, 2> hosts;
  int per_host;
  std::array<std::vector<int>, 2> shapes;  ///< of the meshes
  Shape shape;
  const char *from, *to;
  const char* parts;  ///< in which Alpa sends a tensor that is gathered
  Numbers direct, gathered, broadcast;
};

/// Adds Alpa's numbers. Its meshes of 1 x 2 and 1 x 4 are single axes here where it splits one.
std::vector<Case> cases() {
  std::vector<Case> all;
  const auto add = [&](const char* name, std::array<int, 2> hosts, int per_host,
                       std::array<std::vector<int>, 2> shapes, Shape shape, const char* from,
                       const char* to, const char* parts, Numbers direct, Numbers gathered,
                       Numbers broadcast) {
    all.push_back(
        {name, hosts, per_host, shapes, shape, from, to, parts, direct, gathered, broadcast});
  };
  add("case1", {2, 2}, 4, {{{2, 4}, {2, 4}}}, {1024, 1024, 512}, "S0@0", "S0@0", "S0@0 S0@1",
      {8, 4, 2, 2}, {8, 1, 0.5, 0.5}, {2, 4, 0.5, 0.5});
  add("case2", {2, 2}, 4, {{{2, 4}, {2, 4}}}, {1024, 1024, 512}, "R", "S0@0", "S0@0 S0@1",
      {8, 4, 2, 2}, {8, 1, 0.5, 0.5}, {2, 4, 0.5, 0.5});
  add("case3", {2, 2}, 4, {{{2, 4}, {2, 4}}}, {1024, 1024, 512}, "S1@0", "S0@0", "S0@0 S0@1",
      {16, 4, 2, 3.75}, {16, 1, 0.5, 0.9375}, {4, 4, 0.5, 0.5});
  add("case6", {2, 3}, 4, {{{2, 4}, {3, 4}}}, {3072, 1024, 170}, "S0@0", "S0@0", "S0@0 S0@1",
      {16, 4, 2, 4}, {12, 1, 0.5, 1}, {4, 4, 0.5, 0.5});
  add("4gpu", {1, 1}, 2, {{{2}, {2}}}, {4, 8, 16}, "R", "S0@0", "S0@0", {2, 1, 1, 1}, {2, 1, 1, 1},
      {2, 1, 1, 1});
  add("4gpu rows", {1, 1}, 2, {{{2}, {2}}}, {4, 8, 16}, "S0@0", "S0@0", "S0@0", {2, 1, 1, 1},
      {2, 1, 1, 1}, {2, 1, 1, 1});
  add("4gpu columns", {1, 1}, 2, {{{2}, {2}}}, {4, 8, 16}, "S1@0", "S0@0", "S0@0", {4, 1, 1, 1},
      {4, 1, 1, 1}, {4, 1, 1, 1});
  add("gather", {1, 1}, 2, {{{2}, {2}}}, {4, 8, 16}, "R", "R", "S0@0", {2, 2, 2, 2}, {2, 1, 1, 1},
      {1, 2, 1, 1});
  add("gather rows", {1, 1}, 2, {{{2}, {2}}}, {4, 8, 16}, "S0@0", "R", "S0@0", {4, 2, 2, 2},
      {2, 1, 1, 1}, {2, 2, 1, 1});
  add("gather columns", {1, 1}, 2, {{{2}, {2}}}, {4, 8, 16}, "S1@0", "R", "S0@0", {4, 2, 2, 2},
      {4, 1, 1, 1}, {2, 2, 1, 1});
  add("gather dim 1", {1, 1}, 2, {{{2}, {2}}}, {3, 8, 2}, "S1@0", "R", "S1@0", {4, 2, 2, 2},
      {2, 1, 1, 1}, {2, 2, 1, 1});
  add("gather two dims", {1, 1}, 4, {{{4}, {2, 2}}}, {6, 8, 16}, "R", "R", "S0@0 S1@1",
      {4, 4, 4, 4}, {4, 1, 1, 1}, {1, 4, 1, 1});
  add("gather tiles", {1, 1}, 4, {{{2, 2}, {2, 2}}}, {2, 64, 64}, "S0@0 S1@1", "R", "S0@0 S1@1",
      {16, 4, 4, 4}, {4, 1, 1, 1}, {4, 4, 1, 1});
  add("tiles to tiles", {1, 1}, 4, {{{2, 2}, {2, 2}}}, {64, 64, 64}, "S0@0 S1@1", "S0@0 S2@1",
      "S0@0 S2@1", {8, 1, 1, 1}, {8, 1, 1, 1}, {8, 1, 1, 1});
  return all;
}

void check_at_most(const Numbers& ours, const Numbers& alpas) {
  CHECK(ours.tasks <= alpas.tasks);
  CHECK(ours.received <= doctest::Approx(alpas.received));
  CHECK(ours.most_sent <= doctest::Approx(alpas.most_sent));
  CHECK(ours.network_seconds <= doctest::Approx(alpas.network_seconds));
}

/// Links within hosts are a thousand times as fast as those between them.
Cluster cluster_of(const Case& c) {
  Cluster cluster;
  cluster.num_hosts = c.hosts[0] + c.hosts[1];
  cluster.devices_per_host = c.per_host;
  cluster.within_host = {1e-9, 1e-12};
  cluster.between_hosts = {1e-9, 1e-9};
  return cluster;
}

}  // namespace

TEST_CASE("messages, bytes and loads of transfers are those of Alpa's plans, or fewer") {
  for (const Case& c : cases()) {
    CAPTURE(std::string(c.name));
    const TensorType type{f32, c.shape};
    const DeviceMesh a = mesh_at(0, c.hosts[0], c.per_host, c.shapes[0]),
                     b = mesh_at(c.hosts[0], c.hosts[1], c.per_host, c.shapes[1]);
    const cost::MeshLayout from{a, parse_spec(c.from)}, to{b, parse_spec(c.to)};
    check_at_most(numbers_of(type, from, to, {.devices_per_host = c.per_host}), c.direct);
    check_at_most(numbers_of(type, from, to, {.devices_per_host = c.per_host, .chunks = 1}),
                  c.broadcast);
    const cost::MeshLayout parts{b, parse_spec(c.parts)};
    check_at_most(numbers_of(type, from, parts, {.devices_per_host = c.per_host}), c.gathered);
    // The way chosen may send more and smaller messages, but is done first.
    const Cluster cluster = cluster_of(c);
    const cost::PlannedTransfer best = cost::plan_transfer(type, from, to, cluster);
    const auto gather =
        cost::find_reshard(type, parts.spec, to.spec, b, cost::CostModel::of(cluster).reshard);
    CHECK(best.cost.seconds <= cost::transfer_cost(type, from, parts, cluster,
                                                   {.devices_per_host = cluster.devices_per_host})
                                       .seconds +
                                   gather->seconds);
    const Numbers chosen = numbers_of(type, from, {b, best.arrives}, best.route);
    CHECK(chosen.received <= doctest::Approx(c.gathered.received));
    CHECK(chosen.most_sent <= doctest::Approx(c.gathered.most_sent));
  }
}

TEST_CASE("the cheapest way depends on the links: who has one sender only, broadcasts") {
  const TensorType type{f32, {1 << 20}};
  Cluster cluster;
  cluster.num_hosts = 1;
  cluster.devices_per_host = 5;
  cluster.within_host = {1e-6, 1e-9};
  std::vector<MeshAxis> axes{{"x", 4, 1e-6, 1e-9}};
  const DeviceMesh one({{"x", 1, 0, 0}}, {0}), four(axes, {1, 2, 3, 4});
  const cost::MeshLayout from{one, ShardingSpec::replicated()},
      to{four, ShardingSpec::replicated()};
  const double bytes = static_cast<double>(type.bytes());
  // Directly: four copies one after the other. In quarters and gathered: 1 + 3/4 of the bytes.
  // Along a chain in n chunks: (n + 3) / n of the bytes.
  CHECK(cost::transfer_cost(type, from, to, cluster).seconds ==
        doctest::Approx(4 * (1e-6 + bytes * 1e-9)));
  const cost::PlannedTransfer chain = cost::plan_transfer(type, from, to, cluster);
  CHECK(chain.strategy == cost::TransferStrategy::broadcast);
  const int n = chain.route.chunks;
  CHECK(n == 64);  // the most; by the formula it would be √(3 · bytes · β / α) = 112
  CHECK(chain.cost.seconds == doctest::Approx((n + 3) * (1e-6 + bytes / n * 1e-9)));
  CHECK(chain.cost.bytes == bytes);
  // A mesh that gathers a hundred times as fast is sent quarters.
  const DeviceMesh fast({{"x", 4, 1e-6, 1e-11}}, {1, 2, 3, 4});
  const cost::PlannedTransfer gathered =
      cost::plan_transfer(type, from, {fast, ShardingSpec::replicated()}, cluster);
  CHECK(gathered.strategy == cost::TransferStrategy::local_all_gather);
  CHECK(gathered.arrives == parse_spec("S0@0"));
  CHECK(gathered.cost.seconds ==
        doctest::Approx(4 * (1e-6 + bytes / 4 * 1e-9) + 1e-6 + 0.75 * bytes * 1e-11));
  // What every device needs a part of is sent to it.
  const cost::PlannedTransfer parts =
      cost::plan_transfer(type, from, {four, parse_spec("S0@0")}, cluster);
  CHECK(parts.strategy == cost::TransferStrategy::send_receive);
  CHECK(parts.cost.bytes == bytes);
  // A number is not worth a collective.
  CHECK(cost::plan_transfer({f32, {}}, from, to, cluster).strategy ==
        cost::TransferStrategy::send_receive);
}

}  // namespace resharding_goldens_test
