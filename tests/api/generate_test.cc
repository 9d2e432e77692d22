// Text from a decoder: what the cache gives against the whole sequence, along plans of training.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "support/error_text.h"
#include "support/processes.h"

namespace generate_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

constexpr std::int64_t kVocabulary = 19, kLength = 24;

/// Two layers of attention, with rotary positions and grouped queries.
struct TinyDecoder {
  std::int64_t width = 16;
  nn::Embedding tokens{kVocabulary, width, {.name = "tokens"}};
  nn::SelfAttention first{width, 4, {.key_heads = 2, .rotary = RotaryOptions{}, .name = "first"}},
      second{width, 4, {.name = "second"}};
  nn::RMSNorm norm{{.name = "norm"}};
  nn::Dense head{kVocabulary, {.kernel = Initializer::normal(0, 1), .name = "head"}};

  Value operator()(Value ids) const {
    Value x = tokens(ids);
    x = x + first(x);
    x = mark_pipeline_boundary(x);
    return head(norm(nn::needed_tokens(x + second(x))));
  }
};

TrainingStep training(const TinyDecoder& decoder) {
  return training_step(
      {{"ids", {i32, {4, 8}}}, {"labels", {i32, {4, 8}}}},
      [=](const Batch& b) { return nn::cross_entropy(decoder(b["ids"]), b["labels"]); },
      optim::Adam{.learning_rate = 0.01});
}

BatchData examples() {
  TokenIds ids;
  for (int i = 0; i < 32; ++i) ids.push_back(i * i % kVocabulary);
  TokenIds labels(ids.begin() + 1, ids.end());
  labels.push_back(0);
  return {{"ids", Array(ids, {4, 8})}, {"labels", Array(labels, {4, 8})}};
}

const std::vector<TokenIds> kPrompts{{3, 1, 4, 1, 5}, {9}, {2, 6}, {5, 3, 5, 8, 9, 7, 9, 3, 2}};

/// The likeliest tokens by the logits of whole sequences on one device.
std::vector<TokenIds> likeliest(const nn::Layer& decoder, const TrainState& trained,
                                std::int64_t count) {
  const Executable whole =
      parallelize(prediction_step({{"ids", {i32, {1, kLength}}}},
                                  [=](const Batch& b) { return decoder(b["ids"]); }),
                  Serial{}, Cluster::local(1));
  TrainState state = whole.init(0);
  state.copy_from(trained);
  std::vector<TokenIds> found;
  for (TokenIds tokens : kPrompts) {
    const std::size_t given = tokens.size();
    while (std::ssize(tokens) < std::ssize(kPrompts[found.size()]) + count) {
      TokenIds padded = tokens;
      padded.resize(kLength, 0);
      const Array logits =
          whole.run(state, {{"ids", Array(padded, {1, kLength})}}).outputs["prediction"];
      const auto row =
          logits.elements_as<float>().subspan((tokens.size() - 1) * kVocabulary, kVocabulary);
      tokens.push_back(
          static_cast<std::int32_t>(std::max_element(row.begin(), row.end()) - row.begin()));
    }
    found.emplace_back(tokens.begin() + static_cast<std::ptrdiff_t>(given), tokens.end());
  }
  return found;
}

/// Methods whose layouts differ, and numbers of devices.
const std::vector<std::pair<int, Method>>& methods() {
  static const std::vector<std::pair<int, Method>> methods{
      {1, Serial{}},
      {2, DataParallel{.num_micro_batches = 2}},
      {4, Zero3Parallel{}},
      {4, ShardParallel{.mesh_shape = {2, 2}}},
      {2, PipeshardParallel{.num_micro_batches = 2, .stages = UniformStages{2}}}};
  return methods;
}

}  // namespace

TEST_CASE("along every plan of training, generation gives the likeliest tokens of the sequence") {
  const TinyDecoder decoder;
  for (const auto& [devices, method] : methods()) {
    CAPTURE(devices);
    const Executable train = parallelize(training(decoder), method, Cluster::local(devices));
    const Generator generator(decoder, train, {.rows = 3, .length = kLength, .chunk = 4});
    TrainState state = train.init(5);
    for (int turn = 0; turn < 2; ++turn) {  // training goes on between texts
      train.run(state, examples());
      CHECK(generate(generator, state, kPrompts, {.count = 7, .temperature = 0}) ==
            likeliest(decoder, state, 7));
    }
  }
}

TEST_CASE("a Sequential writes text, its attention in residual and rematerialised layers") {
  const auto attention = [] { return nn::SelfAttention(16, 4, {.rotary = RotaryOptions{}}); };
  const nn::Sequential decoder{nn::Embedding(kVocabulary, 16),
                               nn::Residual(nn::Sequential{nn::RMSNorm(), attention()}),
                               nn::remat(nn::Residual(attention())), nn::needed_tokens,
                               nn::Dense(kVocabulary, {.kernel = Initializer::normal(0, 1)})};
  const Generator generator(decoder, ShardParallel{}, Cluster::local(2),
                            {.rows = 3, .length = kLength, .chunk = 4});
  TrainState state = generator.init(3);
  CHECK(generate(generator, state, kPrompts, {.count = 7, .temperature = 0}) ==
        likeliest(decoder, state, 7));
}

