// Patterns of jax's texts, and what becomes of them.
#include <doctest/doctest.h>

#include <fmt/ranges.h>

#include "alpa/import/stablehlo.h"
#include "import/data.h"

namespace import_patterns_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

std::string recognised(const char* name) {
  std::string text;
  for (const Recognised& found : import_stablehlo(JaxData(name).text()).recognised)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", found.times, found.pattern);
  return text;
}

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

}  // namespace import_patterns_test
