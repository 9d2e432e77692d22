// Layers for images: shapes, padding, batch normalisation and its running statistics.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include <array>
#include <cmath>

#include "src/ir/recorder.h"
#include "support/error_text.h"

namespace vision_test {

using namespace alpa;
using alpa::testing::error_of;

namespace {

/// Shape of `layer(x)` for x of this shape.
template <class Layer>
Shape shape_after(const Layer& layer, const Shape& x) {
  Recorder builder;
  return layer(builder.input(InputKind::batch, "x", {f32, x})).shape();
}

const Array kRows(std::vector<float>{1, 10, 3, 30, 5, 20, 7, 40}, {4, 2});

/// (x - mean) / sqrt(variance + 1e-5) of one element of kRows.
double normal(double x, double mean, double variance) {
  return (x - mean) / std::sqrt(variance + 1e-5);
}

/// Σ of w ⊙ norm(x), which is sensitive to every element of norm(x).
LossAndMetrics weighted(const nn::BatchNorm& norm, const Batch& b) {
  const Value y = norm(b["x"]);
  return {mean(y * b["x"]), {{"first", mean(sum(y, {1}))}}};
}

}  // namespace

TEST_CASE("SAME convolutions give ceil(extent / stride) windows, VALID ones only whole windows") {
  const nn::Conv2d same(3, {3, 3}, {.stride = {2, 2}}),
      valid(3, {3, 2}, {.stride = {2, 1}, .padding = nn::Padding::valid});
  CHECK(shape_after(same, {2, 7, 8, 4}) == Shape{2, 4, 4, 3});
  CHECK(shape_after(same, {2, 1, 2, 4}) == Shape{2, 1, 1, 3});
  CHECK(shape_after(valid, {2, 7, 8, 4}) == Shape{2, 3, 7, 3});
  CHECK(shape_after(nn::Conv2d(6, {1, 1}), {2, 7, 8, 4}) == Shape{2, 7, 8, 6});
  CHECK(shape_after(nn::Conv2d(3, {3, 3}, {.dilation = {2, 3}}), {2, 7, 8, 4}) ==
        Shape{2, 7, 8, 3});
  CHECK(shape_after(nn::MaxPool{{3, 3}, {2, 2}, nn::Padding::same}, {2, 7, 8, 4}) ==
        Shape{2, 4, 4, 4});
  CHECK(shape_after(nn::AveragePool{}, {2, 7, 8, 4}) == Shape{2, 3, 4, 4});
  CHECK(shape_after(nn::GlobalAveragePool{}, {2, 7, 8, 4}) == Shape{2, 4});
  CHECK(shape_after(nn::Flatten{}, {2, 7, 8, 4}) == Shape{2, 224});
}

TEST_CASE("a convolution has a kernel of kh x kw x C / groups x features and a bias") {
  Recorder b;
  nn::Conv2d(6, {3, 5}, {.groups = 2})(b.input(InputKind::batch, "x", {f32, {2, 7, 8, 4}}));
  REQUIRE(b.parameters().size() == 2);
  CHECK(b.parameters()[0].shape() == Shape{3, 5, 2, 6});
  CHECK(b.parameters()[1].shape() == Shape{6});
  // he_normal of 3 · 5 · 2 inputs
  const Node& kernel = b.node(b.producer(b.parameters()[0].id));
  CHECK(kernel.name == "conv2d0.kernel");
  CHECK(kernel.attributes.real("b") == doctest::Approx(std::sqrt(2.0 / 30)));
}

TEST_CASE("padding does not count in the mean of a window") {
  const auto model = [](const Batch& b) -> Predictions {
    return nn::AveragePool{{2, 2}, {2, 2}, nn::Padding::same}(b["x"]);
  };
  const Executable run = parallelize(prediction_step({{"x", {f32, {1, 3, 3, 1}}}}, model), Serial{},
                                     Cluster::local(1));
  TrainState state = run.init(0);
  const Array x(std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8, 9}, {1, 3, 3, 1});
  CHECK(run.run(state, {{"x", x}}).outputs["prediction"].to_doubles() ==
        std::vector<double>{3, 4.5, 7.5, 9});  // (1+2+4+5)/4, (3+6)/2, (7+8)/2, 9
}