TEST_CASE("a generator that is made later works on the states that exist") {
  const TinyDecoder decoder;
  const Executable train = parallelize(training(decoder), DataParallel{}, Cluster::local(2));
  TrainState state = train.init(5);
  train.run(state, examples());
  // Larger caches than all that the training needs.
  const Generator generator(decoder, train, {.rows = 40, .length = 300, .chunk = 2});
  CHECK(generator.tokens().memory_bytes() > train.memory_bytes());
  CHECK(generate(generator, state, kPrompts, {.count = 7, .temperature = 0}) ==
        likeliest(decoder, state, 7));
  train.run(state, examples());
  CHECK(state.step() == 2);
}

TEST_CASE("heads, their caches and their parameters are split as the training splits them") {
  const TinyDecoder decoder{.width = 256};
  const Executable train =
      parallelize(training(decoder), ShardParallel{.mesh_shape = {2}}, Cluster::local(2));
  const Generator generator(decoder, train, {.rows = 2, .length = kLength});
  for (const Executable* made : {&generator.prompts(), &generator.tokens()}) {
    for (const std::string& name : parameter_names(made->graph()))
      CHECK(made->sharding_of(name) == train.sharding_of(name));
    for (const char* name : {"cache.0.keys", "cache.0.values", "cache.1.keys", "cache.1.values"})
      CHECK(to_string(made->sharding_of(name)) == "S2@0");
  }
  TrainState state = train.init(5);
  train.run(state, examples());
  CHECK(generate(generator, state, kPrompts, {.count = 7, .temperature = 0}) ==
        likeliest(decoder, state, 7));
}

TEST_CASE("with a plan of its own, four devices write what one writes") {
  const TinyDecoder decoder;
  std::vector<std::vector<TokenIds>> texts;
  for (const int devices : {1, 4}) {
    const Generator generator(decoder, ShardParallel{}, Cluster::local(devices),
                              {.rows = 4, .length = kLength, .chunk = 6});
    TrainState state = generator.init(3);
    texts.push_back(
        generate(generator, state, kPrompts,
                 {.count = 9, .temperature = 0.9, .top_k = 9, .top_p = 0.9, .seed = 8}));
    CHECK(generate(generator, state, kPrompts, {.count = 3, .temperature = 0}) ==
          likeliest(decoder, state, 3));
  }
  CHECK(texts[0] == texts[1]);
}

TEST_CASE("a text depends neither on the other prompts nor on how many are continued at once") {
  const TinyDecoder decoder;
  std::vector<std::vector<TokenIds>> texts;
  for (const std::int64_t rows : {1, 3, 8}) {
    const Generator generator(decoder, Serial{}, Cluster::local(1),
                              {.rows = rows, .length = kLength, .chunk = rows});
    TrainState state = generator.init(3);
    texts.push_back(generate(generator, state, kPrompts, {.count = 9, .seed = 8}));
  }
  CHECK(texts[0] == texts[1]);
  CHECK(texts[0] == texts[2]);
  CHECK(texts[0][0] != texts[0][1]);
}

TEST_CASE("texts end before a stop token, and tokens are told as they come") {
  const TinyDecoder decoder;
  const Generator generator(decoder, Serial{}, Cluster::local(1), {.rows = 4, .length = kLength});
  TrainState state = generator.init(3);
  const std::vector<TokenIds> whole =
      generate(generator, state, kPrompts, {.count = 12, .seed = 2});
  const std::int32_t stop = whole[0][5];
  std::vector<TokenIds> told(kPrompts.size());
  const std::vector<TokenIds> texts = generate(
      generator, state, kPrompts,
      {.count = 12, .seed = 2, .stop = {stop}, .on_token = [&](std::size_t i, std::int32_t t) {
         told[i].push_back(t);
       }});
  CHECK(told == texts);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    TokenIds expected = whole[i];
    expected.erase(std::find(expected.begin(), expected.end(), stop), expected.end());
    CHECK(texts[i] == expected);
  }
  CHECK(texts[0].size() <= 5);
}

