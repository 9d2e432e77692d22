// Layers: names, sharing, values.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include <cmath>

#include "src/ir/recorder.h"

namespace layers_test {

using namespace alpa;

namespace {

using Names = std::vector<std::string>;

/// Names of the parameters after a model is applied to x f32[2, 4].
template <class Model>
Names parameters_of(Model&& model) {
  Recorder builder;
  model(builder.input(InputKind::batch, "x", {f32, {2, 4}}));
  Names names;
  for (const Value& parameter : builder.parameters())
    names.push_back(builder.node(builder.producer(parameter.id)).name);
  return names;
}

/// The values of `model(x)` as metrics "0", "1", … of an evaluation or training step on one device.
std::vector<double> evaluated(const std::function<Value(Value)>& model, const Array& x,
                              const std::map<std::string, Array>& state = {},
                              bool training = false) {
  const auto build = [&](Builder& builder, const Batch& batch) {
    builder.set_training(training);
    const Value y = reshape(model(batch["x"]), {-1});
    for (std::int64_t i = 0; i < y.shape()[0]; ++i) {
      const Value pick = cast(eq(iota(builder, {f32, y.shape()}), static_cast<double>(i)), f32);
      builder.metric(fmt::format("{:03}", i), sum(y * pick));
    }
  };
  const Executable step =
      parallelize(custom_step({{"x", x.type()}}, build), Serial{}, Cluster::local(1));
  TrainState tensors = step.init(3);
  for (const auto& [name, array] : state) tensors[name] = array;
  std::vector<double> values;
  for (const auto& [name, value] : step.run(tensors, {{"x", x}}).metrics.values())
    values.push_back(value);
  return values;
}

}  // namespace

TEST_CASE("layers are named in the order of their first use") {
  const nn::Dense first(3), second(4);
  CHECK(parameters_of([&](Value x) { return first(second(x)); }) ==
        Names{"dense0.kernel", "dense0.bias", "dense1.kernel", "dense1.bias"});
}

TEST_CASE("copies of a layer share its parameters, layers made alike do not") {
  const nn::Dense shared(4);
  CHECK(parameters_of(nn::Sequential{shared, shared}) == Names{"0.kernel", "0.bias"});
  CHECK(
      parameters_of(nn::Sequential{nn::Dense(4, {.bias = false}), nn::Dense(4, {.bias = false})}) ==
      Names{"0.kernel", "1.kernel"});
  // Layers that live only while the model is recorded are different ones,
  // wherever they lie in memory.
  CHECK(parameters_of([](Value x) {
          for (int i = 0; i < 3; ++i) x = nn::Dense(4, {.bias = false})(x);
          return x;
        }) == Names{"dense0.kernel", "dense1.kernel", "dense2.kernel"});
}

TEST_CASE("a model keeps its names in every graph it is recorded in") {
  const nn::Sequential mlp{nn::Dense(3), nn::ReLU(), nn::Dense(2)};
  CHECK(parameters_of(mlp) == parameters_of(mlp));
}

TEST_CASE("dense is x times kernel plus bias") {
  const Array x(std::vector<float>{1, 2, 3, 4}, {2, 2});
  const std::vector<double> y =
      evaluated(nn::Dense(3), x,
                {{"dense0.kernel", Array(std::vector<float>{1, 0, 2, -1, 1, 3}, {2, 3})},
                 {"dense0.bias", Array(std::vector<float>{10, 20, 30}, {3})}});
  // rows (1, 2) and (3, 4) times [[1, 0, 2], [-1, 1, 3]]
  CHECK(y == std::vector<double>{9, 22, 38, 9, 24, 48});
}

TEST_CASE("a tied kernel can be used transposed") {
  const nn::Dense encode(3, {.bias = false});
  const auto model = [&](Value x) { return matmul(encode(x), transpose(encode.kernel(x, 2))); };
  const std::vector<double> y =
      evaluated(model, Array(std::vector<float>{1, 2}, {1, 2}),
                {{"dense0.kernel", Array(std::vector<float>{1, 0, 2, -1, 1, 3}, {2, 3})}});
  // (1, 2)·K = (-1, 2, 8); times Kᵀ: (-1 + 16, 1 + 2 + 24)
  CHECK(y == std::vector<double>{15, 27});
}

TEST_CASE("layer norm makes every row's mean 0 and variance 1, then scales and shifts") {
  const Array x(std::vector<float>{1, 3, -10, 10}, {2, 2});
  const auto near = [](const std::vector<double>& y, const std::vector<double>& expected) {
    for (std::size_t i = 0; i < y.size(); ++i)
      CHECK(y[i] == doctest::Approx(expected[i]).epsilon(1e-5));
  };
  near(evaluated(nn::LayerNorm(), x), {-1, 1, -1, 1});
  near(evaluated(nn::LayerNorm(), x,
                 {{"layer_norm0.scale", Array(std::vector<float>{2, 3}, {2})},
                  {"layer_norm0.bias", Array(std::vector<float>{10, 20}, {2})}}),
       {8, 23, 8, 23});
}

TEST_CASE("an embedding gives rows of its table, which may be tied") {
  const nn::Embedding embedding(3, 2);
  const auto model = [&](Value x) {
    const Value vectors = embedding(cast(x, i32));
    return matmul(vectors, transpose(embedding.table(x)));
  };
  // rows 2 and 0 of [[1, 2], [3, 4], [5, 6]] times its transpose
  CHECK(evaluated(model, Array(std::vector<float>{2, 0}, {2}),
                  {{"embedding0.table", Array(std::vector<float>{1, 2, 3, 4, 5, 6}, {3, 2})}}) ==
        std::vector<double>{17, 39, 61, 5, 11, 17});
}

TEST_CASE("a residual adds its input") {
  const nn::Residual layer([](Value x) { return x * 3.0; });
  CHECK(evaluated(layer, Array(std::vector<float>{1, -2}, {1, 2})) == std::vector<double>{4, -8});
}

TEST_CASE("accuracy counts rows whose label has the largest logit") {
  const Array logits(std::vector<float>{1, 5, 2, 9, 0, 0, 3, 3, 1, 0, 0, 7}, {4, 3});
  const auto accuracy_for = [&](std::vector<double> labels) {
    const auto model = [&](Value x) {
      Value y = constant(x, 0, i32, {4});
      for (std::size_t i = 0; i < labels.size(); ++i) {
        const Value here = cast(eq(iota(x, {i32, {4}}), static_cast<double>(i)), i32);
        y = y + here * labels[i];
      }
      return nn::accuracy(x, y);
    };
    return evaluated(model, logits)[0];
  };
  CHECK(accuracy_for({1, 0, 0, 2}) == 1);  // a tie counts as right
  CHECK(accuracy_for({0, 0, 1, 1}) == 0.5);
  CHECK(accuracy_for({1, 0, 2, -1}) == 0.5);  // no class: wrong
}

TEST_CASE("initialisers have the spread their papers ask for") {
  const auto moments = [](const nn::DenseOptions& options) {
    const TrainingStep step = evaluation_step({{"x", {f32, {1, 400}}}}, [&](const Batch& b) {
      return mean(nn::Dense(100, options)(b["x"]));
    });
    const Executable executable = parallelize(step, Serial{}, Cluster::local(1));
    double sum = 0, squares = 0, largest = 0;
    const std::vector<double> kernel = executable.init(5)["dense0.kernel"].to_host().to_doubles();
    for (double x : kernel) sum += x, squares += x * x, largest = std::max(largest, std::abs(x));
    const auto n = static_cast<double>(kernel.size());
    return std::array<double, 3>{sum / n, squares / n, largest};
  };
  const auto he = moments({});
  CHECK(he[0] == doctest::Approx(0).scale(1).epsilon(5 * std::sqrt(2.0 / 400 / 40000)));
  CHECK(he[1] == doctest::Approx(2.0 / 400).epsilon(0.04));
  const auto glorot = moments({.kernel = nn::glorot_uniform});
  CHECK(glorot[1] == doctest::Approx(2.0 / 500).epsilon(0.04));
  CHECK(glorot[2] <= std::sqrt(6.0 / 500));
  CHECK(moments({.kernel = Initializer::constant(0.25)})[0] == 0.25);
}

TEST_CASE("dropout drops its share while training and nothing while evaluating") {
  const Array ones(std::vector<float>(100, 1.0F), {10, 10});
  const nn::Dropout dropout(0.3);
  CHECK(evaluated(dropout, ones) == std::vector<double>(100, 1.0));
  int dropped = 0;
  for (double y : evaluated(dropout, ones, {}, true)) {
    CHECK((y == 0 || y == doctest::Approx(1 / 0.7)));
    dropped += y == 0;
  }
  CHECK(dropped > 30 - 23);  // five deviations of a binomial: 5 sqrt(100 · 0.3 · 0.7) = 23
  CHECK(dropped < 30 + 23);
}

}  // namespace layers_test
