// GPT-like steps of odd sizes on CUDA devices with a user's defaults, epilogues measured among
// them: the losses are the CPU's.
#include "support/gpt_stack.h"

#include <doctest/doctest.h>

#include <random>

#include "alpa/alpa.h"
#include "alpa/models/gpt.h"
#include "emulation.h"
#include "support/nightly.h"

namespace gpt_step_test {

using namespace alpa;

namespace {

constexpr int kBatch = 6, kSequence = 12, kVocabulary = 77;

std::map<std::string, Array> random_tokens() {
  std::map<std::string, Array> batch;
  std::mt19937 engine(1);
  for (const char* name : {"x", "y"}) {
    Array array({i32, {kBatch, kSequence}});
    for (std::int32_t& token : array.mutable_elements_as<std::int32_t>())
      token = static_cast<std::int32_t>(engine() % kVocabulary);
    batch.emplace(name, std::move(array));
  }
  return batch;
}

double last_loss(const TrainingStep& step, const Method& method, int devices,
                 const std::string& backend) {
  const Executable executable = parallelize(step, method, Cluster::local(devices, backend));
  TrainState state = executable.init(0);
  const std::map<std::string, Array> batch = random_tokens();
  double loss = 0;
  for (int i = 0; i < 4; ++i) loss = executable.run(state, batch).loss();
  return loss;
}

/// A step of a decoder of models/gpt.h. Widths of which every epilogue has its kernel.
TrainingStep decoder_step(models::DecoderKind kind, Precision precision) {
  const models::Decoder decoder({.kind = kind,
                                 .layers = 2,
                                 .hidden = 32,
                                 .heads = 2,
                                 .sequence = kSequence,
                                 .vocabulary = kVocabulary});
  const TensorType tokens{i32, {kBatch, kSequence}};
  return training_step({{"x", tokens}, {"y", tokens}},
                       [=](const Batch& b) { return decoder.loss(b["x"], b["y"]); },
                       optim::Adam{.learning_rate = 0.01}, {.precision = precision});
}

}  // namespace

TEST_CASE("decoders of nn layers have the CPU's loss where products are made onto sums") {
  emulation::restart({});
  const auto check = [](models::DecoderKind kind, Precision precision, int devices,
                        const Method& method, int micro_batches) {
    const bool llama = kind == models::DecoderKind::llama,
               rounded = precision == Precision::bf16_mixed;
    CAPTURE(llama);
    CAPTURE(rounded);
    CAPTURE(devices);
    const TrainingStep step = decoder_step(kind, precision);
    CHECK(last_loss(step, method, devices, "cuda") ==
          doctest::Approx(last_loss(step, Serial{.num_micro_batches = micro_batches}, 1, "cpu"))
              .epsilon(rounded ? 5e-3 : 1e-5));
  };
  using models::DecoderKind;
  check(DecoderKind::gpt, Precision::as_written, 1, Serial{}, 1);
  check(DecoderKind::gpt, Precision::bf16_mixed, 1, Serial{.num_micro_batches = 3}, 3);
  check(DecoderKind::gpt, Precision::as_written, 2,
        ShardParallel{.num_micro_batches = 3, .solver_seconds = 2}, 3);
  check(DecoderKind::llama, Precision::as_written, 2, Zero2Parallel{.num_micro_batches = 3}, 3);
}

TEST_CASE("GPT-like steps of odd sizes have the CPU's loss, alone, overlapped and spread") {
  emulation::restart({});
  for (const bool reshape_heads : {false, true}) {
    CAPTURE(reshape_heads);
    const bool operators = reshape_heads;  // layer norms and the embedding
    const TrainingStep step = testing::gpt_step({.layers = 2,
                                                 .batch = kBatch,
                                                 .sequence = kSequence,
                                                 .hidden = reshape_heads ? 24 : 128,
                                                 .heads = reshape_heads ? 3 : 4,
                                                 .vocabulary = kVocabulary,
                                                 .causal = true,
                                                 .reshape_heads = reshape_heads,
                                                 .operators = operators});
    const doctest::Approx expected =
        doctest::Approx(last_loss(step, Serial{}, 1, "cpu")).epsilon(1e-5);
    Serial overlapped;
    overlapped.executor.overlap_updates = true;
    if (reshape_heads || testing::is_nightly()) {  // by day each step has two of the plans
      CHECK(last_loss(step, Serial{}, 1, "cuda") == expected);
      CHECK(last_loss(step, ShardParallel{.solver_seconds = 2}, 3, "cuda") == expected);
    }
    if (!reshape_heads || testing::is_nightly()) {
      CHECK(last_loss(step, overlapped, 1, "cuda") == expected);
      CHECK(last_loss(step, DataParallel{.num_micro_batches = 3}, 2, "cuda") == expected);
    }
  }
}

TEST_CASE("text between the steps of a training is the CPU's") {
  emulation::restart({});
  const std::vector<TokenIds> prompts{{3, 1, 4, 1, 5}, {9, 2}, {6}};
  for (const auto kind : {models::DecoderKind::gpt, models::DecoderKind::llama}) {
    const models::Decoder decoder({.kind = kind,
                                   .layers = 2,
                                   .hidden = 32,
                                   .heads = 4,
                                   .key_heads = kind == models::DecoderKind::llama ? 2 : 0,
                                   .sequence = kSequence,
                                   .vocabulary = kVocabulary});
    const TensorType tokens{i32, {kBatch, kSequence}};
    const TrainingStep step = training_step(
        {{"x", tokens}, {"y", tokens}},
        [=](const Batch& b) { return decoder.loss(b["x"], b["y"]); },
        optim::Adam{.learning_rate = 0.01});
    const auto texts = [&](int devices, const std::string& backend, const Method& method) {
      const Executable train = parallelize(step, method, Cluster::local(devices, backend));
      const Generator generator(decoder, train, {.rows = 2, .length = kSequence, .chunk = 3});
      TrainState state = train.init(0);
      std::vector<std::vector<TokenIds>> written;
      for (int i = 0; i < 2; ++i) {
        train.run(state, random_tokens());
        written.push_back(generate(generator, state, prompts, {.count = 6, .temperature = 0}));
      }
      return written;
    };
    const auto of_cpu = texts(1, "cpu", Serial{});
    const bool llama = kind == models::DecoderKind::llama;  // by day on two cards, gpt on one
    if (!llama || testing::is_nightly()) CHECK(texts(1, "cuda", Serial{}) == of_cpu);
    if (llama || testing::is_nightly())
      CHECK(texts(2, "cuda", ShardParallel{.mesh_shape = {2}}) == of_cpu);
  }
}

}  // namespace gpt_step_test
