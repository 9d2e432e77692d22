// Every resharding path is executed on simulated devices: the numbers must be those of the target
// layout and the elements sent those that were priced.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "plan/simulated_mesh.h"
#include "src/plan/cost/reshard.h"

namespace reshard_execution_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

constexpr double kElementBytes = 8;  // f64

struct Prices {
  std::vector<double> alpha, beta;  ///< per axis; powers of two, so that prices are exact
  cost::CollectiveOptions options;
};

const std::vector<Prices> kPrices{
    {{0, 0}, {1, 1}, {}},                            // bytes alone
    {{4096, 4096}, {1, 1}, {}},                      // few steps
    {{0, 0}, {1, 16}, {}},                           // a slow second axis
    {{64, 0}, {8, 1}, {.allow_all_gather = false}},  //
    {{0, 64}, {1, 2}, {.allow_all_to_all = false}},  //
};

DeviceMesh mesh_of(const std::vector<int>& sizes, const Prices& prices) {
  std::vector<MeshAxis> axes;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    axes.push_back({"a" + std::to_string(i), sizes[i], prices.alpha[i], prices.beta[i]});
  }
  return DeviceMesh(axes);
}

double identity_number(std::size_t e) { return static_cast<double>(1 + (e * 37) % 101); }

/// Elements each device sends if the price of the step is true.
double priced_elements(const ReshardStep& step, const DeviceMesh& mesh) {
  double alpha = 0, beta = 0;
  for (int axis : step.axes) {
    alpha = std::max(alpha, mesh.axes()[axis].alpha_seconds);
    beta = std::max(beta, mesh.axes()[axis].beta_seconds_per_byte);
  }
  return (step.seconds - alpha) / beta / kElementBytes;
}

int group_size(const ReshardStep& step, const DeviceMesh& mesh) {
  int n = 1;
  for (int axis : step.axes) n *= mesh.axes()[axis].size;
  return n;
}

void check_price(const ReshardStep& step, const simulated::Traffic& traffic,
                 const DeviceMesh& mesh) {
  if (step.kind == CollectiveKind::slice || step.kind == CollectiveKind::to_partial) {
    CHECK(step.seconds == 0);
    return;
  }
  const double priced = priced_elements(step, mesh), n = group_size(step, mesh);
  if (step.kind == CollectiveKind::all_reduce) {
    CHECK(priced == doctest::Approx(2 * (n - 1) / n * static_cast<double>(traffic.largest_piece)));
    CHECK(priced > static_cast<double>(traffic.most_sent) - 2);
  } else {
    CHECK(priced == doctest::Approx((n - 1) * static_cast<double>(traffic.largest_piece)));
    CHECK(priced > static_cast<double>(traffic.most_sent) - 1e-6);
  }
  if (traffic.even)
    CHECK(priced == doctest::Approx(static_cast<double>(traffic.most_sent)).epsilon(1e-12));
}

/// Executes one path, comparing with the whole tensor after every step.
void check_path(const ReshardPath& path, const TensorType& type, const ShardingSpec& from,
                const ShardingSpec& to, const DeviceMesh& mesh) {
  std::vector<double> whole(type.elements());
  for (std::size_t e = 0; e < whole.size(); ++e) whole[e] = identity_number(e);
  simulated::Tensor tensor = simulated::distribute(whole, type.shape, from, mesh);
  REQUIRE(simulated::represents(tensor, whole));
  double seconds = 0;
  for (const ReshardStep& step : path.steps) {
    CAPTURE(to_string(step.to));
    const simulated::Traffic traffic = simulated::run(tensor, step);
    CHECK(simulated::represents(tensor, whole));
    check_price(step, traffic, mesh);
    seconds += step.seconds;
  }
  CHECK(tensor.spec == to);
  CHECK(seconds == doctest::Approx(path.seconds).epsilon(1e-12));
}

