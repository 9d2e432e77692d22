#include "src/plan/cost/cost_model.h"

#include <doctest/doctest.h>

#include <array>
#include <cmath>

#include "alpa/base/error.h"
#include "support/communication_only.h"

namespace cost_model_test {

using namespace alpa;

namespace {

/// C[i, j] = sum over k of A[i, k] B[k, j]; factors i, j, k.
Rule matmul(std::int64_t i, std::int64_t j, std::int64_t k) {
  return {.factors = {{i}, {j}, {k}},
          .operands = {{{0}, {2}}, {{2}, {1}}},
          .results = {{{0}, {1}}},
          .reduced = {{{2}}},
          .linear = {0b01, 0b10},
          .flops_per_point = 2};
}

struct Case {
  std::array<TensorType, 2> operands;
  std::array<TensorType, 1> results;
};

double seconds(const Rule& rule, const std::vector<int>& factor_of_axis, const Case& types,
               const DeviceMesh& mesh, const cost::CostModel& model) {
  return operator_seconds(rule, factor_of_axis, types.operands, types.results, mesh, model);
}

cost::CostModel compute_only() {
  cost::CostModel model;
  model.device.flops_per_second = {{f32, 1.0}, {bf16, 4.0}};
  return model;
}

cost::CostModel bytes_only() {
  cost::CostModel model;
  model.device.memory_bytes_per_second = 1;
  return model;
}

const DeviceMesh kMesh({{"x", 2, 1, 1}, {"y", 4, 1, 1}});
const Case kMatmul{{TensorType{f32, {6, 10}}, TensorType{f32, {10, 8}}}, {TensorType{f32, {6, 8}}}};

}  // namespace

TEST_CASE("a whole matmul does 2·i·j·k FLOPs and moves its three matrices") {
  CHECK(seconds(matmul(6, 8, 10), {-1, -1}, kMatmul, kMesh, compute_only()) == 2 * 6 * 8 * 10);
  CHECK(seconds(matmul(6, 8, 10), {-1, -1}, kMatmul, kMesh, bytes_only()) == 4 * (60 + 80 + 48));
}

TEST_CASE("splitting a factor divides the work and the tensors that have it, rounded up") {
  // i over x: 3 rows; k over y: ceil(10 / 4) = 3.
  CHECK(seconds(matmul(6, 8, 10), {0, 2}, kMatmul, kMesh, compute_only()) == 2 * 3 * 8 * 3);
  CHECK(seconds(matmul(6, 8, 10), {0, 2}, kMatmul, kMesh, bytes_only()) ==
        4 * (3 * 3 + 3 * 8 + 3 * 8));
  // k over both axes: ceil(10 / 8) = 2.
  CHECK(seconds(matmul(6, 8, 10), {2, 2}, kMatmul, kMesh, compute_only()) == 2 * 6 * 8 * 2);
}

TEST_CASE("the slower of computing and moving counts, and every operator is launched") {
  cost::CostModel model = compute_only();
  model.device.memory_bytes_per_second = 1;
  model.device.launch_seconds = 100;
  CHECK(seconds(matmul(6, 8, 10), {-1, -1}, kMatmul, kMesh, model) == 960 + 100);
  model.device.memory_bytes_per_second = 0.1;
  CHECK(seconds(matmul(6, 8, 10), {-1, -1}, kMatmul, kMesh, model) == doctest::Approx(7520 + 100));
}

TEST_CASE("FLOPs run at the rate of the first floating type") {
  const Case half{{TensorType{bf16, {6, 10}}, TensorType{f32, {10, 8}}}, {TensorType{f32, {6, 8}}}};
  CHECK(seconds(matmul(6, 8, 10), {-1, -1}, half, kMesh, compute_only()) == 960 / 4.0);
  const Case indices{{TensorType{i32, {6, 10}}, TensorType{u8, {10, 8}}},
                     {TensorType{f32, {6, 8}}}};
  CHECK(seconds(matmul(6, 8, 10), {-1, -1}, indices, kMesh, compute_only()) == 960);
  const Case unknown{{TensorType{f64, {6, 10}}, TensorType{f64, {10, 8}}},
                     {TensorType{f64, {6, 8}}}};
  CHECK(seconds(matmul(6, 8, 10), {-1, -1}, unknown, kMesh, compute_only()) == 0);
}

TEST_CASE("a broadcast dimension of extent 1 is not multiplied") {
  const Rule add{.factors = {{6}, {8}},
                 .operands = {{{0}, {1}}, {{}, {1}}},
                 .results = {{{0}, {1}}},
                 .linear = {0b11},
                 .flops_per_point = 1};
  const Case types{{TensorType{f32, {6, 8}}, TensorType{f32, {1, 8}}}, {TensorType{f32, {6, 8}}}};
  CHECK(seconds(add, {0, 1}, types, kMesh, bytes_only()) == 4 * (3 * 2 + 2 + 3 * 2));
}

TEST_CASE(
    "an operator pays for the elements it reads and for the factors it works on, not for whole "
    "operands") {
  // 3 of 1000 rows of 8, added: factors row, column, row of the table.
  const Rule lookup{.factors = {{3}, {8}, {1000}},
                    .operands = {{{2}, {1}}, {{0}}},
                    .results = {{{0}, {1}}},
                    .reduced = {{{2}}},
                    .reads = {std::vector{0, 1}, std::nullopt},
                    .work = {{0, 1}},
                    .flops_per_point = 1};
  verify(lookup);
  const Case types{{TensorType{f32, {1000, 8}}, TensorType{i32, {3}}}, {TensorType{f32, {3, 8}}}};
  CHECK(flops(lookup) == 3 * 8);
  CHECK(seconds(lookup, {-1, -1}, types, kMesh, bytes_only()) == 4 * (3 * 8 + 3 + 3 * 8));
  CHECK(seconds(lookup, {2, 1}, types, kMesh, bytes_only()) == 4 * (3 * 2 + 3 + 3 * 2));
  CHECK(seconds(lookup, {0, 1}, types, kMesh, compute_only()) == 2 * 2);
}

TEST_CASE(
    "a cluster's model has its rates, and steps of resharding cost its launches and bandwidth") {
  Cluster cluster;
  cluster.device = {.memory_bytes = 1,
                    .flops_per_second = {{f32, 5}},
                    .memory_bytes_per_second = 7,
                    .launch_seconds = 3};
  const cost::CostModel model = cost::CostModel::of(cluster);
  CHECK(model.device == cluster.device);
  CHECK(model.reshard.memory_bytes_per_second == 7);
  CHECK(model.reshard.launch_seconds == 3);
  cluster.device.launch_seconds = -1;
  CHECK_THROWS_AS(cost::CostModel::of(cluster), Bug);
}

TEST_CASE("half_rate_size: a product reaches m/(m + c) · n/(n + c) of its rate, others all of it") {
  cost::CostModel model = compute_only();
  const double whole = 2 * 6 * 8 * 10;
  model.device.half_rate_size = {{f32, 2}};
  CHECK(seconds(matmul(6, 8, 10), {-1, -1}, kMatmul, kMesh, model) ==
        doctest::Approx(whole / (6. / 8 * 8. / 10)));
  model.device.half_rate_size = {{bf16, 2}};
  CHECK(seconds(matmul(6, 8, 10), {-1, -1}, kMatmul, kMesh, model) == whole);
}

TEST_CASE("attention_passes: scores pass through memory, in proportion to FLOPs per point") {
  Rule rule = matmul(6, 8, 10);
  rule.flops_per_point = 4;
  rule.scores = {0, 1};
  cost::CostModel model = bytes_only();
  const double fused = 4 * (60 + 80 + 48);
  CHECK(seconds(rule, {-1, -1}, kMatmul, kMesh, model) == fused);
  model.software.attention_passes = 3;
  CHECK(seconds(rule, {-1, -1}, kMatmul, kMesh, model) == fused + 3 * 4 * 6 * 8);
  rule.flops_per_point = 10;  // as of the gradient
  CHECK(seconds(rule, {-1, -1}, kMatmul, kMesh, model) == fused + 7.5 * 4 * 6 * 8);
  rule.scores = {};
  CHECK(seconds(rule, {-1, -1}, kMatmul, kMesh, model) == fused);
}

TEST_CASE("fused attention and its gradient take their FLOPs at rates of their own") {
  Rule rule = matmul(6, 8, 10);
  rule.flops_per_point = 4;
  rule.scores = {0, 1};
  cost::CostModel model = compute_only();
  const double of_products = 4 * 6 * 8 * 10;
  CHECK(seconds(rule, {-1, -1}, kMatmul, kMesh, model) == of_products);
  model.device.attention_flops_per_second = {{f32, 0.5}};
  model.device.attention_grad_flops_per_second = {{f32, 0.25}};
  CHECK(seconds(rule, {-1, -1}, kMatmul, kMesh, model) == 2 * of_products);
  rule.flops_per_point = 10;
  CHECK(seconds(rule, {-1, -1}, kMatmul, kMesh, model) == 10 * of_products);
  const auto least = least_operator_seconds(rule, kMatmul.operands, kMatmul.results, 1, model, 0);
  CHECK(least.shared == 10 * of_products);
  model.software.attention_passes = 1;  // unfused: products, and a softmax in memory
  CHECK(seconds(rule, {-1, -1}, kMatmul, kMesh, model) == 2.5 * of_products);
  model.software = {}, rule.scores = {};
  CHECK(seconds(rule, {-1, -1}, kMatmul, kMesh, model) == 2.5 * of_products);
}

TEST_CASE("communication-only models do everything else in no time") {
  const cost::CostModel model = alpa::testing::communication_only({.allow_all_gather = false});
  CHECK(seconds(matmul(6, 8, 10), {-1, -1}, kMatmul, kMesh, model) == 0);
  CHECK(model.reshard.launch_seconds == 0);
  CHECK(model.reshard.memory_bytes_per_second == 0);
  CHECK_FALSE(model.reshard.collectives.allow_all_gather);
}

TEST_CASE("measured rates: exact at measured shapes, in logarithms between, the last one beyond") {
  cost::CostModel model;
  model.device.flops_per_second = {{f32, 1.0}};
  // FLOP/s 2^0 to 2^7, by m, n, k of 4 and 16
  model.device.measured.products[f32] = {{4, 16}, {1, 2, 4, 8, 16, 32, 64, 128}};
  const DeviceMesh one({{"x", 1, 1, 1}});
  const auto rate = [&](std::int64_t m, std::int64_t n, std::int64_t k) {
    const Case types{{TensorType{f32, {m, k}}, TensorType{f32, {k, n}}}, {TensorType{f32, {m, n}}}};
    return 2.0 * static_cast<double>(m * n * k) / seconds(matmul(m, n, k), {-1}, types, one, model);
  };
  CHECK(rate(4, 4, 4) == doctest::Approx(1));
  CHECK(rate(4, 4, 16) == doctest::Approx(2));
  CHECK(rate(4, 16, 4) == doctest::Approx(4));
  CHECK(rate(16, 4, 4) == doctest::Approx(16));
  CHECK(rate(8, 4, 4) == doctest::Approx(4));
  CHECK(rate(8, 8, 8) == doctest::Approx(std::sqrt(128)));
  CHECK(rate(1, 2, 100) == doctest::Approx(2));

  // A split product has the rate of a device's part: m 16 → 4 of 4 devices.
  const Case split{{TensorType{f32, {16, 4}}, TensorType{f32, {4, 4}}}, {TensorType{f32, {16, 4}}}};
  CHECK(seconds(matmul(16, 4, 4), {-1, 0}, split, kMesh, model) == doctest::Approx(2 * 64.0));

  // Loops: bytes at the rate of so many; other operators' FLOPs at the rate of the type.
  model.device.flops_per_second.clear();
  model.device.measured.loop_bytes = {100, 10000};
  model.device.measured.loop_bytes_per_second = {1, 100};
  const Rule copy{.factors = {{250}}, .operands = {{{0}}, {{0}}}, .results = {{{0}}}};
  const Case types{{TensorType{f32, {250}}, TensorType{bf16, {250}}}, {TensorType{f32, {250}}}};
  CHECK(seconds(copy, {-1}, types, one, model) == doctest::Approx(2500 / 25.0));
}

}  // namespace cost_model_test
