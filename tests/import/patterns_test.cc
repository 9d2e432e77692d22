// Patterns of jax's texts, and what becomes of them.
#include <doctest/doctest.h>

#include <fmt/ranges.h>

#include "alpa/import/stablehlo.h"
#include "import/data.h"

namespace import_patterns_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

std::string recognised_in(const std::string& module) {
  std::string text;
  for (const Recognised& found : import_stablehlo(module).recognised)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", found.times, found.pattern);
  return text;
}

std::string recognised(const char* name) { return recognised_in(JaxData(name).text()); }

}  // namespace

TEST_CASE("attention, norms, losses, activations and lookups of jax become operators") {
  CHECK(recognised("mlp") == "1 cross_entropy");
  CHECK(recognised("llama") == "2 attention, 1 cross_entropy, 1 embedding, 5 rms_norm, 2 sigmoid");
  CHECK(recognised("llama_scan") ==
        "2 attention, 1 cross_entropy, 1 embedding, 5 rms_norm, 2 sigmoid");
  CHECK(recognised("bert") ==
        "2 attention, 1 cross_entropy, 1 embedding, 2 exact_gelu, 4 layer_norm");
  CHECK(recognised("vit") == "2 attention, 1 cross_entropy, 2 gelu, 5 layer_norm");
}

TEST_CASE("attention in a whole step is recognised together with its gradient") {
  CHECK(recognised("llama_adamw") ==
        "2 attention, 2 attention_gradient, 1 embedding, 1 embedding_gradient, 2 sigmoid");
  CHECK(recognised("bert_adamw").starts_with("2 attention, 2 attention_gradient"));
}

TEST_CASE("attention, norms, losses and activations in other forms become operators") {
  struct Module {
    const char *file, *name, *patterns;
  };
  for (const Module& module :
       {Module{"flax", "causal block", "1 attention, 1 gelu, 2 layer_norm"},
        Module{"flax", "block with padding", "1 gelu, 2 layer_norm"},  // a mask of each query stays
        Module{"flax", "rms norm", "1 rms_norm"}, Module{"flax", "embedding", "1 embedding"},
        Module{"kinds", "attention with a mask of numbers", "1 attention"},
        Module{"kinds", "mean of log softmax at labels", "1 cross_entropy"},
        Module{"kinds", "log softmax with one-hot labels", "1 cross_entropy"},
        Module{"kinds", "one-hot labels of rows", "1 cross_entropy"},
        Module{"kinds", "log softmax", ""}}) {
    CAPTURE(module.name);
    const auto all = modules(JaxData(module.file).text());
    const auto found = std::ranges::find(all, module.name, [](const auto& of) { return of.first; });
    REQUIRE(found != all.end());
    CHECK(recognised_in(found->second) == module.patterns);
  }
}

}  // namespace import_patterns_test