TEST_CASE("sampling takes the likeliest tokens in proportion to their probabilities") {
  const std::vector<float> logits{0, std::log(3.0F), -1, std::log(6.0F)};
  CHECK(sample(logits, {.temperature = 0}, 0.99) == 3);
  // The two likeliest have probabilities 2/3 and 1/3.
  CHECK(sample(logits, {.top_k = 2}, 0.66) == 3);
  CHECK(sample(logits, {.top_k = 2}, 0.67) == 1);
  // At temperature 1/2 they are squared: 4/5 and 1/5.
  CHECK(sample(logits, {.temperature = 0.5, .top_k = 2}, 0.79) == 3);
  CHECK(sample(logits, {.temperature = 0.5, .top_k = 2}, 0.81) == 1);
  // Of all, the sum is 10.37: 3 has 0.579, with 1 it is 0.868.
  CHECK(sample(logits, {.top_p = 0.57}, 0.99) == 3);
  CHECK(sample(logits, {.top_p = 0.59}, 0.99) == 1);
  CHECK(sample(logits, {.top_p = 0.59}, 0.66) == 3);
  // Of two, 3 has 2/3.
  CHECK(sample(logits, {.top_k = 2, .top_p = 0.66}, 0.99) == 3);
  CHECK(sample(logits, {.top_k = 2, .top_p = 0.67}, 0.99) == 1);
  // All, in their order: 0 has 0.096, with 1 it is 0.386.
  CHECK(sample(logits, {}, 0.09) == 0);
  CHECK(sample(logits, {}, 0.38) == 1);
  CHECK(sample(logits, {}, 0.999) == 3);
}

TEST_CASE("processes that would draw text by other options end, and name both") {
  const TinyDecoder decoder;
  const std::vector<std::string> errors = run_processes(2, [&](int rank) {
    const Generator generator(decoder, DataParallel{}, Cluster::local(2),
                              {.rows = 2, .length = kLength, .chunk = 4});
    TrainState state = generator.init(1);
    generate(generator, state, kPrompts, {.count = 2, .seed = 8});
    generate(generator, state, kPrompts,
             {.count = 1, .temperature = rank == 0 ? 0.5 : 0.25, .top_k = 3, .stop = {1, 2}});
    processes::world()->leave();  // what they called is compared by then
  });
  const std::string call = "generate 1 tokens behind 4 prompts at temperature ",
                    behind = ", top_k 3, top_p 1, seed 0, vocabulary 0, stop at [1, 2]";
  for (const std::string& error : errors)
    CHECK_MESSAGE(error.find(" of rank 0 is " + call + "0.5" + behind + ", that of rank 1 is " +
                             call + "0.25" + behind +
                             "; every process must run the same program "
                             "with the same flags and data") != std::string::npos,
                  error);
}

TEST_CASE("what can't be generated is an error that says why") {
  const TinyDecoder decoder;
  const auto made = [&](const nn::Layer& model, const GeneratorOptions& options) {
    return error_of([&] { Generator(model, Serial{}, Cluster::local(1), options); });
  };
  CHECK(made(decoder, {.rows = 0}) ==
        "generate: rows, length and chunk must be at least 1, not 0, 1024 and 64");
  CHECK(made([&](Value ids) { return decoder.head(decoder.tokens(ids)); }, {}) ==
        "generate: no layer of the decoder attends to the cache");
  CHECK(made([&](Value ids) { return sum(decoder(ids), {2}); }, {.length = 8}) ==
        "generate: the decoder gives f32[1, 1]; logits must be [1, 8, V] or [1, 1, V]");
  const nn::SelfAttention both(decoder.width, 4, {.causal = false});
  CHECK(made([&](Value ids) { return both(decoder.tokens(ids)); }, {}) ==
        "nn::SelfAttention: a cache holds earlier tokens, but the layer sees later ones, too; make "
        "it causal");
  const auto masked = [&](Value ids) {
    return decoder.second(decoder.tokens(ids), constant(ids, 1, u8, ids.shape()));
  };
  CHECK(made(masked, {}) ==
        "nn::SelfAttention: a cache has no padding; call it without a key mask");
  const Generator generator(decoder, Serial{}, Cluster::local(1), {.length = 8});
  TrainState state = generator.init(0);
  const auto generated = [&](const std::vector<TokenIds>& prompts, const SamplingOptions& options) {
    return error_of([&] { generate(generator, state, prompts, options); });
  };
  CHECK(generated({{1}, {}}, {.count = 2}) ==
        "generate: prompt 1 is empty; give at least one token");
  CHECK(generated({{1, 2, 3}}, {.count = 7}) ==
        "generate: prompt 0 has 3 tokens; with 7 more they exceed the length of 8");
  CHECK(generated({{1, 2, -3}}, {.count = 1}) ==
        "generate: prompt 0 has token -3; tokens are 0 or more");
  CHECK(generated({{19}}, {.count = 1, .vocabulary = 19}) ==
        "generate: prompt 0 has token 19, which is not in the vocabulary of 19");
  CHECK(generated({{1}}, {.count = -1}) == "generate: count is -1; it must be 0 or more");
  CHECK(generated({{1}}, {.temperature = -1}) ==
        "generate: temperature is -1; it must be 0 or more");
  CHECK(generated({{1}}, {.top_k = -1}) ==
        "generate: top_k is -1; it must be 0, for all tokens, or more");
  CHECK(generated({{1}}, {.top_p = 0}) == "generate: top_p is 0; it must be above 0 and at most 1");
}

}  // namespace generate_test
