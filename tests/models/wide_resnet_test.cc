// Wide-ResNets of all sizes: parameters and FLOPs of the graph against published and derived ones.
#include "alpa/models/wide_resnet.h"
#include "models/common/images.h"

#include <doctest/doctest.h>

#include "parameter_count.h"

namespace wide_resnet_test {

using namespace alpa;
using namespace models;
using namespace alpa::testing;

namespace {

Graph graph_of(const WideResNetSize& size, std::int64_t batch, std::int64_t extent) {
  const nn::Sequential model = wide_resnet(size);
  return training_step(
             {{"x", {f32, {batch, extent, extent, 3}}}, {"y", {i32, {batch}}}},
             [&](const Batch& b) { return programs::classify_images(model, b["x"], b["y"]); },
             optim::Sgd{.momentum = 0.9, .nesterov = true})
      .trace(1);
}

/// Weights of convolutions, two numbers per normalised channel, the last product and its bias.
std::int64_t formula(const WideResNetSize& s) {
  const std::int64_t stem = s.small_images ? 9 : 49;
  std::int64_t count = stem * 3 * s.channels + 2 * s.channels, inputs = s.channels, c = s.channels;
  for (std::size_t group = 0; group < s.blocks.size(); ++group, c *= 2)
    for (int block = 0; block < s.blocks[group]; ++block, inputs = 4 * c) {
      const std::int64_t wide = c * s.width;
      count += inputs * c + 9 * c * wide + wide * 4 * c + 2 * (c + wide + 4 * c);
      if (inputs != 4 * c || (group > 0 && block == 0)) count += inputs * 4 * c + 8 * c;
    }
  return count + inputs * s.classes + s.classes;
}

}  // namespace

TEST_CASE("of width 1, the 50 and 101 layers have ResNet's published parameters and FLOPs") {
  const WideResNetSize resnet50{.channels = 64, .width = 1, .classes = 1000};
  const Graph graph = graph_of(resnet50, 1, 224);
  CHECK(parameter_count(graph) == 25557032);  // torchvision's resnet50
  // torchvision: 4.09 billion multiplications; backward twice these, but for the images' gradient
  CHECK(product_flops(graph, Region::forward) == doctest::Approx(2 * 4.089e9).epsilon(2e-3));
  CHECK(product_flops(graph, Region::backward) ==
        doctest::Approx(4 * 4.089e9 - 2 * 112 * 112 * 64.0 * 147).epsilon(2e-3));
  const WideResNetSize resnet101{
      .blocks = {3, 4, 23, 3}, .channels = 64, .width = 1, .classes = 1000};
  CHECK(parameter_count(graph_of(resnet101, 1, 64)) == 44549160);  // torchvision's resnet101
}

TEST_CASE("every size has the parameters that its name says") {
  const std::map<std::string, double> named{{"250M", 250e6}, {"500M", 500e6}, {"1B", 1e9},
                                            {"2B", 2e9},     {"4B", 4e9},     {"6.8B", 6.8e9},
                                            {"13B", 13e9}};
  for (const auto& [name, size] : wide_resnet_sizes()) {
    CAPTURE(name);
    const std::int64_t count = parameter_count(graph_of(size, 2, size.small_images ? 32 : 224));
    CHECK(count == formula(size));
    if (named.count(name))
      CHECK(static_cast<double>(count) == doctest::Approx(named.at(name)).epsilon(0.04));
  }
}

}  // namespace wide_resnet_test
