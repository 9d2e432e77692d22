// What a resharding costs does not depend on what is asked beside it.
#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <random>

#include "src/plan/cost/reshard.h"
#include "support/random.h"

namespace price_test {

using namespace alpa;
using alpa::testing::below;
using alpa::testing::Random;

namespace {

double pick(Random& random, std::initializer_list<double> values) {
  return values.begin()[below(random, static_cast<int>(values.size()))];
}

/// One to three axes of 1 to 6 devices with links of their own, or free ones.
DeviceMesh random_mesh(Random& random, bool free_links) {
  std::vector<MeshAxis> axes;
  for (int a = 0, n = 1 + below(random, 3); a < n; ++a)
    axes.push_back({std::string(1, "xyz"[a]), 1 + below(random, n == 3 ? 3 : 6),
                    pick(random, {0, 1e-6, 1e-3}), pick(random, {0, 1e-12, 1e-10, 1e-9, 1e-7})});
  for (MeshAxis& axis : axes)
    if (free_links) axis.alpha_seconds = axis.beta_seconds_per_byte = 0;
  return DeviceMesh(axes);
}

TensorType random_type(Random& random) {
  Shape shape;
  for (int d = 0, rank = below(random, 4); d < rank; ++d)
    shape.push_back(std::vector<std::int64_t>{1, 2, 3, 7, 20, 128}[below(random, 6)]);
  return {below(random, 2) ? f32 : bf16, shape};
}

cost::ReshardModel random_model(Random& random) {
  cost::ReshardModel model;
  model.collectives.allow_all_gather = below(random, 4) > 0;
  model.collectives.allow_all_to_all = below(random, 4) > 0;
  model.memory_bytes_per_second = pick(random, {0, 1e9, 1e10, 1e12});
  model.launch_seconds = pick(random, {0, 1e-6});
  return model;
}

/// Any spec of the type: every axis whole, a split or, with one combiner for all, partial.
ShardingSpec random_spec(Random& random, const TensorType& type, const DeviceMesh& mesh) {
  std::vector<int> axes(mesh.num_axes());
  for (int a = 0; a < mesh.num_axes(); ++a) axes[a] = a;
  std::shuffle(axes.begin(), axes.end(), random);
  const Combiner combiner = below(random, 3)   ? Combiner::sum
                            : below(random, 2) ? Combiner::max
                                               : Combiner::log_sum_exp;
  ShardingSpec spec;
  for (int axis : axes) {
    const int role = below(random, 3);
    if (role == 1 && type.rank() > 0) spec = spec.split(axis, below(random, type.rank()));
    if (role == 2 && below(random, 2)) spec = spec.partial(axis, combiner);
  }
  return spec;
}

std::vector<ShardingSpec> random_specs(Random& random, const TensorType& type,
                                       const DeviceMesh& mesh) {
  std::vector<ShardingSpec> specs;
  for (int i = 0, n = 1 + below(random, 6); i < n; ++i)
    specs.push_back(random_spec(random, type, mesh));
  return specs;
}

}  // namespace

TEST_CASE("every price alone is its price among others, and that of its path") {
  int reachable = 0, partial = 0;
  for (std::uint64_t seed = 1; seed <= 1500; ++seed) {
    Random random(seed);
    const TensorType type = random_type(random);
    const DeviceMesh mesh = random_mesh(random, seed % 2 == 0);
    const cost::ReshardModel model = random_model(random);
    const std::vector<ShardingSpec> from = random_specs(random, type, mesh),
                                    to = random_specs(random, type, mesh);
    const std::vector<double> prices = cost::ReshardPrices(mesh, model).seconds(type, from, to);
    for (std::size_t i = 0; i < prices.size(); ++i) {
      const ShardingSpec &a = from[i / to.size()], &b = to[i % to.size()];
      const double alone = cost::ReshardPrices(mesh, model).seconds(type, {a}, {b}).front();
      const auto path = cost::find_reshard(type, a, b, mesh, model);
      INFO("seed " << seed << ": " << to_string(type) << " on " << shape_text(mesh) << " from "
                   << to_string(a) << " to " << to_string(b));
      REQUIRE(prices[i] == alone);
      REQUIRE((path ? path->seconds : std::numeric_limits<double>::infinity()) == alone);
      reachable += path.has_value();
      partial += a.is_partial() || b.is_partial();
    }
  }
  CHECK(reachable > 5000);  // the sample covers what it is meant to cover
  CHECK(partial > 5000);
}

TEST_CASE("no path sends zeros that it made itself") {
  // Memory is a thousand times slower than the links: to make a sixth partial over y,
  // gather it over x and scatter the sum over y would move fewer bytes in memory than
  // to gather over x and slice.
  const DeviceMesh mesh({{"x", 6, 0, 1e-12}, {"y", 2, 0, 1e-12}, {"z", 2, 0, 1e-12}});
  const cost::ReshardModel model{.collectives = {}, .memory_bytes_per_second = 1e9};
  const auto path =
      cost::find_reshard({f32, {1200}}, parse_spec("S0@0"), parse_spec("S0@1 P+@2"), mesh, model);
  REQUIRE(path);
  for (const ReshardStep& step : path->steps) {
    CHECK(step.kind != CollectiveKind::reduce_scatter);
    CHECK(step.kind != CollectiveKind::all_reduce);
  }
  CHECK(path->steps.back().to == parse_spec("S0@1 P+@2"));
}

TEST_CASE(
    "prices and paths that are kept are those that are asked alone; a source is searched once") {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    Random random(seed);
    const DeviceMesh mesh = random_mesh(random, seed % 2 == 0);
    const cost::ReshardModel model = random_model(random);
    cost::ReshardPrices kept(mesh, model);
    const std::vector<TensorType> types{random_type(random), random_type(random)};
    for (int round = 0; round < 6; ++round) {
      const TensorType& type = types[round % 2];
      const std::vector<ShardingSpec> from = random_specs(random, type, mesh),
                                      to = random_specs(random, type, mesh);
      INFO("seed " << seed << ", round " << round);
      const std::vector<double> prices = kept.seconds(type, from, to);
      CHECK(prices == cost::ReshardPrices(mesh, model).seconds(type, from, to));
      const auto path = cost::find_reshard(type, from[0], to[0], mesh, model);
      const auto& kept_path = kept.path(type, from[0], to[0]);
      REQUIRE(kept_path.has_value() == path.has_value());
      if (path) CHECK(kept_path->steps == path->steps);
      const int searches = kept.searches();
      CHECK(kept.seconds(type, from, to) == prices);
      kept.path(type, from[0], to[0]);
      CHECK(kept.searches() == searches);
    }
  }
}

}  // namespace price_test
