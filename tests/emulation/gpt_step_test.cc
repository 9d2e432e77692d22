// GPT-like steps of odd sizes on CUDA devices with a user's defaults, epilogues measured among
// them: the losses are the CPU's.
#include "support/gpt_stack.h"

#include <doctest/doctest.h>

#include <random>

#include "alpa/alpa.h"
#include "emulation.h"

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

}  // namespace

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
    CHECK(last_loss(step, Serial{}, 1, "cuda") == expected);
    CHECK(last_loss(step, overlapped, 1, "cuda") == expected);
    CHECK(last_loss(step, ShardParallel{.solver_seconds = 2}, 3, "cuda") == expected);
    CHECK(last_loss(step, DataParallel{.num_micro_batches = 3}, 2, "cuda") == expected);
  }
}

}  // namespace gpt_step_test
