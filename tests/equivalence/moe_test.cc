// A decoder with experts as users write it, spread over 1 to 8 devices, against one device. Uneven
// on most meshes: 6 experts, 12 sequences of 4 tokens in groups of 12, 11 words.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include "models/moe.h"

using namespace alpa;

namespace {

constexpr std::int64_t kBatch = 12, kSequence = 4, kWords = 11;

TrainingStep step() {
  const models::MoeDecoder decoder({.layers = 2,
                                    .hidden = 12,
                                    .heads = 3,
                                    .experts = 6,
                                    .sequence = kSequence,
                                    .vocabulary = kWords,
                                    .factor = 2,
                                    .group = 12,
                                    .balance_weight = 0.1});
  const TensorType type{i32, {kBatch, kSequence}};
  return training_step(
      {{"tokens", type}, {"labels", type}},
      [decoder](const Batch& b) { return decoder.loss(b["tokens"], b["labels"]); },
      optim::Sgd{.learning_rate = 0.5, .momentum = 0.9});
}

std::map<std::string, Array> batch_of(int step) {
  std::vector<int> tokens, labels;
  for (int i = 0; i < kBatch * kSequence; ++i) {
    tokens.push_back((i * i + 5 * i + 3 * step) % kWords);
    labels.push_back((i * i + 7 * i + 3 * step + 5) % kWords);
  }
  return {{"tokens", Array(tokens, {kBatch, kSequence})},
          {"labels", Array(labels, {kBatch, kSequence})}};
}

struct Outcome {
  std::vector<double> losses;
  std::map<std::string, std::vector<double>> contents;
};

Outcome train(const Executable& executable) {
  TrainState state = executable.init(3);
  Outcome outcome;
  for (int i = 0; i < 3; ++i) {
    const Metrics metrics = executable.run(state, batch_of(i));
    outcome.losses.push_back(metrics.loss());
    outcome.losses.push_back(metrics["balance"]);
  }
  for (const std::string& name : state.names())
    outcome.contents[name] = state[name].to_host().to_doubles();
  CHECK(executable.measured_bytes(state) == executable.memory_bytes());
  return outcome;
}

/// Largest difference as a share of the largest element of a tensor. (The gradient of a key's bias
/// is 0 but for rounding: all products of a query with keys change alike.)
double deviation(const std::vector<double>& actual, const std::vector<double>& expected) {
  double largest = 1e-4, difference = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    largest = std::max(largest, std::abs(expected[i]));
    difference = std::max(difference, std::abs(actual[i] - expected[i]));
    if (std::isnan(actual[i])) return INFINITY;
  }
  return difference / largest;
}

const Outcome& serial() {
  static const Outcome outcome = train(parallelize(step(), Serial{}, Cluster::local(1)));
  return outcome;
}

void check_same(const Outcome& outcome) {
  for (std::size_t i = 0; i < outcome.losses.size(); ++i)
    CHECK(outcome.losses[i] == doctest::Approx(serial().losses[i]).epsilon(1e-5));
  for (const auto& [name, values] : serial().contents) {
    INFO(name);
    CHECK(deviation(outcome.contents.at(name), values) <= 1e-5);
  }
}

template <class M>
void check(M method, int devices, int micro_batches) {
  method.solver_seconds = 1;  // any plan must be right, the best or not
  method.num_micro_batches = micro_batches;
  INFO(devices << " devices, " << micro_batches << " micro-batches");
  check_same(train(parallelize(step(), method, Cluster::local(devices))));
}

}  // namespace

TEST_CASE("spread over devices, a decoder with experts gives what one device gives") {
  for (int micro_batches : {1, 4}) {
    check(DataParallel{}, 3, micro_batches);
    check(ShardParallel{}, 4, micro_batches);
  }
  for (int devices : {2, 3, 8}) check(ShardParallel{}, devices, 1);
  check(ShardParallel{.mesh_shape = {2, 2}}, 4, 1);
}

TEST_CASE(
    "where moving tokens is cheaper than reducing experts, four all_to_alls a layer and step") {
  Cluster cluster = Cluster::local(2);
  cluster.within_host = {1e-9, 1e-6};  // of what is sent, bytes decide
  cluster.device.flops_per_second = {{f32, 1e6}};
  const Executable executable = parallelize(step(), ShardParallel{}, cluster);
  CHECK(to_string(executable.sharding_of("moe0.up")) == "S0@0");
  check_same(train(executable));
  CHECK(executable.measured_traffic().at("all_to_all").count == 4);
}

TEST_CASE("in two stages, and in three dimensions, too") {
  for (int micro_batches : {1, 4}) {
    check(PipeshardParallel{}, 3, micro_batches);
    check(parallel_3d(2, 2, 2), 8, micro_batches);
  }
}

TEST_CASE("the full product: methods, devices, micro-batches" * doctest::skip()) {
  for (int micro_batches : {1, 4})
    for (int devices = 1; devices <= 8; ++devices) {
      if (devices * micro_batches <= kBatch) {
        check(DataParallel{}, devices, micro_batches);
        check(Zero2Parallel{}, devices, micro_batches);
      }
      check(ShardParallel{}, devices, micro_batches);
      if (devices >= 2) check(PipeshardParallel{}, devices, micro_batches);
      for (int pipeline : {1, 2})
        for (int tensor : {1, 2, 4})
          if (const int data = devices / (pipeline * tensor);
              data * pipeline * tensor == devices && data * micro_batches <= kBatch)
            check(parallel_3d(data, tensor, pipeline), devices, micro_batches);
    }
}
