// How attention is described to cuDNN, and what it proposes on cards that need not be there.
#include "kernels/cuda/attention_plan.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <set>
#include <span>

#include "dnn_cards.h"
#include "kernels/cuda/least_word.h"
#include "src/cuda/dnn_attention.h"
#include "src/cuda/dnn_library.h"
#include "support/nightly.h"

namespace alpa::attention_test {
namespace {

using cuda::AttentionLaunch;
using cuda::AttentionPiece;
using kernels::AttentionShape;
using testing::Card;
using testing::kCards;
using testing::properties_of;

struct Layer {
  const char* name;
  std::int64_t batch, queries, heads, keys, key_heads, width, visible;
};

AttentionLaunch launch_of(const Layer& layer, DType dtype, bool is_gradient) {
  return {{.dtype = dtype,
           .batch = layer.batch,
           .queries = layer.queries,
           .heads = layer.heads,
           .keys = layer.keys,
           .key_heads = layer.key_heads,
           .width = layer.width,
           .group = layer.heads / layer.key_heads,
           .scale = 0.125,
           .visible = layer.visible},
          is_gradient};
}

// ---- what is planned

TEST_CASE("words from least_word(p) on are the numbers of at least p, to the last bit of p") {
  const auto number_of = [](std::uint64_t word) {
    return unit_interval(static_cast<double>(word));
  };
  const auto is_right = [&](double p) {
    CAPTURE(p);
    const std::uint64_t least = cuda::least_word(p), words = std::uint64_t{1} << 32;
    CHECK(least <= words);
    if (least < words) CHECK(number_of(least) >= p);
    if (least > 0) CHECK(number_of(least - 1) < p);
  };
  for (const double p : {0.0, 1e-12, 0.1, 1.0 / 3, 0.5, 0.9, 1 - 1e-10, 1 - 1e-16}) is_right(p);
  // the numbers themselves, where the last bit decides
  for (const std::uint32_t word : {0u, 1u, 12345u, 0x19999999u, 0x80000000u, 0xffffffffu}) {
    const double number = number_of(word);
    CHECK(cuda::least_word(number) == word);
    for (const double p : {number, std::nextafter(number, 0.0), std::nextafter(number, 1.0)})
      is_right(p);
  }
}

TEST_CASE("cuDNN is asked for 16-bit attention without masks, dropout and odd widths") {
  const auto refusal = [&](const auto& change) {
    AttentionLaunch launch = launch_of({"", 2, 6, 4, 8, 2, 64, 8}, bf16, false);
    change(launch, launch.shape);
    return cuda::dnn_refusal(launch);
  };
  CHECK(refusal([](AttentionLaunch&, AttentionShape&) {}).empty());
  CHECK(refusal([](AttentionLaunch&, AttentionShape& s) { s.dtype = f16; }).empty());
  CHECK(refusal([](AttentionLaunch&, AttentionShape& s) { s.dtype = f32; }) ==
        "cuDNN's attention is in bf16 and f16, not in f32");
  CHECK(refusal([](AttentionLaunch& l, AttentionShape&) { l.has_mask = true; }) ==
        "cuDNN's attention has no key mask");
  CHECK(refusal([](AttentionLaunch&, AttentionShape& s) { s.dropout = 0.1; }) ==
        "cuDNN's attention draws other numbers for dropout");
  CHECK(refusal([](AttentionLaunch&, AttentionShape& s) { s.width = 60; }) ==
        "heads are 60 wide, not a multiple of 8 up to 128");
  CHECK(refusal([](AttentionLaunch&, AttentionShape& s) { s.width = 136; }) ==
        "heads are 136 wide, not a multiple of 8 up to 128");
  CHECK(refusal([](AttentionLaunch&, AttentionShape& s) { s.visible = 2; }) ==
        "the diagonal neither starts at the first key nor ends at the last");
  CHECK_FALSE(cuda::suits_dnn(launch_of({"", 0, 6, 4, 8, 2, 64, 8}, bf16, false)));
  CHECK(cuda::dnn_refusal(launch_of({"", 2, 1, 4, 1, 2, 64, 1}, bf16, true)) ==
        "cuDNN has no gradient of one query and one key");
  for (const Layer& layer : {Layer{"", 2, 1, 4, 1, 2, 64, 1}, Layer{"", 2, 1, 4, 2, 2, 64, 2}})
    CHECK(cuda::dnn_refusal(launch_of(layer, bf16, layer.keys == 2)).empty());
}

TEST_CASE("the diagonal of causal attention starts at the first key or ends at the last") {
  const auto suits = [&](std::int64_t visible) {
    return cuda::suits_dnn(launch_of({"", 2, 4, 4, 8, 2, 64, visible}, bf16, false));
  };
  CHECK(suits(1));
  CHECK(suits(5));
  CHECK(suits(8));
  CHECK_FALSE(suits(3));  // a part from the middle of the queries
  CHECK_FALSE(suits(0));  // the first query sees nothing
  CHECK_FALSE(cuda::suits_dnn(launch_of({"", 2, 8, 4, 4, 2, 64, -3}, bf16, false)));
}

TEST_CASE("the gradient is cut into equal pieces of at most 512 MiB: rows first, then heads") {
  const auto text = [](const Layer& layer, bool is_gradient = true) {
    return cuda::to_string(cuda::attention_piece(launch_of(layer, bf16, is_gradient)));
  };
  // A head of 4096 queries and keys needs 32 MiB.
  const Layer layer{"", 6, 4096, 8, 4096, 8, 64, 1};
  CHECK(text(layer) ==
        "attention_grad bf16 q 2,4096,8,64 of 8 k 4096,8 of 8 causal from the first key");
  CHECK(text(layer, false) ==
        "attention bf16 q 6,4096,8,64 of 8 k 4096,8 of 8 causal from the first key");
  CHECK(text({"", 2, 4096, 24, 4096, 24, 64, 4096}) ==
        "attention_grad bf16 q 1,4096,12,64 of 24 k 4096,12 of 24");
  CHECK(text({"", 2, 16384, 4, 16384, 2, 64, 16384}) ==
        "attention_grad bf16 q 1,16384,2,64 of 4 k 16384,1 of 2");
  CHECK(cuda::dnn_refusal(launch_of({"", 2, 32768, 4, 32768, 2, 64, 32768}, bf16, true)) ==
        "the gradient of a key head needs 4311744512 bytes of workspace, more than 2147483648");
  CHECK(cuda::dnn_refusal(launch_of({"", 2, 32768, 4, 32768, 2, 64, 32768}, bf16, false)).empty());
}

TEST_CASE("scratch is a number for every query, and two bytes for every score of a piece") {
  const Layer gpt{"", 8, 1024, 16, 1024, 16, 64, 1};
  cuda::AttentionScratch scratch = cuda::attention_scratch(launch_of(gpt, bf16, true));
  CHECK(scratch.workspace == 4 * 8 * 16 * 1024);
  CHECK(scratch.workspace_bytes == 2 * 8 * 16 * 1024 * 1024 + 256);
  CHECK(scratch.bytes == scratch.workspace + scratch.workspace_bytes + 256);
  scratch = cuda::attention_scratch(launch_of(gpt, f32, true));
  CHECK(scratch.bytes == 4 * 8 * 16 * 1024 + 256);
  CHECK(cuda::attention_scratch(launch_of(gpt, bf16, false)).bytes == 512);
  AttentionLaunch in_any_order = launch_of(gpt, bf16, true);
  in_any_order.shape.repeats = false;
  scratch = cuda::attention_scratch(in_any_order);
  CHECK(scratch.sums == 4 * 8 * 16 * 1024);
  CHECK(scratch.workspace == scratch.sums + 4 * 8 * 16 * 1024 * 64);
  CHECK(scratch.workspace_bytes == 4 * 8 * 16 * 1024 * 64 + 256);
  CHECK(cuda::attention_scratch(launch_of(gpt, f64, false)).bytes == 0);
}

// ---- what cuDNN answers

/// cuDNN compiles attention for a card only where there is a driver.
void have_driver() {
#ifdef ALPA_FAKE_DRIVER
  if (dlopen("libcuda.so.1", RTLD_LAZY) == nullptr) dlopen(ALPA_FAKE_DRIVER, RTLD_LAZY);
#endif
}

/// A real driver loads machine code of its own card alone.
bool can_load_for(const Card& card) {
  int major = 0;
  return cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0) != cudaSuccess ||
         major == card.version / 100;
}

constexpr Layer kLayers[] = {
    {"GPT 350M", 8, 1024, 16, 1024, 16, 64, 1},
    {"GPT 1.3B", 8, 1024, 16, 1024, 16, 128, 1},
    {"Llama", 4, 2048, 32, 2048, 8, 128, 1},
    {"BERT", 32, 128, 12, 128, 12, 64, 128},
    {"ViT", 64, 197, 12, 197, 12, 64, 197},
    {"second half of the queries", 8, 512, 16, 1024, 16, 64, 513},
    {"first half of the queries", 8, 512, 16, 1024, 16, 64, 1},
    {"one key head", 2, 200, 8, 200, 1, 96, 1},
    {"some heads of a piece", 1, 8192, 16, 8192, 16, 64, 1},
    {"small", 1, 4, 2, 4, 2, 8, 1},
};

TEST_CASE("cuDNN has an engine within the workspace for every layer, with or without a card") {
  have_driver();
  // forward, backward, and backward with sums of dq in any order
  std::set<std::int64_t> engines[3];
  for (const Card& card : kCards) {
    if (!can_load_for(card)) continue;
    const auto properties = properties_of(card);
    if (!properties) return;
    const std::size_t layers = card.version >= 900 ? std::size(kLayers) : 3;  // a plan takes long
    for (std::size_t l = 0; l < layers; ++l) {
      const Layer& layer = kLayers[l];
      const int in_turn = static_cast<int>(l) % 3;
      for (const int kind : testing::sampled<std::vector<int>>({in_turn}, {0, 1, 2})) {
        const bool is_gradient = kind > 0;
        AttentionLaunch launch = launch_of(layer, is_gradient ? bf16 : f16, is_gradient);
        launch.shape.repeats = kind < 2;
        const AttentionPiece piece = cuda::attention_piece(launch);
        CAPTURE(std::string(card.name));
        CAPTURE(cuda::to_string(piece));
        const cuda::DnnAttentionNumbers numbers(piece);
        const std::int64_t bytes = cuda::attention_scratch(launch).workspace_bytes;
        const cuda::DnnTarget target{.properties = &*properties};
        const cuda::DnnProblem problem = cuda::attention_problem(piece, bytes, numbers);
        const auto plans = cuda::DnnEngines(target, problem, false).plans(1);
        REQUIRE(plans.size() == 1);
        CHECK(plans[0].place == 0);
        CHECK(plans[0].plan->workspace_bytes() <= bytes);
        const auto proposed = cuda::dnn_engines(target, problem.operations());
        engines[kind].insert(testing::number_of(proposed[0]));
      }
    }
  }
  MESSAGE("cuDNN " << cuda::dnn().version() << ": engines "
                   << fmt::format("{} forward, {} backward, {} in any order",
                                  fmt::join(engines[0], " and "), fmt::join(engines[1], " and "),
                                  fmt::join(engines[2], " and ")));
}

}  // namespace
}  // namespace alpa::attention_test
