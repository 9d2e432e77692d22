// Sizes of the decoders of models/gpt.h, and text from them.
#include <doctest/doctest.h>

#include <cmath>

#include "alpa/models/gpt.h"
#include "parameter_count.h"
#include "support/error_text.h"

namespace decoder_test {

using namespace alpa;
using namespace models;
using namespace alpa::testing;

namespace {

constexpr std::int64_t kBatch = 2;

TrainingStep step_of(const DecoderOptions& options) {
  const TensorType tokens{i32, {kBatch, options.sequence}};
  return training_step(
      {{"tokens", tokens}, {"labels", tokens}},
      [decoder = Decoder(options)](const Batch& b) {
        return decoder.loss(b["tokens"], b["labels"]);
      },
      optim::Sgd{});
}

DecoderOptions of_size(std::string_view name) {
  for (const DecoderSize& size : kGptSizes)
    if (size.name == name)
      return {.layers = size.layers, .hidden = size.hidden, .heads = size.heads, .dtype = f16};
  FAIL("no size ", name);
  return {};
}

/// Layout of the kernel of a layer of the middle block.
std::string spec_of(const CompiledStep& planned, const std::string& layer) {
  const std::string name = "blocks.1." + layer + ".kernel";
  for (const Input& input : planned.graph.inputs)
    if (input.name == name) return to_string(planned.plan.sharding().specs[input.value]);
  return "no " + name;
}

}  // namespace

TEST_CASE("parameters and FLOPs of every GPT are those of Alpa's formulas") {
  // alpa/benchmark/alpa/util.py, and the sizes of its README.
  struct Published {
    const char* name;
    double parameters, petaflops;  ///< of a step of 1024 sequences, without rematerialisation
  };
  for (const Published& p :
       {Published{"125M", 124408832, 0.9005}, Published{"350M", 354740224, 2.546469},
        Published{"760M", 758577152, 5.24467}, Published{"1.3B", 1313409024, 8.89285},
        Published{"2.6B", 2648606720, 17.71313}, Published{"6.7B", 6653659136, 43.54066},
        Published{"15B", 15364392960, 99.81367}, Published{"39B", 39078512640, 250.8998},
        Published{"76B", 76028569600, 486.204}}) {
    CAPTURE(std::string(p.name));
    const Graph graph = step_of(of_size(p.name)).trace(1);
    // The formula leaves out the positions and the norm before the head, and counts one bias for
    // queries, keys and values together.
    const DecoderOptions options = of_size(p.name);
    const std::int64_t left_out = options.hidden * (options.sequence + 2 + 2 * options.layers);
    CHECK(static_cast<double>(parameter_count(graph) - left_out) == p.parameters);
    const double step = 3 * product_flops(graph, Region::forward) * 1024 / kBatch;
    CHECK(std::abs(step / (p.petaflops * 1e15) - 1) < 2e-6);
    // Computing blocks again takes 24·B·S·H²·(1 + S / 6H) per block in Alpa; here without the last
    // product, 8·B·S·H², whose result no gradient needs.
    DecoderOptions again = options;
    again.remat = true;
    const double hidden = static_cast<double>(options.hidden), sequence = 1024;
    const double block = kBatch * sequence * hidden * hidden * (24 + 4 * sequence / hidden - 8);
    const double more = product_flops(step_of(again).trace(1), Region::backward) -
                        product_flops(graph, Region::backward);
    CHECK(std::abs(more / (block * static_cast<double>(options.layers)) - 1) < 1e-9);
  }
}

TEST_CASE("a decoder is split as Megatron-LM splits it, where tokens are few") {
  const DecoderOptions options{
      .layers = 3, .hidden = 512, .heads = 8, .sequence = 128, .vocabulary = 512};
  ShardParallel method;
  method.mesh_shape = {4};
  const CompiledStep planned = plan_only(step_of(options), method, Cluster::local(4, "cpu"));
  CHECK(planned.plan.cost.gap() == 0);
  for (const char* by_columns :
       {"attention.query", "attention.key", "attention.value", "feed_forward.up"})
    CHECK(spec_of(planned, by_columns) == "S1@0");
  for (const char* by_rows : {"attention.projection", "feed_forward.down"})
    CHECK(spec_of(planned, by_rows) == "S0@0");
}

TEST_CASE("a layer keeps fewer bytes for backward than Megatron-LM's formula says") {
  // 34 bytes per token and feature in half precision, without attention's squares (Korthikanti et
  // al. 2022). Ours: 32, and in f32 a number per token and head and four per token.
  constexpr std::int64_t kTokens = 128, kHidden = 64, kHeads = 4;
  const auto bytes = [](std::int64_t layers, std::int64_t batch) {
    const DecoderOptions options{.layers = layers,
                                 .hidden = kHidden,
                                 .heads = kHeads,
                                 .sequence = kTokens,
                                 .vocabulary = 32,
                                 .dropout = 0.1};
    const TensorType tokens{i32, {batch, options.sequence}};
    const TrainingStep step = training_step({{"tokens", tokens}, {"labels", tokens}},
                                            [decoder = Decoder(options)](const Batch& b) {
                                              return decoder.loss(b["tokens"], b["labels"]);
                                            },
                                            optim::Adam{}, {.precision = bf16_mixed});
    return plan_only(step, Serial{}, Cluster::local(1, "cpu")).memory_bytes;
  };
  const std::int64_t of_four_layers = (bytes(7, 8) - bytes(7, 4)) - (bytes(3, 8) - bytes(3, 4));
  CHECK(of_four_layers == 4 * 4 * kTokens * (32 * kHidden + 4 * kHeads + 16));
}

TEST_CASE("a Llama has the parameters of its layers") {
  DecoderOptions options{.kind = DecoderKind::llama,
                         .layers = 3,
                         .hidden = 24,
                         .heads = 6,
                         .key_heads = 2,
                         .sequence = 8,
                         .vocabulary = 50,
                         .feed_forward = 40};
  const std::int64_t block = 24 * 24 + 2 * (24 * 8) + 24 * 24 + 3 * 24 * 40 + 2 * 24;
  CHECK(parameter_count(step_of(options).trace(1)) == 3 * block + 24 + 50 * 24);
}

TEST_CASE("Llama's sizes have the published parameters, and FLOPs of their products") {
  const std::map<std::string_view, std::int64_t> published{
      {"7B", 6738415616}, {"13B", 13015864320}, {"33B", 32528943616},  {"65B", 65285660672},
      {"8B", 8030261248}, {"70B", 70553706496}, {"405B", 405853388800}};  // the last: model cards
  for (const DecoderSize& size : kLlamaSizes) {
    CAPTURE(size.name);
    const Graph graph = step_of({.kind = DecoderKind::llama,
                                 .layers = size.layers,
                                 .hidden = size.hidden,
                                 .heads = size.heads,
                                 .key_heads = size.key_heads,
                                 .vocabulary = size.vocabulary > 0 ? size.vocabulary : 32000,
                                 .feed_forward = size.feed_forward,
                                 .tied_head = false,
                                 .dtype = f16})
                            .trace(1);
    CHECK(parameter_count(graph) == published.at(size.name));
    const auto L = double(size.layers), C = double(size.hidden), T = 1024.0,
               shared = size.key_heads > 0 ? double(size.key_heads) / double(size.heads) : 1,
               vocabulary = size.vocabulary > 0 ? double(size.vocabulary) : 32000,
               weights =
                   L * C * ((2 + 2 * shared) * C + 3 * double(size.feed_forward)) + vocabulary * C;
    CHECK(product_flops(graph, Region::forward) ==
          doctest::Approx(2 * kBatch * T * weights + L * 4 * kBatch * T * T * C).epsilon(1e-12));
  }
}

TEST_CASE("generation with a cache gives the likeliest tokens of the whole sequence") {
  for (DecoderKind kind : {DecoderKind::gpt, DecoderKind::llama}) {
    const DecoderOptions options{.kind = kind,
                                 .layers = 2,
                                 .hidden = 12,
                                 .heads = 3,
                                 .key_heads = kind == DecoderKind::llama ? 1 : 0,
                                 .sequence = 7,
                                 .vocabulary = 11};
    if (kind == DecoderKind::llama) CHECK(options.hidden / options.heads == 4);
    const Decoder decoder(options);
    const TrainingStep whole = prediction_step(
        {{"tokens", {i32, {1, 7}}}}, [=](const Batch& b) { return decoder(b["tokens"]); });
    const Executable executable = parallelize(whole, Serial{}, Cluster::local(1));
    TrainState state = executable.init(5);
    // Larger weights, so that the likeliest token is no tie.
    state["tokens.table"] = Array(std::vector<float>([] {
                                    std::vector<float> table(11 * 12);
                                    for (std::size_t i = 0; i < table.size(); ++i)
                                      table[i] = std::sin(3.7F * static_cast<float>(i));
                                    return table;
                                  }()),
                                  {11, 12});
    const Generator generator(decoder, executable, {.length = 7, .chunk = 2});
    const TokenIds prompt{3, 1, 4};
    const TokenIds generated =
        generate(generator, state, {prompt}, {.count = 4, .temperature = 0})[0];
    TokenIds tokens = prompt;
    for (std::size_t i = 0; i < generated.size(); ++i) {
      TokenIds padded = tokens;
      padded.resize(7, 0);
      const Array logits =
          executable.run(state, {{"tokens", Array(padded, {1, 7})}}).outputs["prediction"];
      const auto row = logits.elements_as<float>().subspan((tokens.size() - 1) * 11, 11);
      const auto likeliest = std::max_element(row.begin(), row.end()) - row.begin();
      CHECK(generated[i] == likeliest);
      tokens.push_back(static_cast<std::int32_t>(likeliest));
    }
  }
}

}  // namespace decoder_test
