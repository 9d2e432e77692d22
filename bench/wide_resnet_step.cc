// The training step of a Wide-ResNet for images of 32 x 32 pixels (models/wide_resnet.h, size
// cifar) on CPU devices. Reads numbers of steps from its input, a line each, and answers with
// the seconds they took; bench/peers/wide_resnet.py asks it and its peers in turn.
//   bench_wide_resnet_step --help
#include "arguments.h"
#include "mlp.h"
#include "models/wide_resnet.h"
#include "on_request.h"

using namespace alpa;

namespace {

struct Sizes {
  std::int64_t batch = 32, image = 32;
  bench::Placement place;
};

/// The learning rate is so small that nothing converges while it is measured.
TrainingStep step_of(const Sizes& sizes) {
  const nn::Sequential model = models::wide_resnet(models::wide_resnet_sizes().at("cifar"));
  return training_step(
      {{"x", {f32, {sizes.batch, sizes.image, sizes.image, 3}}}, {"y", {i32, {sizes.batch}}}},
      [=](const Batch& b) { return nn::cross_entropy(model(b["x"]), b["y"]); },
      optim::Sgd{.learning_rate = 1e-7, .momentum = 0.9, .nesterov = true});
}

void answer(const Sizes& sizes) {
  std::vector<std::int32_t> labels(sizes.batch);
  for (std::int64_t i = 0; i < sizes.batch; ++i) labels[i] = static_cast<std::int32_t>(i % 10);
  bench::answer(
      bench::runner(step_of(sizes), sizes.place,
                    {{"x", bench::random_array({sizes.batch, sizes.image, sizes.image, 3})},
                     {"y", Array(labels, {sizes.batch})}}));
}

}  // namespace

int main(int argc, char** argv) {
  Sizes sizes;
  const std::vector<cli::Flag> flags = bench::with_placement(
      {cli::whole("--batch", &sizes.batch, "Images of the batch", 1),
       cli::whole("--image", &sizes.image, "Rows and columns of an image", 1)},
      sizes.place);
  return bench::run(argc, argv, "The training step of a Wide-ResNet, timed on request.", flags,
                    [&] { answer(sizes); });
}
