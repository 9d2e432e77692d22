#include "alpa/autograd/gradient.h"

#include <doctest/doctest.h>

#include "alpa/base/error.h"
#include "alpa/ops/ops.h"
#include "src/ir/recorder.h"
#include "src/ops/all_ops.h"
#include "support/error_text.h"
#include "support/evaluate.h"

namespace gradient_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

struct Fixture {
  Recorder b;
  Value batch(const std::string& name, TensorType type) {
    return b.input(InputKind::batch, name, std::move(type));
  }
  Value weight(const std::string& name, Shape shape) {
    return b.parameter(name, {f64, std::move(shape)}, Initializer::zeros());
  }
  const Node& producer(Value value) { return b.node(b.producer(value.id)); }
};

/// "forward", "relu", …: the operators of the nodes of `region` that matter, in order.
std::string operators(const Graph& graph, Region region) {
  std::string names;
  for (const Node& node : graph.nodes)
    if (node.region == region && node.op != &ops::input)
      names += (names.empty() ? "" : " ") + std::string(node.op->name);
  return names;
}

/// (a [n], b [n]) → (2 a + b [n], Σ a b []).
void run_two_results(const KernelCall& call) {
  const auto *a = call.inputs[0].as<double>(), *b = call.inputs[1].as<double>();
  auto *sum = call.outputs[0].as<double>(), *product = call.outputs[1].as<double>();
  *product = 0;
  for (std::int64_t i = 0; i < call.inputs[0].type.elements(); ++i) {
    sum[i] = 2 * a[i] + b[i];
    *product += a[i] * b[i];
  }
}

const KernelDef kTwoResultsKernel{run_two_results, nullptr, nullptr};

OpDef two_results_op() {
  OpDef op;
  op.name = "two_results";
  op.rule = [](const OpQuery& query) {
    Rule rule;
    rule.factors = {{query.operands[0].shape[0], true}};
    rule.operands = {{{0}}, {{0}}};
    rule.results = {{{0}}, {}};
    return rule;
  };
  op.result_dtypes = [](const OpQuery& query) {
    return std::vector<DType>(2, query.operands[0].dtype);
  };
  op.vjp = [](Recorder& g, const Node& n, const Values& dys) -> Values {
    const Value a = g.operand(n, 0), b = g.operand(n, 1);
    Value da = constant(g, 0, a.dtype(), a.shape()), db = da;
    if (dys[0]) da = da + dys[0] * 2, db = db + dys[0];
    if (dys[1]) da = da + b * dys[1], db = db + a * dys[1];
    return {da, db};
  };
  op.cpu = &kTwoResultsKernel;
  return op;
}
const OpDef two_results = two_results_op();

}  // namespace

TEST_CASE("an operator of several results is given the gradient of each, whichever the loss uses") {
  for (const auto& [uses_first, uses_second] :
       {std::pair{true, false}, {false, true}, {true, true}}) {
    CAPTURE(uses_first);
    CAPTURE(uses_second);
    Recorder g;
    const Value a = g.parameter("a", {f64, {3}}, Initializer::zeros()),
                b = g.parameter("b", {f64, {3}}, Initializer::zeros());
    const Values made = g.emit(two_results, {a, b}, {});
    Value loss = constant(g, 0, f64);
    if (uses_first) loss = loss + sum(square(made[0]));
    if (uses_second) loss = loss + made[1] * 5;
    const Values gradients = gradient(loss, {a, b});
    testing::output(g, "da", gradients[0]);
    testing::output(g, "db", gradients[1]);
    const testing::StepResult got =
        testing::evaluate(g.finish(), {{"a", testing::tensor({f64, {3}}, {1, 2, -3})},
                                       {"b", testing::tensor({f64, {3}}, {4, 0, 1})}});
    std::vector<double> da, db;
    for (const auto& [x, y] : {std::pair<double, double>{1, 4}, {2, 0}, {-3, 1}}) {
      const double slope = uses_first ? 2 * (2 * x + y) : 0;
      da.push_back(2 * slope + (uses_second ? 5 * y : 0));
      db.push_back(slope + (uses_second ? 5 * x : 0));
    }
    CHECK(got.update("da") == da);
    CHECK(got.update("db") == db);
  }
}

TEST_CASE_FIXTURE(
    Fixture, "only a floating scalar can be differentiated, by floating values of its own graph") {
  const Value x = batch("x", {f32, {2, 3}}), labels = batch("labels", {i32, {2}});
  const Value loss = sum(x);
  CHECK(error_of([&] { gradient(x, {x}); }) ==
        "gradient: the loss is f32[2, 3], but only a floating scalar can be differentiated; "
        "reduce it first, e.g. with mean");
  CHECK(error_of([&] { gradient(sum(labels), {x}); }) ==
        "gradient: the loss is i32[], but only a floating scalar can be differentiated; "
        "reduce it first, e.g. with mean");
  CHECK(error_of([&] { gradient(Value{}, {x}); }) == "gradient: the loss is an empty Value");
  CHECK(error_of([&] { gradient(loss, {labels}); }) ==
        "gradient: \"labels\" is i32[2], which has no gradient; only floating types have");
  CHECK(error_of([&] { gradient(loss, {Value{}}); }) ==
        "gradient: a value to differentiate by is empty");
  Recorder other;
  const Value foreign = other.input(InputKind::batch, "x", {f32, {2, 3}});
  CHECK(error_of([&] { gradient(loss, {foreign}); }) ==
        "gradient: a value to differentiate by belongs to another graph than the loss");
}

