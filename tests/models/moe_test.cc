// Decoders with experts of all sizes: parameters and FLOPs of the graph against Alpa's formulas
// (alpa/benchmark/alpa/util.py), every difference derived.
#include <cmath>

#include "alpa/models/moe.h"

#include <doctest/doctest.h>

#include "parameter_count.h"

namespace moe_test {

using namespace alpa;
using namespace models;
using namespace alpa::testing;

namespace {

constexpr double kBatch = 2;  // 2048 tokens: one group

MoeDecoderOptions options_of(const MoeDecoderSize& size) {
  return {
      .layers = size.layers, .hidden = size.hidden, .heads = size.heads, .experts = size.experts};
}

Graph graph_of(const MoeDecoderOptions& options) {
  const TensorType type{i32, {static_cast<std::int64_t>(kBatch), options.sequence}};
  const MoeDecoder decoder(options);
  return training_step(
             {{"tokens", type}, {"labels", type}},
             [&](const Batch& b) { return decoder.loss(b["tokens"], b["labels"]); }, optim::Sgd{})
      .trace(1);
}

/// Alpa's count.
std::int64_t formula(const MoeDecoderOptions& o) {
  const std::int64_t H = o.hidden, m = o.factor;
  const std::int64_t mlp = H * (m * H + 1) + m * H * (H + 1),
                     rest = H * (3 * H + 1) + H * (H + 1) + 4 * H;
  return o.layers / 2 * (2 * rest + mlp + o.experts * mlp) + o.vocabulary * (H + 1);
}

}  // namespace

TEST_CASE("parameters: Alpa's formula, but for biases, gates and positions") {
  const std::map<std::string_view, std::int64_t> published{
      {"380M", 383506688},  {"690M", 685717760},  {"1.3B", 1346827520},
      {"2.4B", 2382961920}, {"7.1B", 7069615360}, {"10B", 10169642240},
      {"27B", 26648100096}, {"70B", 70415219968}, {"140B", 139153571072}};
  for (const MoeDecoderSize& size : kMoeSizes) {
    CAPTURE(size.name);
    const MoeDecoderOptions o = options_of(size);
    if (published.count(size.name)) CHECK(formula(o) == published.at(size.name));
    const std::int64_t H = o.hidden, E = o.experts;
    const std::int64_t query_key_and_value = 2 * H,  // biases; Alpa counts one of the three
        gate = H * E, expert_biases = E * (o.factor + 1) * H, positions = o.sequence * H,
                       last_norm = 2 * H;
    CHECK(parameter_count(graph_of(o)) == formula(o) + o.layers * query_key_and_value +
                                              o.layers / 2 * (gate - expert_biases) + positions +
                                              last_norm);
  }
}

TEST_CASE("FLOPs: Alpa's formula, with and without its products that dispatch and combine") {
  for (const MoeDecoderSize& size : kMoeSizes)
    for (bool dense : {false, true}) {
      CAPTURE(size.name);
      CAPTURE(dense);
      MoeDecoderOptions o = options_of(size);
      o.dense_dispatch = dense;
      const double B = kBatch, S = double(o.sequence), H = double(o.hidden), E = double(o.experts),
                   m = double(o.factor), G = double(o.group), V = double(o.vocabulary),
                   L = double(o.layers);
      // Places of all experts, 2BS where the experts divide 2G; else every capacity is rounded up.
      const double places = B * S / G * E * std::ceil(2 * G / E),
                   moved = dense ? 2 * places * G * H : 0;  // of one of the two
      const double pure = B * S * H * H * (8 + 4 * m) + 4 * B * S * S * H,
                   experts = 8 * B * S * H * H + 4 * B * S * S * H + 4 * places * H * H * m +
                             2 * B * S * H * E + 2 * moved,
                   forward = L / 2 * (pure + experts) + 2 * B * S * H * V;
      const Graph graph = graph_of(o);
      CHECK(product_flops(graph, Region::forward) == doctest::Approx(forward).epsilon(1e-12));
      // The mask that dispatches has no gradient; attention computes its products once more.
      CHECK(product_flops(graph, Region::backward) ==
            doctest::Approx(2 * forward - L / 2 * moved + L * 2 * B * S * S * H).epsilon(1e-12));
      // Alpa's count is of a forward pass that makes the masks by a product, too: 4BSG.
      const double alpa =
          3 * (L / 2 *
                   (pure + 8 * B * S * H * H + 4 * B * S * S * H + 8 * B * S * H * H * m +
                    2 * B * S * H * E + 4 * B * S * G + 8 * B * S * H * G) +
               2 * B * S * H * V);
      if (dense && size.name != "tiny")
        CHECK(product_flops(graph, Region::forward) * 3 == doctest::Approx(alpa).epsilon(0.005));
    }
}

}  // namespace moe_test
