// BERT tests of Alpa (tests/shard_parallel/test_bert.py) at their own sizes: fused attention and
// active dropout; and the loss of a split vocabulary. Each plan costs at most what Alpa's does, or
// what a formula says; it is run, and equals one device.
#include "alpa/models/bert.h"

#include <cmath>

#include "equivalence/reference_plan.h"
#include "support/difference.h"

namespace bert_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

/// An epsilon that gradients of rounding, as those of the keys' biases, do not reach.
const optim::Adam kAdam{.learning_rate = 1e-2, .epsilon = 1e-4};

struct Sizes {
  std::int64_t batch, sequence, hidden, heads;
};

models::EncoderOptions encoder_of(const Sizes& s) {
  return {.layers = 2, .hidden = s.hidden, .heads = s.heads, .dropout = 0.1};
}

/// Two layers on hidden states, which are the input; the mean of squares as the loss.
TrainingStep layers_step(const Sizes& s) {
  const TensorType type{f32, {s.batch, s.sequence, s.hidden}};
  return training_step(
      {{"x", type}, {"y", type}},
      [encoder = models::Encoder(encoder_of(s))](const Batch& b) -> LossAndMetrics {
        return mean(square(encoder(b["x"]) - b["y"]));
      },
      kAdam);
}

/// The whole model, which finds hidden tokens.
TrainingStep tokens_step(const Sizes& s, std::int64_t vocabulary) {
  const TensorType type{i32, {s.batch, s.sequence}};
  const models::Bert bert(
      {.encoder = encoder_of(s), .sequence = s.sequence, .vocabulary = vocabulary});
  return training_step(
      {{"x", type}, {"y", type}}, [bert](const Batch& b) { return bert.loss(b["x"], b["y"]); },
      kAdam);
}

Array made(const TensorType& type, std::int64_t vocabulary) {
  const std::int64_t count = num_elements(type.shape);
  if (type.dtype == f32) {
    std::vector<float> values(count);
    for (std::int64_t i = 0; i < count; ++i) values[i] = std::sin(0.37F * static_cast<float>(i));
    return Array(values, type.shape);
  }
  std::vector<std::int32_t> values(count);
  for (std::int64_t i = 0; i < count; ++i)
    values[i] = static_cast<std::int32_t>(i * 37 % vocabulary);
  return Array(values, type.shape);
}

struct Run {
  std::vector<double> losses;
  std::map<std::string, std::vector<double>> parameters;
};

Run two_steps(const Executable& train, const TrainingStep& step, std::int64_t vocabulary) {
  std::map<std::string, Array> batch;
  for (const BatchInput& input : step.inputs) batch[input.name] = made(input.type, vocabulary);
  TrainState state = train.init(5);
  Run run;
  for (int i = 0; i < 2; ++i) run.losses.push_back(train.run(state, batch).loss());
  CHECK(train.measured_bytes(state) == train.memory_bytes());
  for (const std::string& name : parameter_names(train.graph()))
    run.parameters[name] = state[name].to_host().to_doubles();
  return run;
}

void check_run(const TrainingStep& step, const DeviceMesh& mesh, double alpas_objective,
               const Expected& expected, const intra_op::AutoShardOptions& options = {},
               std::int64_t vocabulary = 0) {
  const Executable train = planned_like_alpa(step, mesh, options, alpas_objective);
  const Run split = two_steps(train, step, vocabulary),
            whole = two_steps(parallelize(step, Serial{}, Cluster::local(1)), step, vocabulary);
  CHECK(largest_difference(split.losses, whole.losses, 1) < 1e-5);
  for (const auto& [name, values] : whole.parameters) {
    CAPTURE(name);
    CHECK(largest_difference(split.parameters.at(name), values, 0.1) < 2e-5);
  }
  check_traffic(train, expected);
}

/// Bytes of the parameters of a layer, and what reducing them and the loss over 4 devices sends.
double layer_bytes(double hidden) { return 4 * (12 * hidden * hidden + 13 * hidden); }
double reduced(double bytes) { return (bytes + 4) * 2 * 3 / 4; }

const std::vector<std::vector<int>> kFour = {{4, 1}, {1, 4}};

}  // namespace

TEST_CASE("Alpa's BERT layers, data parallelism by itself: one all_reduce") {
  const Sizes sizes{64, 64, 32, 8};
  const Expected expected{"all_reduce 1", reduced(2 * layer_bytes(32))};
  for (const auto& shape : kFour)
    check_run(layers_step(sizes), priced_mesh(shape), 152691.24, expected);
  intra_op::AutoShardOptions forced;
  forced.allowed.batch_mesh_axis = 0;
  check_run(layers_step(sizes), priced_mesh({4}), 152691.24, expected, forced);
}

TEST_CASE("Alpa's BERT layers, model parallelism by itself: seven activations are reduced") {
  const Sizes sizes{8, 8, 128, 8};
  for (const auto& shape : kFour)
    check_run(layers_step(sizes), priced_mesh(shape), 344071.07,
              {"all_reduce 7", 7 * 32768 * 2 * 3 / 4.0});
}

TEST_CASE("Alpa's BERT with its head, data parallelism by itself: one all_reduce") {
  constexpr std::int64_t kHidden = 16, kSequence = 32, kVocabulary = 128;
  const double outside = 4 * (kVocabulary * (kHidden + 1) + kSequence * kHidden +
                              kHidden * kHidden + kHidden + 2 * 2 * kHidden);
  for (const auto& shape : kFour)
    check_run(tokens_step({32, kSequence, kHidden, 4}, kVocabulary), priced_mesh(shape), 58039.34,
              {"all_reduce 1", reduced(outside + 2 * layer_bytes(kHidden))}, {}, kVocabulary);
}

TEST_CASE("with the vocabulary split, the loss sends numbers per token, not per token and word") {
  constexpr std::int64_t kBatch = 3, kTokens = 7, kHidden = 40, kVocabulary = 1003;
  const TrainingStep step = training_step(
      {{"x", {f32, {kBatch, kTokens, kHidden}}}, {"y", {i32, {kBatch, kTokens}}}},
      [head = nn::Dense(kVocabulary)](const Batch& b) {
        return nn::cross_entropy(head(b["x"]), b["y"]);
      },
      kAdam);
  // The log-sum-exp and the label's logit of each token.
  constexpr double kNumbers = 4.0 * kBatch * kTokens;
  check_run(step, priced_mesh({4}), 2 * (all_reduce(kNumbers, 4) + 0.01),
            {"all_reduce 2", 2 * kNumbers * 2 * 3 / 4}, {}, kVocabulary);
}

}  // namespace bert_test
