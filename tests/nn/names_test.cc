// Names of parameters: paths through the model's structure, which edits elsewhere do not change.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include <algorithm>

#include "support/error_text.h"

namespace names_test {

using namespace alpa;
using alpa::testing::error_of;
using Names = std::vector<std::string>;

namespace {

TrainingStep step_of(const nn::Layer& model, StepOptions options = {}) {
  return training_step(
      {{"x", {f32, {8, 6}}}}, [model](const Batch& b) { return mean(square(model(b["x"]))); },
      optim::Sgd{}, std::move(options));
}

/// Names of the kernels and tables of a model, without "kernel" and "table".
Names layers_of(const nn::Layer& model) {
  Names names;
  for (const std::string& name : parameter_names(step_of(model).trace(1)))
    if (!name.ends_with(".bias")) names.push_back(name.substr(0, name.rfind('.')));
  return names;
}

nn::Dense dense(std::string name = "") { return nn::Dense(6, {.name = std::move(name)}); }

/// x + down(relu(up(x))), which names its members.
struct Block {
  nn::Dense up = dense("up"), down = dense("down");
  Value operator()(Value x) const { return x + down(relu(up(x))); }
};

/// Blocks in a list, and what is around them.
struct Network {
  std::vector<Block> blocks = std::vector<Block>(2);
  std::vector<nn::Layer> before = {}, within = {}, behind = {};
  nn::Dense head = dense("head");

  Value operator()(Value x) const {
    for (const nn::Layer& layer : before) x = layer(x);
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      const nn::Scope in(x, "blocks", i);
      for (const nn::Layer& layer : within) x = layer(x);
      x = blocks[i](x);
    }
    for (const nn::Layer& layer : behind) x = layer(x);
    return head(x);
  }
};

const Names kBlocks{"blocks.0.up", "blocks.0.down", "blocks.1.up", "blocks.1.down"};

/// `names` without those that contain `part`.
Names without(Names names, const std::string& part) {
  std::erase_if(names, [&](const std::string& n) { return n.find(part) != n.npos; });
  return names;
}

Names with_head(Names names) {
  names.push_back("head");
  return names;
}

}  // namespace

TEST_CASE("a layer is called by the scopes around it and its own name") {
  CHECK(layers_of(Network()) == with_head(kBlocks));
  CHECK(layers_of([](Value x) {
          const nn::Scope outer(x, "encoder");
          const nn::Scope inner(x, "deep.3");
          return dense("feed_forward.up")(x);
        }) == Names{"encoder.deep.3.feed_forward.up"});
}

TEST_CASE("layers inserted before, between, within or behind leave all other names as they were") {
  const Names names = layers_of(Network());
  const nn::Dense one = dense("new"), two = dense("new");
  CHECK(without(layers_of(Network{.before = {one}}), "new") == names);
  CHECK(without(layers_of(Network{.before = {dense()}}), "dense") == names);
  CHECK(without(layers_of(Network{.behind = {nn::Sequential{dense(), dense()}}}), ".") ==
        Names{"0", "1", "head"});
  CHECK(without(layers_of(Network{.behind = {nn::Sequential({dense()}, {.name = "new"})}}),
                "new") == names);
  CHECK(without(layers_of(Network{.within = {nn::Layer(
                                      "new", [](Value x) { return nn::Dense(6)(dense()(x)); })}}),
                "new") == names);
  CHECK(layers_of(Network{.blocks = std::vector<Block>(1)}) ==
        Names{"blocks.0.up", "blocks.0.down", "head"});
  CHECK(
      without(layers_of(Network{.before = {one}, .behind = {nn::Layer("tail", dense())}}), "new") ==
      Names{"blocks.0.up", "blocks.0.down", "blocks.1.up", "blocks.1.down", "tail", "head"});
}

TEST_CASE("a layer of a Sequential is called by its own name, or by its position") {
  const nn::Dense named = dense("in");
  CHECK(layers_of(nn::Sequential{named, nn::ReLU(), dense(), dense()}) == Names{"in", "2", "3"});
  CHECK(layers_of(nn::Sequential{{"stem", dense()}, {"rest", Block()}, dense("out")}) ==
        Names{"stem", "rest.up", "rest.down", "out"});
  // A callable without a LayerId is a scope.
  CHECK(layers_of(nn::Sequential{Block(), [](Value x) { return dense()(dense()(x)); }}) ==
        Names{"0.up", "0.down", "1.dense0", "1.dense1"});
  // Wrappers have the name of what they wrap.
  CHECK(layers_of(nn::Sequential{nn::Residual(dense()), nn::remat(dense()), nn::remat(Block()),
                                 nn::Sequential{dense(), nn::Residual(nn::Sequential{dense()})}}) ==
        Names{"0", "1", "2.up", "2.down", "3.0", "3.1.0"});
}