void check_triangles(const std::vector<double>& seconds, std::size_t n) {
  for (std::size_t a = 0; a < n; ++a) {
    CHECK(seconds[a * n + a] == 0);
    for (std::size_t b = 0; b < n; ++b) {
      for (std::size_t c = 0; c < n; ++c) {
        if (seconds[a * n + c] > (seconds[a * n + b] + seconds[b * n + c]) * (1 + 1e-12))
          FAIL_CHECK("triangle inequality broken");
      }
    }
  }
}

/// Every pair of `specs`; returns how many paths were executed.
int check_all_pairs(const TensorType& type, const std::vector<ShardingSpec>& specs,
                    const DeviceMesh& mesh, const cost::ReshardModel& model) {
  const std::vector<double> seconds = cost::ReshardPrices(mesh, model).seconds(type, specs, specs);
  check_triangles(seconds, specs.size());
  int executed = 0;
  for (std::size_t a = 0; a < specs.size(); ++a) {
    for (std::size_t b = 0; b < specs.size(); ++b) {
      INFO(to_string(type) << " on " << shape_text(mesh) << ": " << to_string(specs[a]) << " to "
                           << to_string(specs[b]));
      const std::optional<ReshardPath> path =
          cost::find_reshard(type, specs[a], specs[b], mesh, model);
      CHECK((path ? path->seconds : std::numeric_limits<double>::infinity()) ==
            seconds[a * specs.size() + b]);
      if (!path) {
        CHECK_FALSE(model.collectives.allow_all_gather);
        continue;
      }
      check_path(*path, type, specs[a], specs[b], mesh);
      ++executed;
    }
  }
  return executed;
}

const std::vector<Shape> kShapes{{}, {7}, {12}, {5, 4}, {6, 12}, {7, 3, 4}, {2, 6, 5}};

void check_mesh(const std::vector<int>& sizes, std::uint32_t partials) {
  int executed = 0;
  for (std::size_t p = 0; p < kPrices.size(); ++p) {
    const Prices& prices = kPrices[p];
    const DeviceMesh mesh = mesh_of(sizes, prices);
    for (const Shape& shape : kShapes) {
      // three price lists are enough for the largest tensors
      if (shape.size() == 3 && p % 2) continue;
      const TensorType type{f64, shape};
      executed += check_all_pairs(type, cost::all_specs(type, mesh, partials), mesh,
                                  {.collectives = prices.options});
    }
  }
  CHECK(executed > 100);
}

}  // namespace

TEST_CASE(
    "on one axis of 2, 3 and 4 devices every path of sums ends in the right numbers at the priced "
    "bytes") {
  for (int n : {2, 3, 4}) check_mesh({n}, cost::kPartialSum);
}

TEST_CASE("on 2x2 every path of sums ends in the right numbers at the priced bytes") {
  check_mesh({2, 2}, cost::kPartialSum);
}

TEST_CASE("on 2x3 every path of sums ends in the right numbers at the priced bytes") {
  check_mesh({2, 3}, cost::kPartialSum);
}

TEST_CASE("maxima and logarithms of sums of exponentials are combined like sums") {
  for (const std::uint32_t partials : {cost::kPartialMax, cost::kPartialLogSumExp}) {
    check_mesh({3}, partials);
    check_mesh({2, 2}, partials);
  }
}

TEST_CASE("layouts with more parts than elements are left and reached correctly") {
  const Prices prices = kPrices[0];
  const DeviceMesh line = mesh_of({4}, prices), grid = mesh_of({2, 3}, prices);
  const auto specs = [](std::initializer_list<const char*> texts) {
    std::vector<ShardingSpec> list;
    for (const char* text : texts) list.push_back(parse_spec(text));
    return list;
  };
  CHECK(check_all_pairs({f64, {3, 2}}, specs({"R", "S0@0", "S1@0", "P+@0"}), line, {}) == 16);
  CHECK(check_all_pairs({f64, {0, 2}}, specs({"R", "S0@0", "S1@0", "P+@0"}), line, {}) == 16);
  CHECK(check_all_pairs({f64, {1, 2}},
                        specs({"R", "S0@0 S1@1", "S1@1 S1@0", "S0@1 P+@0", "S1@0 S1@1"}), grid,
                        {}) == 25);
}

}  // namespace reshard_execution_test
