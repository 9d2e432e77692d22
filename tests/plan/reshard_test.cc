#include "src/plan/cost/reshard.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "alpa/base/error.h"

namespace reshard_test {

using namespace alpa;

namespace {

DeviceMesh line(int n, double alpha = 1, double beta = 1) {
  return DeviceMesh({{"x", n, alpha, beta}});
}
DeviceMesh grid(int m, int n, double beta0 = 1, double beta1 = 1, double alpha = 1) {
  return DeviceMesh({{"x", m, alpha, beta0}, {"y", n, alpha, beta1}});
}

struct Found {
  std::string steps;
  double seconds;
};

/// The path as text, like "reduce_scatter all_gather".
Found reshard(const TensorType& type, const char* from, const char* to, const DeviceMesh& mesh,
              const cost::ReshardModel& model = {}) {
  const auto path = cost::find_reshard(type, parse_spec(from), parse_spec(to), mesh, model);
  if (!path) return {"impossible", 0};
  std::string text;
  for (const ReshardStep& step : path->steps)
    text += (text.empty() ? "" : " ") + std::string(name_of(step.kind));
  return {text, path->seconds};
}

const TensorType kSquare{f32, {128, 128}};  // 65536 bytes

double all_gather(double n, double bytes) { return 1 + (n - 1) / n * bytes + 0.1; }

}  // namespace

TEST_CASE("one axis, one step: each move costs its collective on its own bytes") {
  const TensorType type{f32, {8, 12}};  // 384 bytes
  const DeviceMesh mesh = line(4, 10, 1);
  CHECK(reshard(type, "P+@0", "R", mesh).steps == "all_reduce");
  CHECK(reshard(type, "P+@0", "R", mesh).seconds == 10 + 2 * 3 * 96);
  CHECK(reshard(type, "P+@0", "S1@0", mesh).steps == "reduce_scatter");
  CHECK(reshard(type, "P+@0", "S1@0", mesh).seconds == 10 + 3 * 96);
  CHECK(reshard(type, "S0@0", "R", mesh).steps == "all_gather");
  CHECK(reshard(type, "S0@0", "R", mesh).seconds == 10 + 3 * 96);
  CHECK(reshard(type, "S0@0", "S1@0", mesh).steps == "all_to_all");
  CHECK(reshard(type, "S0@0", "S1@0", mesh).seconds == 10 + 3 * 24);
  CHECK(reshard(type, "R", "S0@0", mesh).steps == "slice");
  CHECK(reshard(type, "R", "S0@0", mesh).seconds == 0);
  CHECK(reshard(type, "R", "P+@0", mesh).steps == "to_partial");
  CHECK(reshard(type, "R", "P+@0", mesh).seconds == 0);
  CHECK(reshard(type, "S0@0", "S0@0", mesh).steps == "");
}

TEST_CASE("uneven parts are charged by the largest") {
  const DeviceMesh mesh = line(4, 0, 1);
  CHECK(reshard({f32, {7}}, "S0@0", "R", mesh).seconds == 3 * 2 * 4);  // parts 2, 2, 2, 1
  CHECK(reshard({f32, {7}}, "P+@0", "S0@0", mesh).seconds == 3 * 2 * 4);
  CHECK(reshard({f32, {7, 5}}, "S0@0", "S1@0", mesh).seconds == 3 * 2 * 2 * 4);  // pieces of 2 x 2
}

TEST_CASE("a step fields what a partitioner needs") {
  const auto path = cost::find_reshard({f32, {8, 12}}, parse_spec("S0@1 P+@0"), parse_spec("S1@1"),
                                       grid(2, 4, 1, 1, 0), {});
  REQUIRE(path);
  REQUIRE(path->steps.size() == 2);
  CHECK(path->steps[0] ==
        ReshardStep{CollectiveKind::all_to_all, {1}, 1, 0, parse_spec("S1@1 P+@0"), 3 * 24});
  CHECK(path->steps[1] ==
        ReshardStep{CollectiveKind::all_reduce, {0}, -1, -1, parse_spec("S1@1"), 96});
  const auto gather = cost::find_reshard({f32, {8, 12}}, parse_spec("S1@0"), {}, line(2), {});
  REQUIRE(gather);
  CHECK(gather->steps ==
        std::vector<ReshardStep>{{CollectiveKind::all_gather, {0}, 1, 1, {}, 1 + 192}});
}

TEST_CASE(
    "partial over two axes is reduced at once where that is cheapest, in stages where one axis is "
    "slow") {
  const TensorType type{f32, {64, 64}};  // 16384 bytes
  CHECK(reshard(type, "P+@0 P+@1", "R", grid(2, 4)).steps == "all_reduce");
  CHECK(reshard(type, "P+@0 P+@1", "R", grid(2, 4)).seconds == 1 + 2 * 7 * 2048);
  // Axis y is 100 times slower: scatter over x first, so that only half the bytes cross y.
  const Found staged = reshard(type, "P+@0 P+@1", "R", grid(2, 4, 1, 100));
  CHECK(staged.steps == "reduce_scatter all_reduce all_gather");
  CHECK(staged.seconds == 3 + 8192 + 2 * 100 * 3 * 2048 + 8192);
  CHECK(reshard({f32, {}}, "P+@0 P+@1", "R", grid(2, 4, 1, 100)).steps ==
        "all_reduce all_reduce");  // nothing to scatter
}

TEST_CASE("what is not needed is not gathered") {
  const DeviceMesh mesh = grid(2, 4, 1, 1, 0);
  const TensorType type{f32, {8, 8}};
  // Only axis 1 leaves dimension 0: 4 parts of 64 bytes.
  CHECK(reshard(type, "S0@0 S0@1", "S0@0", mesh).seconds == 3 * 32);
  // The major axis cannot leave before the minor one, but the minor one can step aside into
  // dimension 1 and need not be gathered.
  const Found found = reshard(type, "S0@0 S0@1", "S1@1", mesh);
  CHECK(found.steps == "all_to_all all_gather");
  CHECK(found.seconds == 3 * 8 + 32);
}

TEST_CASE("without all-to-all a split moves by gather and slice; without either it cannot move") {
  const TensorType type{f32, {8, 8}};
  const cost::ReshardModel no_exchange{.collectives = {.allow_all_to_all = false}};
  CHECK(reshard(type, "S0@0", "S1@0", line(4), no_exchange).steps == "all_gather slice");
  const cost::ReshardModel nothing{
      .collectives = {.allow_all_gather = false, .allow_all_to_all = false}};
  CHECK(reshard(type, "S0@0", "S1@0", line(4), nothing).steps == "impossible");
  CHECK(reshard(type, "P+@0", "S1@0", line(4), nothing).steps == "reduce_scatter");
  CHECK(std::isinf(
      cost::ReshardPrices(line(4), nothing).seconds(type, {parse_spec("S0@0")}, {{}})[0]));
}

TEST_CASE("sums never become maxima") {
  const DeviceMesh mesh = grid(2, 2);
  CHECK(reshard(kSquare, "P+@0", "Pmax@0", mesh).steps == "impossible");
  CHECK(reshard(kSquare, "Pmax@1", "P+@0", mesh).steps == "impossible");
  const std::vector<ShardingSpec> both{parse_spec("P+@0"), parse_spec("Pmax@0"), {}};
  const std::vector<double> seconds = cost::ReshardPrices(mesh, {}).seconds(kSquare, both, both);
  CHECK(std::isinf(seconds[0 * 3 + 1]));
  CHECK(std::isinf(seconds[1 * 3 + 0]));
  CHECK(seconds[0 * 3 + 2] == 1 + 65536);
  CHECK(seconds[2 * 3 + 1] == 0);
}

TEST_CASE("partial results are never resolved for free") {
  const TensorType type{f32, {6, 10, 4}};
  const DeviceMesh mesh = grid(2, 3, 1, 1, 0);
  const std::vector<ShardingSpec> specs = cost::all_specs(type, mesh, cost::kPartialSum);
  const std::vector<double> seconds = cost::ReshardPrices(mesh, {}).seconds(type, specs, specs);
  for (std::size_t a = 0; a < specs.size(); ++a) {
    for (std::size_t b = 0; b < specs.size(); ++b) {
      for (int axis = 0; axis < 2; ++axis) {
        const bool resolved = specs[a].axes[axis].kind == AxisPlacement::Kind::partial &&
                              specs[b].axes[axis].kind != AxisPlacement::Kind::partial;
        const bool gathered = specs[a].axes[axis].kind == AxisPlacement::Kind::split &&
                              specs[b].axes[axis].kind == AxisPlacement::Kind::replicated;
        // At the least (n-1)/n of the smallest possible shard, 40 elements, has to cross this axis.
        const double least = (mesh.size(axis) - 1.0) / mesh.size(axis) * 40 * 4;
        if (resolved || gathered) CHECK(seconds[a * specs.size() + b] >= least);
      }
    }
  }
}

TEST_CASE("local steps cost a read and a write, every step a launch") {
  const cost::ReshardModel model{
      .collectives = {}, .memory_bytes_per_second = 2, .launch_seconds = 5};
  const TensorType type{f32, {8}};
  CHECK(reshard(type, "R", "S0@0", line(4), model).seconds == 5 + 8);
  CHECK(reshard(type, "R", "P+@0", line(4), model).seconds == 5 + 32);
  CHECK(reshard(type, "S0@0", "R", line(4), model).seconds == 5 + 1 + 24);
}

TEST_CASE("steps over an axis of size 1 are free") {
  const cost::ReshardModel model{
      .collectives = {.tie_break_tails = true}, .memory_bytes_per_second = 2, .launch_seconds = 5};
  const DeviceMesh mesh = grid(4, 1);
  CHECK(reshard(kSquare, "S0@0 S1@1", "S0@0", mesh, model).seconds ==
        0);  // Alpa: 4x1 mesh, full tile to S0@0 costs 0
  CHECK(reshard(kSquare, "P+@1", "R", mesh, model).seconds == 0);
  CHECK(reshard(kSquare, "S0@0", "S0@0 S1@1", mesh, model).seconds == 0);
}

TEST_CASE("Alpa's resharding costs are reached or beaten (test_sharding_spec.py, 2x3 mesh)") {
  const DeviceMesh mesh = grid(2, 3);
  const cost::ReshardModel alpa{.collectives = {.tie_break_tails = true}};
  const double full = 65536;
  CHECK(reshard(kSquare, "S0@0 S1@1", "S1@1 S0@0", mesh, alpa).seconds == 0);
  CHECK(reshard(kSquare, "S0@0", "S0@0 S1@1", mesh, alpa).seconds == 0);
  // Alpa charges the gather of the whole tensor; each device only gathers its half.
  const double gathered = reshard(kSquare, "S0@0 S1@1", "S0@0", mesh, alpa).seconds;
  CHECK(gathered <= all_gather(3, full));
  CHECK(gathered == doctest::Approx(all_gather(3, full / 2)).epsilon(0.01));
  const double replicated = reshard(kSquare, "S0@0 S1@1", "R", mesh, alpa).seconds;
  CHECK(replicated <= all_gather(2, full) + all_gather(3, full));
  CHECK(replicated > all_gather(2, full));
}

TEST_CASE(
    "all specs are all: (r+2)^2 + r of them on two axes with sums, fewer without, "
    "small dimensions left whole") {
  const DeviceMesh mesh = grid(2, 3);
  for (int rank = 0; rank <= 4; ++rank) {
    const TensorType type{f32, Shape(rank, 6)};
    const std::vector<ShardingSpec> sums = cost::all_specs(type, mesh, cost::kPartialSum);
    CHECK(static_cast<int>(sums.size()) == (rank + 2) * (rank + 2) + rank);
    CHECK(static_cast<int>(cost::all_specs(type, mesh, cost::kNoPartials).size()) ==
          (rank + 1) * (rank + 1) + rank);
    // Every other combiner: the specs with at least one partial axis, 2(r+1)+1, again.
    const std::uint32_t two = cost::kPartialSum | cost::kPartialMax,
                        three = two | cost::kPartialLogSumExp;
    CHECK(static_cast<int>(cost::all_specs(type, mesh, two).size()) ==
          (rank + 2) * (rank + 2) + rank + 2 * (rank + 1) + 1);
    CHECK(static_cast<int>(cost::all_specs(type, mesh, three).size()) ==
          (rank + 2) * (rank + 2) + rank + 2 * (2 * (rank + 1) + 1));
    CHECK(sums[0].is_replicated());
    std::set<std::string> texts;
    for (const ShardingSpec& spec : sums) texts.insert(to_string(spec));
    CHECK(texts.size() == sums.size());
  }
  std::string small;
  for (const ShardingSpec& spec : cost::all_specs({f32, {2, 5}}, mesh, cost::kNoPartials))
    small += to_string(spec) + ", ";
  CHECK(small ==
        "R, S1@0, S1@1, S0@0, S0@0 S1@1, ");  // 2 rows on at most 2, 5 columns on at most 3
  CHECK(cost::all_specs({f32, {8}}, grid(1, 4), cost::kPartialSum).size() == 3);
}

TEST_CASE("equally cheap ways: the fewest steps, and the same answer whatever is asked beside it") {
  const DeviceMesh free = grid(2, 2, 0, 0, 0);
  CHECK(reshard(kSquare, "P+@0 P+@1", "R", free).steps == "all_reduce");
  CHECK(reshard(kSquare, "S0@0", "S1@0", free).steps == "all_to_all");
  CHECK(reshard(kSquare, "P+@0", "S0@0", free).steps == "reduce_scatter");
  CHECK(reshard(kSquare, "S0@0", "P+@0", free).steps == "all_gather to_partial");
}

TEST_CASE("specs that are none of this value or mesh are our bug") {
  CHECK_THROWS_AS(cost::find_reshard({f32, {4}}, parse_spec("S1@0"), {}, line(2), {}), Bug);
  CHECK_THROWS_AS(cost::find_reshard({f32, {4}}, parse_spec("S0@1"), {}, line(2), {}), Bug);
  ShardingSpec mixed = parse_spec("P+@0");
  mixed.axes[1] = parse_spec("Pmax@1").axes[1];
  CHECK_THROWS_AS(cost::find_reshard({f32, {4}}, mixed, {}, grid(2, 2), {}), Bug);
}

TEST_CASE("steps have names") {
  CHECK(name_of(CollectiveKind::slice) == "slice");
  CHECK(name_of(CollectiveKind::to_partial) == "to_partial");
  CHECK(name_of(CollectiveKind::all_to_all) == "all_to_all");
}

}  // namespace reshard_test
