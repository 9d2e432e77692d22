// Mistakes in models and training steps: the whole text of each message.
#include <doctest/doctest.h>

#include <cmath>

#include "errors/small_model.h"
#include "support/error_text.h"

namespace step_error_test {

using namespace alpa;
using namespace alpa::testing;

TEST_CASE("batch inputs that are not batches") {
  const auto model = [](const Batch& b) { return mean(b["x"]); };
  const auto error = [&](std::vector<BatchInput> inputs) {
    return error_of([&] { training_step(inputs, model, optim::Sgd{}); });
  };
  CHECK(error({}) == "a step needs at least one batch input, e.g. {\"x\", {f32, {32, 784}}}");
  CHECK(error({{"x", {f32, {}}}}) ==
        "batch input \"x\" is f32[]; its dimension 0 must be the batch");
  CHECK(error({{"x", {f32, {0, 6}}}}) ==
        "batch input \"x\" is f32[0, 6]; every extent must be at least 1");
  CHECK(error({{"x", {f32, {8, 6}}}, {"y", {f32, {4, 6}}}}) ==
        "batch input \"y\" is f32[4, 6] but \"x\" is f32[8, 6]; "
        "dimension 0 of all is the batch and must agree");
}

TEST_CASE("losses and metrics that are not numbers") {
  const nn::Dense dense(4);
  CHECK(error_of([&] { trace([&](const Batch& b) { return square(dense(b["x"])); }); }) ==
        "the loss must be one number, not f32[12, 4]; average it with mean(…)");
  CHECK(error_of([&] { trace([&](const Batch& b) { return cast(mean(dense(b["x"])), i32); }); }) ==
        "the loss must be floating, not i32[]; convert it with cast(…, f32)");
  CHECK(error_of([&] { trace([&](const Batch&) { return Value(); }); }) ==
        "the model returned no loss");
  CHECK(error_of([&] {
          trace([&](const Batch& b) {
            const Value y = dense(b["x"]);
            return LossAndMetrics(mean(y), {{"y", y}});
          });
        }) == "the metric \"y\" must be one number, not f32[12, 4]; average it with mean(…)");
  CHECK(error_of([&] {
          trace([&](const Batch& b) {
            const Value y = mean(dense(b["x"]));
            return LossAndMetrics(y, {{"loss", y}});
          });
        }) == "a metric can't be called \"loss\"; the loss itself is reported under this name");
}

TEST_CASE("models that don't fit together") {
  CHECK(error_of([] { trace([](const Batch& b) { return mean(b["z"]); }); }) ==
        "the batch has no input \"z\"; its inputs are \"x\", \"y\"");
  CHECK(error_of([] { trace([](const Batch& b) { return mean(b["x"]); }); }) ==
        "the model has no parameters to train; for metrics alone use evaluation_step");
  CHECK(
      error_of([] { trace([](const Batch& b) { return mean(nn::Dense(4)(b["x"]) - b["x"]); }); }) ==
      "sub: x has extent 4 but y has 6 in dimension 1 from the last (x f32[12, 4], y f32[12, 6]); "
      "reshape one of them, or give it extent 1 there");
  CHECK(error_of([] {
          trace([](const Batch& b) { return mean(nn::Dense(3)(reshape(b["x"], {-1}))); });
        }) ==
        "nn::Dense(3): the input is f32[72]; it needs a batch dimension and a feature dimension");
  CHECK(error_of([] {
          trace([](const Batch& b) { return mean(nn::Residual(nn::Dense(3))(b["x"])); });
        }) ==
        "nn::Residual: the inner layer turns f32[12, 6] into f32[12, 3]; "
        "it must keep the type, to be added to its input");
  const nn::Dense tied(4);
  CHECK(error_of([&] {
          trace([&](const Batch& b) { return mean(tied(tied(b["x"]))); });
        }).find("dense0.kernel") != std::string::npos);
}

TEST_CASE("layers and optimizers with impossible options") {
  CHECK(error_of([] { nn::Dense(0); }) == "nn::Dense: 0 features; give at least 1");
  CHECK(error_of([] { nn::Dropout(1); }) == "nn::Dropout: rate 1 is not in [0, 1)");
  CHECK(error_of([] { Optimizer(optim::Sgd{.momentum = 1}); }) ==
        "optim::Sgd: momentum is 1; it must be at least 0 and less than 1");
  CHECK(error_of([] { Optimizer(optim::Sgd{.nesterov = true}); }) ==
        "optim::Sgd: nesterov needs a momentum above 0");
  CHECK(error_of([] { Optimizer(optim::Adam{.beta2 = 1.5}); }) ==
        "optim::Adam: beta2 is 1.5; it must be at least 0 and less than 1");
  CHECK(error_of([] { warmup_constant(1, -1); }) ==
        "warmup_constant: -1 warm-up steps; give at least 0");
  CHECK(error_of([] { linear_schedule(1, 0, 0); }) == "linear_schedule: 0 steps; give at least 1");
  CHECK(error_of([] { warmup_cosine(1, 10, 10); }) ==
        "warmup_cosine: 10 warm-up steps of 10 steps in total; the warm-up must be shorter");
}

TEST_CASE("loss scales and averages out of range") {
  const auto error = [](StepOptions options, DType dtype = f32) {
    return error_of([&] {
      training_step(
          {{"x", {dtype, {4, 3}}}}, [](const Batch& b) { return mean(nn::Dense(2)(b["x"])); },
          optim::Sgd{}, options)
          .trace(1);
    });
  };
  CHECK(error({.loss_scale = LossScale{.initial = 0}}) ==
        "StepOptions::loss_scale: the scale is 0; it must be above 0");
  CHECK(error({.loss_scale = LossScale{.growth_interval = 0}}) ==
        "StepOptions::loss_scale: growth_interval is 0; it must be at least 1");
  CHECK(error({.ema = 1}) == "StepOptions::ema is 1; it must be above 0 and less than 1");
  CHECK(error({.ema = 0.9}, bf16) ==
        "StepOptions::ema: parameter \"dense0.kernel\" is bf16[3, 2], too coarse for an average; "
        "keep it in f32 with .precision = bf16_mixed");
  CHECK(error_of([] { Optimizer(optim::Adafactor{.decay = 0}); }) ==
        "optim::Adafactor: decay is 0; it must be above 0");
}

}  // namespace step_error_test
