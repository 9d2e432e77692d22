// The training step of a Wide-ResNet for images of 32 x 32 pixels (models/wide_resnet.h, size
// cifar) on CPU devices beside its limit (limit.h), with --half in bf16 mixed, too. With
// --on-request it answers numbers of steps with their seconds, for bench/peers/wide_resnet.py.
//   bench_wide_resnet_step --help
#include "alpa/models/wide_resnet.h"
#include "arguments.h"
#include "limit.h"
#include "mlp.h"
#include "on_request.h"

using namespace alpa;

namespace {

struct Sizes {
  std::int64_t batch = 32, image = 32;
  bool half = false;
  bench::Timing timing;
};

/// The learning rate is so small that nothing converges while it is measured.
TrainingStep step_of(const Sizes& sizes, Precision precision) {
  const nn::Sequential model = models::wide_resnet(models::wide_resnet_sizes().at("cifar"));
  return training_step(
      {{"x", {f32, {sizes.batch, sizes.image, sizes.image, 3}}}, {"y", {i32, {sizes.batch}}}},
      [=](const Batch& b) { return nn::cross_entropy(model(b["x"]), b["y"]); },
      optim::Sgd{.learning_rate = 1e-7, .momentum = 0.9, .nesterov = true},
      StepOptions{.precision = precision});
}

void measure(const Sizes& sizes) {
  std::vector<std::int32_t> labels(sizes.batch);
  for (std::int64_t i = 0; i < sizes.batch; ++i) labels[i] = static_cast<std::int32_t>(i % 10);
  const BatchData batch{{"x", bench::random_array({sizes.batch, sizes.image, sizes.image, 3})},
                        {"y", Array(labels, {sizes.batch})}};
  const TrainingStep step = step_of(sizes, Precision::as_written);
  if (!sizes.half) return bench::time_step(step, sizes.timing, batch);
  bench::time_with_half(step, step_of(sizes, Precision::bf16_mixed), sizes.timing, batch);
}

}  // namespace

int main(int argc, char** argv) {
  Sizes sizes;
  const std::vector<cli::Flag> flags = bench::with_timing(
      {cli::whole("--batch", &sizes.batch, "Images of the batch", 1),
       cli::whole("--image", &sizes.image, "Rows and columns of an image", 1),
       cli::on("--half", &sizes.half, "The step in bf16 mixed, too; on request only")},
      sizes.timing);
  return bench::run(argc, argv, "The training step of a Wide-ResNet on CPU devices.", flags,
                    [&] { measure(sizes); });
}