TEST_CASE("counters number unnamed siblings of one kind and parent alone") {
  CHECK(layers_of([](Value x) {
          {
            const nn::Scope in(x, "left");
            x = nn::LayerNorm()(dense()(dense()(x)));
          }
          const nn::Scope in(x, "right");
          return dense()(x);
        }) == Names{"left.dense0", "left.dense1", "left.layer_norm0", "right.dense0"});
  const nn::Sequential one{dense()}, two{dense()};
  CHECK(layers_of([=](Value x) { return two(one(x)); }) == Names{"0", "sequential1.0"});
}

TEST_CASE("tied weights have the path of their first use") {
  const nn::Embedding table(5, 4, {.name = "tokens"});
  const nn::Dense shared(6);
  const Graph graph = training_step(
                          {{"ids", {i32, {8, 3}}}},
                          [=](const Batch& b) {
                            const Value x = table(b["ids"]);
                            const nn::Scope in(x, "head");
                            return mean(square(einsum("btc,vc->btv", x, table.table(*x.builder))));
                          },
                          optim::Sgd{})
                          .trace(1);
  CHECK(parameter_names(graph) == Names{"tokens.table"});
  CHECK(layers_of(nn::Sequential{shared, nn::Tanh(), shared}) == Names{"0"});
}

TEST_CASE("all layers of nn take a name") {
  const nn::Sequential images{nn::Conv2d(4, {3, 3}, {.name = "conv"}),
                              nn::BatchNorm({.name = "batch"}), nn::Flatten()};
  const TrainingStep step = training_step(
      {{"ids", {i32, {8, 4}}}, {"images", {f32, {8, 6, 6, 3}}}},
      [=](const Batch& b) {
        Value x = nn::Embedding(5, 8, {.name = "tokens"})(b["ids"]);
        x = nn::SelfAttention(8, 2, {.bias = false, .name = "attention"})(x);
        x = nn::SwiGLU(8, 4, {.name = "gated"})(nn::RMSNorm({.name = "rms"})(x));
        x = nn::MoE(2, 4, {.name = "experts"})(nn::LayerNorm({.name = "norm"})(x)).y;
        return mean(square(x)) + mean(square(images(b["images"])));
      },
      optim::Sgd{});
  Names names = parameter_names(step.trace(1));
  std::sort(names.begin(), names.end());
  CHECK(names == Names{"attention.key.kernel", "attention.projection.kernel",
                       "attention.query.kernel", "attention.value.kernel", "batch.bias",
                       "batch.scale", "conv.bias", "conv.kernel", "experts.down", "experts.gate",
                       "experts.up", "gated.down.kernel", "gated.gate.kernel", "gated.up.kernel",
                       "norm.bias", "norm.scale", "rms.scale", "tokens.table"});
}

TEST_CASE("patterns freeze and group by path") {
  const TrainingStep step = step_of(
      Network(), {.frozen = {"blocks.0.*"}, .groups = {{"*.bias", optim::Sgd{.momentum = 0.5}}}});
  Names frozen, velocities;
  for (const Input& input : step.trace(1).inputs) {
    if (input.frozen) frozen.push_back(input.name);
    if (input.name.ends_with(".velocity")) velocities.push_back(input.of);
  }
  CHECK(frozen == Names{"blocks.0.up.kernel", "blocks.0.up.bias", "blocks.0.down.kernel",
                        "blocks.0.down.bias"});
  CHECK(velocities == Names{"blocks.1.up.bias", "blocks.1.down.bias", "head.bias"});
}

TEST_CASE("two layers with one path are both named, with what to do") {
  const auto error = [](const nn::Layer& model) {
    return error_of([&] { step_of(model).trace(1); });
  };
  CHECK(
      error(nn::Sequential{dense("head"), nn::LayerNorm({.name = "head"})}) ==
      "two layers are called \"head\": a dense (\"head.kernel\" f32[6, 6], \"head.bias\" f32[6]) "
      "and another layer_norm; give one of them another name ({.name = \"…\"}), open an nn::Scope "
      "around each call, or use copies of one layer to share its parameters");
  CHECK(error([](Value x) { return Block()(Block()(x)); })
            .starts_with("two layers are called \"up\": a dense (\"up.kernel\" f32[6, 6], "
                         "\"up.bias\" f32[6]) and another dense; "));
  CHECK(error([](Value x) {
          return dense("dense0")(dense()(x));
        }).starts_with("two layers are called \"dense0\": "));
}

TEST_CASE("names that are no paths, and parameters without a layer, are refused") {
  const auto error = [](const nn::Layer& model) {
    return error_of([&] { step_of(model).trace(1); });
  };
  for (const char* name : {"a b", "a/b", "encoder*", ".a", "a..b"})
    CHECK(error(dense(name)) == fmt::format("\"{}\" can't name a layer; give letters, digits, '_' "
                                            "and '-', in parts joined by '.'",
                                            name));
  CHECK(error(dense("a.")) == "\"a.\" can't name a layer; its last part is empty");
  CHECK(error([](Value x) {
          const nn::Scope in(x, "scale");
          return x * in.parameter("gain", {6}, ones);
        }) ==
        "parameter \"gain\" of scope \"scale\": two calls would share it; hold an nn::LayerId and "
        "open the scope with it");
}

}  // namespace names_test