TEST_CASE_FIXTURE(
    Fixture,
    "an operator without a gradient is an error only on a path from what is differentiated") {
  const Value w = weight("w", {3}), v = weight("v", {3}),
              rate = b.input(InputKind::scalar, "rate", {f32, {}});
  const Attributes attributes{
      {"momentum", 0.9}, {"weight_decay", 0.0}, {"nesterov", std::int64_t{0}}};
  const Value updated = b.emit(ops::multi_tensor_sgd, {w, v, w, rate}, attributes)[0];
  const Value other = weight("other", {3});
  const Value loss = sum(updated * other);
  CHECK(gradient(loss, {other})[0].id == updated.id);
  b.set_layer(7);
  CHECK(
      error_of([&] { gradient(loss, {w}); }) ==
      "gradient: the loss depends on multi_tensor_sgd \"multi_tensor_sgd\", which has no gradient; "
      "wrap it in stop_gradient");
  CHECK(b.region() == Region::forward);
  CHECK(b.layer() == 7);
}

TEST_CASE_FIXTURE(Fixture, "what the loss does not depend on has gradient zero") {
  const Value x = weight("x", {2}), unused = weight("unused", {3}),
              compared = weight("compared", {2});
  const Value loss = sum(where(gt(compared, 0), x, 0));
  const Value later = weight("later", {4});
  for (Value zero : gradient(loss, {unused, compared, later}))
    CHECK(producer(zero).attributes.real("value") == 0);
  CHECK(gradient(loss, {unused})[0].type() == unused.type());
}

TEST_CASE_FIXTURE(Fixture, "contributions of several uses are added") {
  const Value x = weight("x", {2});
  const Value y = x * x;
  testing::output(b, "dx", gradient(sum(y * x + 3 * x), {x})[0]);  // d/dx (x^3 + 3 x) = 3 x^2 + 3
  testing::output(b, "dy", gradient(sum(y * x + 3 * x), {y})[0]);  // of an intermediate value: x
  const testing::StepResult got =
      testing::evaluate(b.finish(), {{"x", testing::tensor({f64, {2}}, {2, -1})}});
  CHECK(got.update("dx") == std::vector<double>{15, 6});
  CHECK(got.update("dy") == std::vector<double>{2, -1});
}

TEST_CASE_FIXTURE(
    Fixture, "backward nodes run in region backward and carry the layer of their forward node") {
  Value h = batch("x", {f64, {2, 3}});
  Values weights;
  for (int layer = 0; layer < 3; ++layer) {
    b.set_layer(layer);
    weights.push_back(weight("w" + std::to_string(layer), {3, 3}));
    h = tanh(matmul(h, weights.back()));
  }
  const Value loss = mean(h);
  b.set_layer(9);
  const Values gradients = gradient(loss, weights);
  for (int layer = 0; layer < 3; ++layer) {
    CHECK(producer(gradients[layer]).layer == layer);
    CHECK(producer(gradients[layer]).region == Region::backward);
  }
  CHECK(b.region() == Region::forward);
  CHECK(b.layer() == 9);
  b.set_region(Region::apply);
  const Value again = gradient(loss, {weights[0]})[0];
  CHECK(producer(again).region == Region::apply);
  CHECK(b.region() == Region::apply);
}

TEST_CASE_FIXTURE(Fixture, "the gradient of mean(square(d)) is one product with a constant") {
  const Value d = weight("d", {4, 5});
  const Value loss = mean(square(d));
  const Value dd = gradient(loss, {d})[0];
  CHECK(producer(dd).op == &ops::mul);
  CHECK(producer(dd).operands[0] == d.id);
  CHECK(producer(b.operand(producer(dd), 1)).attributes.real("value") ==
        doctest::Approx(2.0 / 20).epsilon(1e-15));
  testing::output(b, "dd", dd);
  CHECK(operators(b.finish(), Region::backward) == "constant mul");
}

TEST_CASE_FIXTURE(
    Fixture, "the backward pass of relu reads its result, so that the pre-activation may die") {
  const Value x = batch("x", {f64, {2, 3}}), w = weight("w", {3, 4});
  const Value before = matmul(x, w);
  const Value after = relu(before);
  testing::output(b, "dw", gradient(mean(square(after)), {w})[0]);
  const Graph graph = b.finish();
  const std::vector<std::vector<int>> readers = consumers(graph);
  CHECK(readers[2].size() == 1);  // value 2 is `before`: values 0 and 1 are the inputs x and w
  CHECK(graph.producer(2).op == &ops::einsum);
  CHECK(operators(graph, Region::backward) == "constant mul step mul einsum");
}

