// A layer inserted into a model whose weights were saved: they land where they belong.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include <optional>

#include "support/error_text.h"
#include "support/temporary_file.h"

namespace inserted_layer_test {

using namespace alpa;
using namespace alpa::testing;
using Names = std::vector<std::string>;

namespace {

constexpr std::int64_t kTokens = 4, kWords = 11, kWidth = 8;

/// A block of a GPT; with an adapter of another width, as somebody adds one later.
struct Block {
  nn::LayerNorm first{{.name = "attention_norm"}}, second{{.name = "feed_forward_norm"}};
  nn::SelfAttention attention{kWidth, 2, {.name = "attention"}};
  nn::Dense up{4 * kWidth, {.name = "up"}}, down{kWidth, {.name = "down"}};
  std::optional<nn::Dense> adapter;

  Value operator()(Value x) const {
    x = x + attention(first(x));
    if (adapter) x = x + (*adapter)(x);
    return x + down(gelu(up(second(x))));
  }
};

struct Gpt {
  nn::Embedding tokens{kWords, kWidth, {.name = "tokens"}};
  nn::Embedding positions{kTokens, kWidth, {.name = "positions"}};
  std::vector<Block> blocks = std::vector<Block>(2);
  std::optional<nn::LayerNorm> embedding_norm;
  nn::LayerNorm norm{{.name = "norm"}};

  Value operator()(Value ids) const {
    Value x = tokens(ids) + positions(iota(ids, {i32, {ids.dim(1)}}));
    if (embedding_norm) x = (*embedding_norm)(x);
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      const nn::Scope in(x, "blocks", i);
      x = blocks[i](x);
    }
    return einsum("btc,vc->btv", norm(x), tokens.table(*x.builder));
  }
};

Executable executable(const Gpt& model, int devices) {
  const TensorType ids{i32, {2, kTokens}};
  return parallelize(
      training_step(
          {{"tokens", ids}, {"labels", ids}},
          [model](const Batch& b) { return nn::cross_entropy(model(b["tokens"]), b["labels"]); },
          optim::Adam{}),
      ShardParallel{}, Cluster::local(devices));
}

Gpt with_new_layers() {
  Gpt model;
  model.blocks[0].adapter.emplace(kWidth, nn::DenseOptions{.name = "adapter"});
  model.embedding_norm.emplace(nn::NormOptions{.name = "embedding_norm"});
  return model;
}

}  // namespace

TEST_CASE("old weights load into a GPT with new layers, which are named as missing") {
  const TemporaryFile file("inserted.safetensors", "");
  const TrainState saved = executable(Gpt(), 1).init(1);
  save_weights(saved, file.path());
  TrainState state = executable(with_new_layers(), 2).init(2);
  const std::string adapter = to_string(state["blocks.0.adapter.kernel"].to_host());
  const LoadedWeights loaded = load_weights(state, file.path(), LoadOptions{.partial = true});
  CHECK(loaded.unexpected.empty());
  CHECK(loaded.missing == Names{"embedding_norm.scale", "embedding_norm.bias",
                                "blocks.0.adapter.kernel", "blocks.0.adapter.bias"});
  CHECK(saved.parameters().size() == 4 + 2 * 16);
  for (const DistributedArray& parameter : saved.parameters())
    CHECK(to_string(state[parameter.name()].to_host()) == to_string(parameter.to_host()));
  CHECK(to_string(state["blocks.0.adapter.kernel"].to_host()) == adapter);
}

TEST_CASE("without that option both sides are named, and nothing changes") {
  const TemporaryFile file("strict.safetensors", "");
  save_weights(executable(with_new_layers(), 1).init(1), file.path());
  TrainState state = executable(Gpt(), 1).init(2);
  const std::string before = to_string(state["tokens.table"].to_host());
  const std::string names =
      "strict.safetensors: its names are not the model's. The model wants none, which the file "
      "lacks; the file has \"blocks.0.adapter.bias\", \"blocks.0.adapter.kernel\", "
      "\"embedding_norm.bias\", \"embedding_norm.scale\", which the model lacks. Give a WeightMap";
  CHECK(error_of([&] { load_weights(state, file.path()); }) ==
        names + ", or LoadOptions{.partial = true} to load what both have");
  CHECK(to_string(state["tokens.table"].to_host()) == before);
  CHECK(load_weights(state, file.path(), LoadOptions{.partial = true}).unexpected.size() == 4);
}

TEST_CASE("a file with nothing in common is refused, with its names, even in part") {
  const TemporaryFile file("counters.safetensors", "");
  write_safetensors(file.path(), {{"dense0.kernel", Array(TensorType{f32, {4, 2}})}});
  const TrainingStep step = training_step(
      {{"x", {f32, {2, 4}}}},
      [](const Batch& b) { return mean(nn::Dense(2, {.bias = false, .name = "head"})(b["x"])); },
      optim::Sgd{});
  TrainState state = parallelize(step, Serial{}, Cluster::local(1)).init(0);
  CHECK(error_of([&] { load_weights(state, file.path(), LoadOptions{.partial = true}); }) ==
        "counters.safetensors: its names are not the model's. The model wants \"head.kernel\", "
        "which the file lacks; the file has \"dense0.kernel\", which the model lacks. Give a "
        "WeightMap");
}

}  // namespace inserted_layer_test
