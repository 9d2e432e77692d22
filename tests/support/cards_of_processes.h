#pragma once
/// Trains models on CUDA devices of one process and of several, which compute the same bits.
#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "alpa/alpa.h"
#include "support/processes.h"
#include "support/staged_mlp.h"

namespace alpa::testing {

inline constexpr std::int64_t kRows = 8, kWidth = 12;

inline BatchData staged_mlp_batch() { return {{"x", linear_dataset(kRows, kWidth, 1).x}}; }

struct Outcome {
  std::vector<double> losses, weights;
  bool communicates = false;  ///< whether its plan exchanges anything
  bool operator==(const Outcome&) const = default;
};

/// Two training steps, an evaluation, then all parameters.
inline Outcome train(const Method& method, int devices) {
  const auto [step, evaluate] =
      parallelize(staged_mlp_step(kRows, kWidth), staged_mlp_evaluation(kRows, kWidth), method,
                  Cluster::local(devices, "cuda"));
  TrainState state = step.init(3);
  const BatchData batch = staged_mlp_batch();
  Outcome outcome;
  for (int i = 0; i < 2; ++i) outcome.losses.push_back(step.run(state, batch).loss());
  outcome.losses.push_back(evaluate.run(state, batch).loss());
  for (const DistributedArray& parameter : state.parameters())
    for (const double x : parameter.to_host().to_doubles()) outcome.weights.push_back(x);
  CHECK(step.measured_bytes(state) == step.memory_bytes());
  outcome.communicates = !step.traffic().empty();
  CHECK(step.measured_traffic().size() == step.traffic().size());
  return outcome;
}

/// Checks that each of `size` processes gets what one process gets, and returns that.
inline Outcome check_like_one_process(const Method& method, int size, int devices) {
  CAPTURE(size);
  CAPTURE(devices);
  const Outcome alone = train(method, devices);
  std::vector<Outcome> outcomes(size);
  const auto errors =
      run_processes(size, [&](int rank) { outcomes[rank] = train(method, devices); });
  for (int rank = 0; rank < size; ++rank) {
    CHECK(errors[rank] == "");
    CHECK(outcomes[rank] == alone);
  }
  return alone;
}

/// The same of a GPT of odd sizes with residuals and a convolution, by every default, in 2
/// processes and in 3.
inline void check_odd_models(int devices) {
  constexpr std::int64_t kSequences = 5, kContext = 7, kLetters = 11, kHidden = 12;
  const nn::Embedding table(kLetters, kHidden);
  const nn::SelfAttention attention(kHidden, /*heads=*/3);
  const nn::LayerNorm norm;
  const nn::Dense up(17), down(kHidden);
  const TensorType ids{i32, {kSequences, kContext}};
  const TrainingStep gpt = training_step(
      {{"ids", ids}, {"labels", ids}},
      [=](const Batch& b) {
        Value x = table(b["ids"]);
        x = x + attention(norm(x));
        x = mark_pipeline_boundary(x);
        x = x + down(gelu(up(x)));
        return nn::cross_entropy(einsum("btc,vc->btv", x, table.table(x)), b["labels"]);
      },
      optim::AdamW{});
  const nn::Conv2d convolution(5, {3, 3});
  const nn::BatchNorm batch_norm;
  const nn::Dense head(3);
  const TrainingStep images = training_step(
      {{"x", {f32, {6, 5, 7, 3}}}},
      [=](const Batch& b) {
        const Value h = mark_pipeline_boundary(relu(batch_norm(convolution(b["x"]))));
        return mean(square(head(mean(h, {1, 2}))));
      },
      optim::Sgd{});
  Array letters(ids), pixels(TensorType{f32, {6, 5, 7, 3}});
  for (std::int64_t i = 0; i < kSequences * kContext; ++i)
    letters.mutable_elements_as<std::int32_t>()[i] = static_cast<std::int32_t>(i * 5 % kLetters);
  for (std::size_t i = 0; i < 6 * 5 * 7 * 3; ++i)
    pixels.mutable_elements_as<float>()[i] = static_cast<float>(i % 13) / 13;
  const BatchData texts = {{"ids", letters}, {"labels", letters}}, photos = {{"x", pixels}};
  const Method methods[] = {DataParallel{}, ShardParallel{}, Zero3Parallel{}, PipeshardParallel{}};
  for (std::size_t m = 0; m < std::size(methods); ++m) {
    CAPTURE(m);
    const auto losses = [&] {
      std::vector<double> all;
      for (const auto& [step, batch] : {std::pair(&gpt, &texts), std::pair(&images, &photos)}) {
        const Executable run = parallelize(*step, methods[m], Cluster::local(devices, "cuda"));
        TrainState state = run.init(1);
        for (int i = 0; i < 3; ++i) all.push_back(run.run(state, *batch).loss());
      }
      return all;
    };
    const std::vector<double> alone = losses();
    for (const int size : {2, 3}) {
      CAPTURE(size);
      const auto errors = run_processes(size, [&](int) { CHECK(losses() == alone); });
      for (const std::string& error : errors) CHECK(error == "");
    }
  }
}

}  // namespace alpa::testing