TEST_CASE_FIXTURE(
    Fixture, "gradients of contractions are contractions of the same letters, without transposes") {
  const Value x = weight("x", {2, 3, 4}), w = weight("w", {2, 4, 5});
  const Value loss = sum(matmul(x, w));
  const Values gradients = gradient(loss, {x, w});
  CHECK(producer(gradients[0]).attributes.string("equation") == "bmn,bkn->bmk");
  CHECK(producer(gradients[1]).attributes.string("equation") == "bmk,bmn->bkn");
}

TEST_CASE_FIXTURE(Fixture, "a bias gradient is one sum") {
  const Value x = weight("x", {6, 4}), bias = weight("bias", {4}),
              column = weight("column", {6, 1});
  const Values gradients = gradient(sum(square(x + bias) + column), {bias, column});
  CHECK(producer(gradients[0]).op == &ops::reduce_sum);
  CHECK(gradients[0].type() == bias.type());
  CHECK(gradients[1].type() == column.type());
}

TEST_CASE_FIXTURE(Fixture, "value_and_grad gives the loss and its gradients") {
  const Value x = weight("x", {3});
  const ValueAndGrad both = value_and_grad([&] { return sum(square(x)); }, {x});
  b.metric("loss", both.value);
  testing::output(b, "dx", both.gradients.at(0));
  const testing::StepResult got =
      testing::evaluate(b.finish(), {{"x", testing::tensor({f64, {3}}, {1, 2, -3})}});
  CHECK(got.metrics.at("loss") == 14);
  CHECK(got.update("dx") == std::vector<double>{2, 4, -6});
}

TEST_CASE(
    "gradients of a network with residual, tied weights, "
    "normalisation and cross-entropy agree with central differences") {
  Recorder b;
  const Value x = b.input(InputKind::batch, "x", {f64, {4, 5}}),
              labels = b.input(InputKind::batch, "labels", {i32, {4}});
  const Value w = b.parameter("w", {f64, {5, 5}}, Initializer::zeros());
  const Value bias = b.parameter("bias", {f64, {5}}, Initializer::zeros());
  Value h = x;
  for (int i = 0; i < 2; ++i) {
    h = h + gelu(matmul(h, w) + bias);
    const Value centred = h - mean(h, {-1}, true);
    h = centred * rsqrt(mean(square(centred), {-1}, true) + 1e-3);
  }
  const Value loss = mean(softmax_cross_entropy(matmul(h, transpose(w)), labels));
  const Values gradients = gradient(loss, {w, bias});
  b.metric("loss", loss);
  testing::output(b, "dw", gradients[0]);
  testing::output(b, "dbias", gradients[1]);
  const Graph graph = b.finish();

  testing::Tensors in{{"x", testing::random_tensor({f64, {4, 5}}, 1)},
                      {"w", testing::random_tensor({f64, {5, 5}}, 2, -1, 1)},
                      {"bias", testing::random_tensor({f64, {5}}, 3)},
                      {"labels", testing::tensor({i32, {4}}, {0, 3, 1, 4})}};
  const testing::StepResult got = testing::evaluate(graph, in);
  for (const std::string name : {"w", "bias"}) {
    std::vector<double> slopes;
    for (std::int64_t i = 0; i < in.at(name).type.elements(); ++i) {
      const double original = in.at(name).get(i), step = 1e-5;
      in.at(name).put(i, original + step);
      const double above = testing::evaluate(graph, in).metrics.at("loss");
      in.at(name).put(i, original - step);
      slopes.push_back((above - testing::evaluate(graph, in).metrics.at("loss")) / (2 * step));
      in.at(name).put(i, original);
    }
    CHECK(testing::difference(got.updates.at("d" + name), slopes) < 1e-8);
  }
}

TEST_CASE("accumulated over micro-batches, the gradient is that of the whole batch") {
  const auto step = [](int micro_batches) {
    Recorder b(micro_batches);
    const Value x = b.input(InputKind::batch, "x", {f64, {6 / micro_batches, 2}});
    const Value w = b.parameter("w", {f64, {2, 1}}, Initializer::zeros());
    const Value total = b.input(InputKind::accumulator, "total", {f64, {2, 1}});
    const Value dw = gradient(mean(square(matmul(x, w))), {w})[0];
    b.set_region(Region::backward);
    const Value summed = total + dw;
    b.update(total, summed);
    b.set_region(Region::apply);
    b.update(w, w - summed * (1.0 / micro_batches));
    return testing::evaluate(b.finish(), {{"x", testing::random_tensor({f64, {6, 2}}, 4)},
                                          {"w", testing::tensor({f64, {2, 1}}, {0.5, -1})}})
        .update("w");
  };
  const std::vector<double> whole = step(1);
  for (int micro_batches : {2, 3, 6}) {
    const std::vector<double> split = step(micro_batches);
    for (std::size_t i = 0; i < 2; ++i) CHECK(split[i] == doctest::Approx(whole[i]).epsilon(1e-13));
  }
}

}  // namespace gradient_test
