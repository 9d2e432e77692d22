#include <doctest/doctest.h>

#include <cmath>

#include "alpa/autograd/gradient.h"
#include "alpa/ops/ops.h"
#include "src/ir/recorder.h"
#include "src/ops/all_ops.h"
#include "support/evaluate.h"

namespace function_test {

using namespace alpa;

namespace {

/// Values of f(x0, x1, …) on f64 inputs.
std::vector<double> value_of(const std::vector<testing::HostTensor>& x,
                             const std::function<Value(const Values&)>& f) {
  Recorder b;
  Values in;
  testing::Tensors given;
  for (const testing::HostTensor& tensor : x) {
    const std::string name = "x" + std::to_string(in.size());
    in.push_back(b.input(InputKind::batch, name, tensor.type));
    given[name] = tensor;
  }
  testing::output(b, "y", f(in));
  return testing::evaluate(b.finish(), given).update("y");
}

void check_close(const std::vector<double>& got, const std::vector<double>& expected,
                 double tolerance = 1e-12) {
  REQUIRE(got.size() == expected.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    CHECK(got[i] == doctest::Approx(expected[i]).epsilon(tolerance));
}

const testing::HostTensor kX = testing::tensor({f64, {2, 3}}, {1, 2, 3, -1, 0, 0.5});

/// softmax of row r of kX, from the definition.
std::vector<double> softmax_rows() {
  std::vector<double> p;
  for (int r = 0; r < 2; ++r) {
    double total = 0;
    for (int c = 0; c < 3; ++c) total += std::exp(kX.get(3 * r + c));
    for (int c = 0; c < 3; ++c) p.push_back(std::exp(kX.get(3 * r + c)) / total);
  }
  return p;
}

}  // namespace

TEST_CASE("matmul broadcasts a matrix over leading dimensions of either operand") {
  const auto ones = [](Shape shape) {
    return testing::tensor({f64, shape}, std::vector<double>(num_elements(shape), 1));
  };
  const auto product = [](const Values& v) { return matmul(v[0], v[1]); };
  CHECK(value_of({ones({2, 3, 4}), ones({4, 5})}, product) == std::vector<double>(30, 4));
  CHECK(value_of({ones({3, 4}), ones({2, 4, 5})}, product) == std::vector<double>(30, 4));
  CHECK(value_of({ones({2, 2, 3, 4}), ones({2, 2, 4, 5})}, product) == std::vector<double>(60, 4));
}

TEST_CASE("means divide by the number of elements reduced") {
  check_close(value_of({kX}, [](const Values& v) { return mean(v[0]); }), {5.5 / 6});
  check_close(value_of({kX}, [](const Values& v) { return mean(v[0], {1}); }), {2, -0.5 / 3});
  check_close(value_of({kX}, [](const Values& v) { return mean(v[0], {-2}, true); }), {0, 1, 1.75});
}

TEST_CASE("variance is the mean of squared distances from the mean") {
  // Rows 1 2 3 and -1 0 0.5, of means 2 and -1/6.
  const double second = (25.0 / 36 + 1.0 / 36 + 4.0 / 9) / 3;
  check_close(value_of({kX}, [](const Values& v) { return variance(v[0], {1}); }),
              {2.0 / 3, second});
  check_close(value_of({kX}, [](const Values& v) { return variance(v[0], {0}, true); }),
              {1, 1, 1.5625});
}

TEST_CASE("the exact gelu is x times the normal distribution function") {
  std::vector<double> expected;
  for (int i = 0; i < 6; ++i) expected.push_back(kX.get(i) * std::erfc(-kX.get(i) * M_SQRT1_2) / 2);
  check_close(value_of({kX}, [](const Values& v) { return exact_gelu(v[0]); }), expected);
}

TEST_CASE("softmax, log_softmax and cross-entropy follow their definitions") {
  const std::vector<double> p = softmax_rows();
  std::vector<double> log_p;
  for (double value : p) log_p.push_back(std::log(value));
  check_close(value_of({kX}, [](const Values& v) { return softmax(v[0]); }), p);
  check_close(
      value_of({kX}, [](const Values& v) { return transpose(softmax(transpose(v[0]), 0)); }), p);
  check_close(value_of({kX}, [](const Values& v) { return log_softmax(v[0]); }), log_p);
  const auto labels = testing::tensor({i32, {2}}, {2, 0});
  check_close(
      value_of({kX, labels}, [](const Values& v) { return softmax_cross_entropy(v[0], v[1]); }),
      {-log_p[2], -log_p[3]});
}

TEST_CASE("softmax does not overflow") {
  const auto x = testing::tensor({f32, {1, 2}}, {1000, 1000 + std::log(3.0f)});
  check_close(value_of({x}, [](const Values& v) { return softmax(v[0]); }), {0.25, 0.75}, 1e-4);
}

TEST_CASE("cross-entropy is of f32, and does not overflow where logits are large or infinite") {
  const auto losses = [](const testing::HostTensor& x, const std::vector<double>& labels) {
    return value_of({x, testing::tensor({i32, {x.type.shape[0]}}, labels)},
                    [](const Values& v) { return softmax_cross_entropy(v[0], v[1]); });
  };
  check_close(losses(testing::tensor({bf16, {2, 2}}, {128, 129, -30000, 0}), {0, 1}),
              {std::log(1 + std::exp(1)), 0}, 1e-6);
  check_close(
      losses(testing::tensor({f32, {2, 2}}, {1000, 1000 + std::log(3.0f), -1e30, 0}), {0, 0}),
      {std::log(4), 1e30}, 1e-4);
  check_close(losses(testing::tensor({f64, {1, 3}}, {-INFINITY, 2, 2}), {2}), {std::log(2)});
  // a row without a true class
  check_close(losses(testing::tensor({f64, {2, 2}}, {5, 5, 0, 0}), {-1, 2}),
              {5 + std::log(2), std::log(2)});
  CHECK(std::isnan(losses(testing::tensor({f32, {1, 2}}, {NAN, 1}), {1})[0]));
  Recorder b;
  const Value x = b.input(InputKind::batch, "x", {bf16, {2, 3}}),
              labels = b.input(InputKind::batch, "y", {i32, {2}});
  const Value loss = softmax_cross_entropy(x, labels);
  CHECK(loss.type() == TensorType{f32, {2}});
  CHECK(gradient(sum(loss), {x})[0].type() == x.type());
}

TEST_CASE("gradients of the composed losses are those of the calculus") {
  const std::vector<double> p = softmax_rows();
  const auto labels = testing::tensor({i32, {2}}, {2, 0});
  // d/dx of -log softmax(x)[label] is softmax(x) - one_hot(label)
  check_close(value_of({kX, labels},
                       [](const Values& v) {
                         return gradient(sum(softmax_cross_entropy(v[0], v[1])), {v[0]})[0];
                       }),
              {p[0], p[1], p[2] - 1, p[3] - 1, p[4], p[5]});
  // d/dx of softmax(x)[.., 0] is p0 (delta - p)
  check_close(
      value_of(
          {kX},
          [](const Values& v) {
            const Value first = where(eq(iota(*v[0].builder, {i32, {3}}), 0), softmax(v[0]), 0);
            return gradient(sum(first), {v[0]})[0];
          }),
      {p[0] * (1 - p[0]), -p[0] * p[1], -p[0] * p[2], p[3] * (1 - p[3]), -p[3] * p[4],
       -p[3] * p[5]});
  // d/dx of log_softmax(x)[.., 0] is delta - p
  check_close(
      value_of(
          {kX},
          [](const Values& v) {
            const Value first = where(eq(iota(*v[0].builder, {i32, {3}}), 0), log_softmax(v[0]), 0);
            return gradient(sum(first), {v[0]})[0];
          }),
      {1 - p[0], -p[1], -p[2], 1 - p[3], -p[4], -p[5]});
}

TEST_CASE("one_hot marks the label") {
  const auto labels = testing::tensor({i32, {3}}, {1, 0, 7});
  CHECK(value_of({labels}, [](const Values& v) { return one_hot(v[0], 2, f64); }) ==
        std::vector<double>{0, 1, 1, 0, 0, 0});
}

TEST_CASE("numbers mix with tensors from either side") {
  CHECK(value_of({kX}, [](const Values& v) { return 1 - v[0] * 2 / 4 + 0.5; }) ==
        std::vector<double>{1, 0.5, 0, 2, 1.5, 1.25});
  CHECK(value_of({kX}, [](const Values& v) { return maximum(minimum(v[0], 2), 0); }) ==
        std::vector<double>{1, 2, 2, 0, 0, 0.5});
  CHECK(value_of({kX}, [](const Values& v) { return where(lt(v[0], 1), 3, v[0]); }) ==
        std::vector<double>{1, 2, 3, 3, 3, 3});
  CHECK(value_of({kX}, [](const Values& v) {
          return pow(v[0], 2) + pow(v[0], 1) + pow(v[0], 3);
        }) == std::vector<double>{3, 14, 39, -1, 0, 0.875});
}

TEST_CASE("reshape fills in one extent, transpose reverses by default") {
  Recorder b;
  const Value x = b.input(InputKind::batch, "x", {f32, {2, 3, 4}});
  CHECK(reshape(x, {-1, 4}).shape() == Shape{6, 4});
  CHECK(reshape(x, {24}).shape() == Shape{24});
  CHECK(transpose(x).shape() == Shape{4, 3, 2});
  CHECK(transpose(x, {0, -1, 1}).shape() == Shape{2, 4, 3});
  CHECK(max(x, {-1, 0}).shape() == Shape{3});
  CHECK(broadcast_to(sum(x), {5}).shape() == Shape{5});
}

TEST_CASE("trivial operations make no node") {
  Recorder b;
  const Value x = b.input(InputKind::batch, "x", {f32, {2, 3}}),
              scalar = b.input(InputKind::scalar, "s", {f32, {}});
  CHECK((x + 0.0).id == x.id);
  CHECK((0.0 + x).id == x.id);
  CHECK((x - 0.0).id == x.id);
  CHECK((x * 1.0).id == x.id);
  CHECK((1.0 * x).id == x.id);
  CHECK((x / 1.0).id == x.id);
  CHECK((-(-x)).id == x.id);
  CHECK(reshape(x, {2, 3}).id == x.id);
  CHECK(transpose(x, {0, 1}).id == x.id);
  CHECK(broadcast_to(x, {2, 3}).id == x.id);
  CHECK(cast(x, f32).id == x.id);
  CHECK(sum(scalar).id == scalar.id);
  CHECK(pow(x, 1).id == x.id);
  CHECK((scalar + constant(b, 0, f32, {2})).id != scalar.id);  // stretches
  CHECK((scalar * constant(b, 1, f32, {2})).id != scalar.id);
}

TEST_CASE("constants are folded, also through products and broadcasts") {
  Recorder b;
  const Value x = b.input(InputKind::batch, "x", {f64, {2, 3}});
  const auto producer = [&](Value v) -> const Node& { return b.node(b.producer(v.id)); };
  const auto number = [&](Value v) { return producer(v).attributes.real("value"); };
  CHECK(number(constant(b, 3) * constant(b, 0.5)) == 1.5);
  CHECK(number(constant(b, 3) + constant(b, 0.5)) == 3.5);
  CHECK(number(constant(b, 3) - constant(b, 0.5)) == 2.5);
  CHECK(number(constant(b, 3) / constant(b, 0.5)) == 6);
  CHECK(number(-constant(b, 3)) == -3);
  CHECK(number(broadcast_to(constant(b, 3), {4})) == 3);
  CHECK(number(cast(constant(b, 3), bf16)) == 3);
  const Value scaled = 2.0 * (x * 4.0);
  CHECK(producer(scaled).operands[0] == x.id);
  CHECK(number(b.operand(producer(scaled), 1)) == 8);
  const Value row = b.input(InputKind::batch, "row", {f64, {3}});
  const Value added = x + broadcast_to(row, {2, 3});
  CHECK(producer(added).operands == std::vector<int>{x.id, row.id});
}

}  // namespace function_test
