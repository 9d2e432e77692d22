// Sizes of BERT and ViT: parameters and FLOPs of the graph against published and derived ones.
#include <doctest/doctest.h>

#include "alpa/models/bert.h"
#include "alpa/models/vit.h"
#include "parameter_count.h"

namespace encoder_test {

using namespace alpa;
using namespace models;
using namespace alpa::testing;

namespace {

constexpr std::int64_t kBatch = 2, kSequence = 512, kExtent = 224;

template <class Size>
EncoderOptions encoder_of(const Size& size, bool norm_first = false) {
  return {
      .layers = size.layers, .hidden = size.hidden, .heads = size.heads, .norm_first = norm_first};
}

Graph bert_of(const BertSize& size) {
  const Bert bert({.encoder = encoder_of(size)});
  const TensorType tokens{i32, {kBatch, kSequence}};
  return training_step(
             {{"tokens", tokens}, {"labels", tokens}},
             [&](const Batch& b) { return bert.loss(b["tokens"], b["labels"]); }, optim::Sgd{})
      .trace(1);
}

Graph vit_of(const VitSize& size) {
  const Vit vit({.encoder = encoder_of(size, true), .patch = size.patch});
  return training_step(
             {{"x", {f32, {kBatch, kExtent, kExtent, 3}}}, {"y", {i32, {kBatch}}}},
             [&](const Batch& b) { return nn::cross_entropy(vit(b["x"]), b["y"]); }, optim::Sgd{})
      .trace(1);
}

/// Weights and biases of four products of attention, two of the feed-forward part; two norms.
std::int64_t block_parameters(std::int64_t C) {
  return 4 * (C * C + C) + 4 * C * C + 4 * C + 4 * C * C + C + 2 * 2 * C;
}

/// Forward FLOPs of a block on B sequences of T: products with weights, then with keys and values.
double block_flops(double B, double T, double C) { return 24 * B * T * C * C + 4 * B * T * T * C; }

}  // namespace

TEST_CASE("BERT has the parameters of Hugging Face's BertForMaskedLM, and FLOPs of its products") {
  const std::map<std::string_view, std::int64_t> published{{"base", 109514298},
                                                           {"large", 335174458}};
  for (const BertSize& size : kBertSizes) {
    CAPTURE(size.name);
    const std::int64_t C = size.hidden, V = 30522;
    const std::int64_t count =
        (V + kSequence + 2) * C + size.layers * block_parameters(C) + C * C + C + 2 * C + V;
    // Hugging Face's has two types of tokens, a row each.
    if (published.count(size.name)) CHECK(count + 2 * C == published.at(size.name));
    const Graph graph = bert_of(size);
    CHECK(parameter_count(graph) == count);
    const double tokens = kBatch * kSequence, width = double(C);
    const double flops = double(size.layers) * block_flops(kBatch, kSequence, width) +
                         2 * tokens * width * width + 2 * tokens * width * double(V);
    CHECK(product_flops(graph, Region::forward) == doctest::Approx(flops).epsilon(1e-12));
    // Twice these, and attention's products with keys once more.
    const double again = double(size.layers) * 2 * kBatch * kSequence * kSequence * width;
    CHECK(product_flops(graph, Region::backward) ==
          doctest::Approx(2 * flops + again).epsilon(1e-12));
  }
}

TEST_CASE("ViT has the parameters and FLOPs of torchvision's") {
  struct Published {
    std::int64_t parameters;
    double multiplications;
  };
  const std::map<std::string_view, Published> published{{"base", {86567656, 17.564e9}},
                                                        {"large", {304326632, 61.555e9}},
                                                        {"huge", {632045800, 167.295e9}}};
  for (const VitSize& size : kVitSizes) {
    CAPTURE(size.name);
    const std::int64_t C = size.hidden, patch = size.patch * size.patch * 3,
                       patches = (kExtent / size.patch) * (kExtent / size.patch);
    const Graph graph = vit_of(size);
    CHECK(parameter_count(graph) == (patch + 1) * C + C + (patches + 1) * C +
                                        size.layers * block_parameters(C) + 2 * C + 1000 * C +
                                        1000);
    const double width = double(C), count = double(patches);
    const double flops = double(size.layers) * block_flops(kBatch, count + 1, width) +
                         2 * kBatch * count * double(patch) * width + 2 * kBatch * width * 1000;
    CHECK(product_flops(graph, Region::forward) == doctest::Approx(flops).epsilon(1e-12));
    if (!published.count(size.name)) continue;
    const Published& torchvision = published.at(size.name);
    CHECK(parameter_count(graph) == torchvision.parameters);
    CHECK(flops / 2 / kBatch == doctest::Approx(torchvision.multiplications).epsilon(1e-4));
  }
}

}  // namespace encoder_test
