// CUDA devices of several processes, which are threads here: cards of an emulated machine, joined
// by NCCL, compute what one process computes.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include "emulation.h"
#include "support/processes.h"
#include "support/staged_mlp.h"

namespace processes_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

constexpr std::int64_t kRows = 8, kWidth = 12;

struct Outcome {
  std::vector<double> losses, weights;
  bool operator==(const Outcome&) const = default;
};

/// Two training steps, an evaluation, then all parameters.
Outcome train(const Method& method, int devices, const std::string& backend = "cuda") {
  const auto [step, evaluate] =
      parallelize(staged_mlp_step(kRows, kWidth), staged_mlp_evaluation(kRows, kWidth), method,
                  Cluster::local(devices, backend));
  TrainState state = step.init(3);
  const BatchData batch = {{"x", linear_dataset(kRows, kWidth, 1).x}};
  Outcome outcome;
  for (int i = 0; i < 2; ++i) outcome.losses.push_back(step.run(state, batch).loss());
  outcome.losses.push_back(evaluate.run(state, batch).loss());
  for (const DistributedArray& parameter : state.parameters())
    for (const double x : parameter.to_host().to_doubles()) outcome.weights.push_back(x);
  CHECK(step.measured_bytes(state) == step.memory_bytes());
  CHECK(step.measured_traffic().size() == step.traffic().size());
  return outcome;
}

template <class M>
M captured(M method) {
  method.executor.capture = Capture::always;
  return method;
}

}  // namespace

TEST_CASE("cards of several processes compute what cards of one process do, bit for bit") {
  const Method methods[] = {DataParallel{},
                            Zero2Parallel{.num_micro_batches = 2},
                            Zero3Parallel{},
                            ShardParallel{},
                            PipeshardParallel{.num_micro_batches = 4},
                            captured(DataParallel{.num_micro_batches = 2}),
                            captured(PipeshardParallel{.num_micro_batches = 2})};
  emulation::restart({.devices = 4});
  for (std::size_t m = 0; m < std::size(methods); ++m) {
    const Outcome alone = train(methods[m], 4);
    for (const int size : {2, 3, 4}) {
      CAPTURE(m);
      CAPTURE(size);
      std::vector<Outcome> outcomes(size);
      const auto errors =
          run_processes(size, [&](int rank) { outcomes[rank] = train(methods[m], 4); });
      for (int rank = 0; rank < size; ++rank) {
        CHECK(errors[rank] == "");
        CHECK(outcomes[rank] == alone);
      }
    }
  }
}

TEST_CASE("a GPT of odd sizes with residuals and a convolution do so too, by every default") {
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
  emulation::restart({.devices = 3});
  const Method methods[] = {DataParallel{}, ShardParallel{}, Zero3Parallel{}, PipeshardParallel{}};
  for (std::size_t m = 0; m < std::size(methods); ++m) {
    CAPTURE(m);
    const auto losses = [&] {
      std::vector<double> all;
      for (const auto& [step, batch] : {std::pair(&gpt, &texts), std::pair(&images, &photos)}) {
        const Executable run = parallelize(*step, methods[m], Cluster::local(3, "cuda"));
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

TEST_CASE("processes of a host that see too few cards for all are told, in all of them") {
  emulation::restart({.devices = 3});
  const auto errors = run_processes(2, [&](int) { train(DataParallel{}, 4); });
  for (const std::string& error : errors) {
    CHECK(error.find("rank 1 of 2") != error.npos);
    CHECK(error.find("has 2 devices, but only 1 of the 3 cards that it sees are left by other "
                     "processes of its host") != error.npos);
  }
}

TEST_CASE("Cluster::local() counts the cards of a host once, whoever sees them") {
  emulation::restart({.devices = 4});
  const auto errors = run_processes(2, [&](int) {
    const Cluster cluster = Cluster::local();
    CHECK(cluster.backend == "cuda");
    CHECK(cluster.num_devices() == 4);
  });
  for (const std::string& error : errors) CHECK(error == "");
}

TEST_CASE("a kernel that fails in one process ends the step of all, and is named in all") {
  for (int n = 1; n < 40; n += 3) {
    CAPTURE(n);
    emulation::restart({.devices = 2});
    const auto errors = run_processes(2, [&](int rank) {
      const Executable step =
          parallelize(staged_mlp_step(kRows, kWidth), DataParallel{}, Cluster::local(2, "cuda"));
      TrainState state = step.init(3);
      const BatchData batch = {{"x", linear_dataset(kRows, kWidth, 1).x}};
      step.run(state, batch).loss();
      if (rank == 1) emulation::fail_kernel(n);
      for (int i = 0; i < 3; ++i) step.run(state, batch).loss();
    });
    for (const std::string& error : errors) {
      CAPTURE(error);
      CHECK(error.find("cudaErrorIllegalAddress") != error.npos);
    }
  }
}

}  // namespace processes_test