TEST_CASE("batch normalisation trains on the batch and evaluates with running statistics") {
  const nn::BatchNorm norm({.momentum = 0.75});
  const std::vector<BatchInput> inputs{{"x", {f32, {4, 2}}}};
  const auto model = [&](const Batch& b) { return weighted(norm, b); };
  const std::array<Executable, 2> steps =
      parallelize({training_step(inputs, model, optim::Sgd{.learning_rate = 0}),
                   evaluation_step(inputs, model)},
                  Serial{}, Cluster::local(1));
  TrainState state = steps[0].init(0);
  // Columns 1 3 5 7 and 10 30 20 40: means 4 and 25, variances 5 and 125.
  double expected = 0;
  for (int i = 0; i < 8; ++i) {
    const double x = kRows.to_doubles()[i];
    expected += x * normal(x, i % 2 ? 25 : 4, i % 2 ? 125 : 5) / 8;
  }
  CHECK(steps[0].run(state, {{"x", kRows}}).loss() == doctest::Approx(expected));
  CHECK(state["batch_norm0.mean"].to_host().to_doubles() == std::vector<double>{1, 6.25});
  CHECK(state["batch_norm0.variance"].to_host().to_doubles() == std::vector<double>{2, 32});
  expected = 0;
  for (int i = 0; i < 8; ++i) {
    const double x = kRows.to_doubles()[i];
    expected += x * normal(x, i % 2 ? 6.25 : 1, i % 2 ? 32 : 2) / 8;
  }
  CHECK(steps[1].run(state, {{"x", kRows}}).loss() == doctest::Approx(expected));
  CHECK(state["batch_norm0.mean"].to_host().to_doubles() == std::vector<double>{1, 6.25});
  CHECK(state.parameters().size() == 2);  // scale and bias
}

TEST_CASE("running statistics move towards the means over micro-batches") {
  const nn::BatchNorm norm({.momentum = 0});
  const TrainingStep step = training_step(
      {{"x", {f32, {4, 2}}}}, [&](const Batch& b) { return weighted(norm, b); },
      optim::Adam{.learning_rate = 0});
  const Executable run = parallelize(step, Serial{.num_micro_batches = 2}, Cluster::local(1));
  TrainState state = run.init(0);
  run.run(state, {{"x", kRows}});
  CHECK(state["batch_norm0.mean"].to_host().to_doubles() == std::vector<double>{4, 25});
  // variances of 1 3, of 5 7, of 10 30 and of 20 40
  CHECK(state["batch_norm0.variance"].to_host().to_doubles() == std::vector<double>{1, 100});
}

TEST_CASE("a frozen batch normalisation uses and keeps its running statistics in training") {
  const nn::BatchNorm norm;
  const auto model = [&](const Batch& b) -> LossAndMetrics {
    return mean(nn::Dense(2)(norm(b["x"])));
  };
  const Executable run = parallelize(
      training_step({{"x", {f32, {4, 2}}}}, model, optim::Sgd{}, {.frozen = {"batch_norm0.*"}}),
      Serial{}, Cluster::local(1));
  TrainState state = run.init(0);
  state["batch_norm0.mean"] = Array(std::vector<float>{4, 5}, {2});
  run.run(state, {{"x", kRows}});
  CHECK(state["batch_norm0.mean"].to_host().to_doubles() == std::vector<double>{4, 5});
}

TEST_CASE("mistakes in layers for images") {
  CHECK(error_of([] {
          nn::Conv2d(0, {3, 3});
        }) == "nn::Conv2d: 0 features of 3 x 3 windows; give at least 1 of each");
  CHECK(error_of([] {
          nn::Conv2d(4, {3, 3}, {.stride = {0, 1}});
        }) == "nn::Conv2d: stride 0 x 1, dilation 1 x 1, 1 groups; all must be at least 1");
  CHECK(error_of([] {
          shape_after(nn::Conv2d(4, {3, 3}, {.groups = 2}), {2, 4, 4, 3});
        }) ==
        "nn::Conv2d(4): the input is f32[2, 4, 4, 3]; it must be [B, H, W, C], C divisible by 2 "
        "groups");
  CHECK(error_of([] { nn::BatchNorm({.momentum = 1}); }) ==
        "nn::BatchNorm: momentum 1 must be in [0, 1) and epsilon 1e-05 above 0");
  CHECK(error_of([] { shape_after(nn::BatchNorm(), {4}); }) ==
        "nn::BatchNorm: the input is f32[4]; it needs channels and a batch");
}

TEST_CASE("a batch norm that is used in two places is named, with what to do") {
  const nn::BatchNorm first, norm;
  const auto step_of = [&](StepOptions options = {}) {
    return training_step(
        {{"x", {f32, {4, 2}}}},
        [=](const Batch& b) { return mean(square(norm(relu(norm(first(b["x"])))))); }, optim::Sgd{},
        std::move(options));
  };
  for (int micro_batches : {1, 2})
    CHECK(error_of([&] { step_of().trace(micro_batches); }) ==
          "nn::BatchNorm: layer \"batch_norm1\" normalises in two places of the model, but keeps "
          "one mean and variance; make a BatchNorm for each place, or freeze it");
  CHECK(step_of({.frozen = {"batch_norm1.*"}}).trace(2).updates.size() > 0);
  const auto twice = [&](const Batch& b) { return mean(norm(norm(b["x"]))); };
  CHECK(evaluation_step({{"x", {f32, {4, 2}}}}, twice).trace(2).nodes.size() > 0);
}

}  // namespace vision_test
