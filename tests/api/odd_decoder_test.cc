// A decoder unlike other graphs of the tests: 3 heads, RMS norm, a gated MLP of 77, a
// tied embedding of 53 rows, a causal mask and a temperature beside the batch; as a
// user runs it, with defaults.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include <cmath>

namespace odd_decoder_test {

using namespace alpa;

namespace {

constexpr std::int64_t kRows = 12, kTokens = 7, kHeads = 3, kWidth = 30, kVocabulary = 53;

struct RmsNorm {
  nn::LayerId id;
  Value operator()(Value x) const {
    const nn::Scope in(x, id, "norm");
    return x * rsqrt(mean(square(x), {-1}, true) + 1e-5) * in.parameter("gain", {x.dim(-1)}, ones);
  }
};

struct Block {
  nn::Dense query{kWidth}, key{kWidth}, value{kWidth}, out{kWidth}, up{77}, gate{77}, down{kWidth};
  RmsNorm before_attention, before_mlp;

  Value operator()(Value x, Value mask) const {
    const Shape heads{x.dim(0), kTokens, kHeads, kWidth / kHeads};
    const Value h = before_attention(x);
    const Value q = reshape(query(h), heads), k = reshape(key(h), heads),
                v = reshape(value(h), heads);
    const Value scores = einsum("bihk,bjhk->bhij", q, k) / std::sqrt(kWidth / kHeads) + mask;
    const Value mixed = einsum("bhij,bjhd->bihd", softmax(scores), v);
    x = x + out(reshape(mixed, x.shape()));
    const Value m = before_mlp(x), wide = up(m), open = sigmoid(gate(m));
    return x + down(wide * open);
  }
};

const nn::Embedding table(kVocabulary, kWidth);
const Block blocks[2];
const RmsNorm last;

const std::vector<BatchInput> inputs{{"ids", {i32, {kRows, kTokens}}},
                                     {"labels", {i32, {kRows, kTokens}}},
                                     {"mask", {f32, {kTokens, kTokens}}, /*batched=*/false},
                                     {"temperature", {f32, {}}, /*batched=*/false}};

LossAndMetrics decoder(const Batch& b) {
  Value x = table(b["ids"]);
  x = blocks[0](x, b["mask"]);
  x = blocks[1](mark_pipeline_boundary(x), b["mask"]);
  const Value logits = einsum("btc,vc->btv", last(x), table.table(b.builder())) / b["temperature"];
  return nn::cross_entropy(logits, b["labels"]);
}

std::map<std::string, Array> batch(std::int64_t rows, int n) {
  std::vector<std::int32_t> ids, labels;
  for (int i = 0; i < static_cast<int>(rows * kTokens); ++i) {
    ids.push_back((i * 7 + n * 3) % kVocabulary);
    labels.push_back((i * 5 + n) % kVocabulary);
  }
  std::vector<float> mask;
  for (int row = 0; row < kTokens; ++row)
    for (int column = 0; column < kTokens; ++column) mask.push_back(column > row ? -1e9F : 0);
  return {{"ids", Array(ids, {rows, kTokens})},
          {"labels", Array(labels, {rows, kTokens})},
          {"mask", Array(mask, {kTokens, kTokens})},
          {"temperature", 0.9}};
}

/// Losses of three training steps, one of them on 5 rows, and of evaluation on 12 and on 7 rows.
std::vector<double> losses(const Method& method, int devices) {
  const TrainingStep step = training_step(inputs, decoder, optim::Adam{}, {.clip_global_norm = 1});
  auto [train, evaluate] =
      parallelize(step, evaluation_step(inputs, decoder), method, Cluster::local(devices));
  TrainState state = train.init(1);
  std::vector<double> losses;
  for (const std::int64_t rows : {kRows, std::int64_t{5}, kRows})
    losses.push_back(train.run(state, batch(rows, static_cast<int>(losses.size()))).loss());
  for (const std::int64_t rows : {kRows, std::int64_t{7}})
    losses.push_back(evaluate.run(state, batch(rows, 9)).loss());
  CHECK(train.measured_bytes(state) == train.memory_bytes());
  return losses;
}

}  // namespace

TEST_CASE("an odd decoder trains and evaluates, on whole and short batches, as on one device") {
  const std::vector<double> serial = losses(Serial{}, 1);
  const auto check = [&](const Method& method, int devices) {
    const std::vector<double> here = losses(method, devices);
    REQUIRE(here.size() == serial.size());
    for (std::size_t i = 0; i < here.size(); ++i)
      CHECK(here[i] == doctest::Approx(serial[i]).epsilon(1e-5));
  };
  check(ShardParallel{.num_micro_batches = 3}, 4);
  check(ShardParallel{.shard_optimizer_state = true}, 3);
  check(PipeshardParallel{.num_micro_batches = 3}, 4);
  check(PipeshardParallel{.layers = AutoLayers{3}}, 6);
}

}  // namespace odd_decoder_test
