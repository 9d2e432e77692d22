// Documents packed into rows: what they learn is what each of them would alone, under every plan.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include <cmath>

#include "alpa/data/text.h"
#include "alpa/models/gpt.h"
#include "support/error_text.h"

namespace packed_test {

using namespace alpa;
using testing::error_of;

namespace {

using Ids = std::vector<std::int32_t>;

constexpr std::int64_t kVocabulary = 23, kLength = 16;

/// Documents of these numbers of tokens.
std::vector<Ids> documents_of(const std::vector<int>& sizes) {
  std::vector<Ids> documents;
  int next = 5;
  for (int size : sizes) {
    Ids& document = documents.emplace_back();
    for (int i = 0; i < size; ++i) document.push_back(next = (next * 7 + 3) % int{kVocabulary});
  }
  return documents;
}

std::vector<TextExample> examples_of(const std::vector<Ids>& documents) {
  std::vector<TextExample> examples;
  for (const Ids& document : documents) examples.push_back({document});
  return examples;
}

models::Decoder decoder_of(models::DecoderKind kind) {
  return models::Decoder({.kind = kind,
                          .layers = 2,
                          .hidden = 16,
                          .heads = 4,
                          .sequence = kLength,
                          .vocabulary = kVocabulary,
                          .remat = true});
}

std::vector<BatchInput> packed_inputs(std::int64_t rows) {
  const TensorType ids{i32, {rows, kLength}};
  return {{"tokens", ids}, {"labels", ids}, {"segments", ids}, {"positions", ids}};
}

TrainingStep packed_step(const models::Decoder& decoder, std::int64_t rows) {
  return training_step(
      packed_inputs(rows), [decoder](const Batch& b) { return decoder.packed_loss(b); },
      optim::Sgd{});
}

/// The mean loss of all tokens, each document alone in its row.
double loss_alone(const models::Decoder& decoder, const TrainState& weights,
                  const std::vector<Ids>& documents) {
  double sum = 0, count = 0;
  for (const Ids& document : documents) {
    const std::int64_t tokens = std::ssize(document) - 1;
    const TensorType ids{i32, {1, tokens}};
    const Executable step = parallelize(
        evaluation_step({{"tokens", ids}, {"labels", ids}},
                        [&](const Batch& b) { return decoder.loss(b["tokens"], b["labels"]); }),
        Serial{}, Cluster::local(1, "cpu"));
    TrainState state = step.init(0);
    for (const DistributedArray& parameter : state.parameters())
      state[parameter.name()] = weights[parameter.name()].to_host();
    const Ids inputs(document.begin(), document.end() - 1),
        labels(document.begin() + 1, document.end());
    sum += static_cast<double>(tokens) * step.run(state, {{"tokens", Array(inputs, {1, tokens})},
                                                          {"labels", Array(labels, {1, tokens})}})
                                             .loss();
    count += static_cast<double>(tokens);
  }
  return sum / count;
}

struct Plan {
  const char* name;
  Method method;
  int devices;
};

}  // namespace

TEST_CASE("packed documents have the loss of each alone, under every plan and both decoders") {
  const std::vector<Ids> documents = documents_of({9, 5, 13, 4, 7, 17, 2});
  const Batches batches = packed_batches(examples_of(documents), 4, kLength);
  REQUIRE(batches.size() == 1);
  const BatchData batch = *batches.epoch(0).begin();
  for (const auto kind : {models::DecoderKind::gpt, models::DecoderKind::llama}) {
    const models::Decoder decoder = decoder_of(kind);
    const TrainingStep step = packed_step(decoder, 4);
    std::vector<double> first;
    for (const Plan& plan :
         {Plan{"one device", Serial{}, 1}, Plan{"shard", ShardParallel{}, 4},
          Plan{"data", DataParallel{}, 4}, Plan{"parts", Serial{.num_micro_batches = 4}, 1},
          Plan{"parts of data", DataParallel{.num_micro_batches = 2}, 2},
          Plan{"stages", PipeshardParallel{.num_micro_batches = 4, .stages = UniformStages{2}},
               2}}) {
      CAPTURE(std::string(plan.name));
      const Executable train = parallelize(step, plan.method, Cluster::local(plan.devices, "cpu"));
      TrainState state = train.init(3);
      const double alone = loss_alone(decoder, state, documents);
      CHECK(train.run(state, batch).loss() == doctest::Approx(alone).epsilon(1e-5));
      // The same parameters after the step.
      const std::vector<double> table = state["tokens.table"].to_host().to_doubles();
      if (first.empty()) first = table;
      for (std::size_t i = 0; i < table.size(); ++i) CHECK(std::abs(table[i] - first[i]) < 1e-6);
    }
  }
}

TEST_CASE("rows of micro-batches, and batches, count as their labels do") {
  // Of 16 tokens in a row the documents have 15, 3, 11 and 2 labels to learn.
  std::vector<TextExample> examples = examples_of(documents_of({16, 16, 16, 16}));
  const std::vector<int> learnt = {15, 3, 11, 2};
  for (std::size_t i = 0; i < examples.size(); ++i)
    for (std::size_t token = 0; token < 16; ++token)
      examples[i].learnt.push_back(static_cast<int>(token) > 15 - learnt[i]);
  const models::Decoder decoder = decoder_of(models::DecoderKind::llama);
  const auto loss_of = [&](std::int64_t rows) {
    const Executable step =
        parallelize(evaluation_step(packed_inputs(rows),
                                    [&](const Batch& b) { return decoder.packed_loss(b); }),
                    Serial{}, Cluster::local(1, "cpu"));
    TrainState state = step.init(3);
    return step.run(state, packed_batches(examples, rows, kLength).epoch(0)).metrics.values();
  };
  const std::map<std::string, double> whole = loss_of(4), parts = loss_of(1), uneven = loss_of(3);
  CHECK(whole.at("loss_weight") == doctest::Approx(31.0 / 64));
  for (const auto& [name, value] : whole) {
    CHECK(parts.at(name) == doctest::Approx(value).epsilon(1e-6));
    CHECK(uneven.at(name) == doctest::Approx(value).epsilon(1e-6));
  }
}

TEST_CASE("documents go into the first row with room, and long ones are cut") {
  const std::vector<Ids> documents = {{1, 2, 3, 4}, {5}, {6, 7, 8, 9, 10, 11, 12}, {13, 14}};
  const Batches batches = packed_batches(examples_of(documents), 2, 4);
  REQUIRE(batches.size() == 2);
  std::vector<BatchData> all;
  for (const BatchData& batch : batches.epoch(0)) all.push_back(batch);
  const auto column = [&](std::size_t batch, const char* name) {
    return to_string(all[batch].at(name));
  };
  CHECK(column(0, "tokens") == "i32[2, 4] [[1, 2, 3, 13], [6, 7, 8, 9]]");
  CHECK(column(0, "labels") == "i32[2, 4] [[2, 3, 4, 14], [7, 8, 9, 10]]");
  CHECK(column(0, "segments") == "i32[2, 4] [[1, 1, 1, 2], [1, 1, 1, 1]]");
  CHECK(column(0, "positions") == "i32[2, 4] [[0, 1, 2, 0], [0, 1, 2, 3]]");
  CHECK(column(1, "tokens") == "i32[1, 4] [[10, 11, 0, 0]]");
  CHECK(column(1, "labels") == "i32[1, 4] [[11, 12, -1, -1]]");
  CHECK(column(1, "segments") == "i32[1, 4] [[1, 1, 0, 0]]");
  CHECK(error_of([] {
          packed_batches({{{1}}, {{}}, {{1, 2}, {true, false}}}, 1, 4);
        }) == "packed_batches: no document has two tokens or more of which one is learnt");
  CHECK(error_of([] {
          packed_batches({{{1, 2}, {true}}}, 1, 4);
        }) == "packed_batches: an example has 2 tokens, but says of 1 whether they are learnt");
  CHECK(error_of([] {
          packed_batches({{{1, 2}}}, 1, 0);
        }) == "packed_batches: rows of 0 tokens; give at least 1");
}

TEST_CASE("packing is full: rows as many as the tokens need, but for what fits nowhere") {
  std::vector<int> sizes;
  std::int64_t tokens = 0;
  for (int i = 0; i < 400; ++i) {
    sizes.push_back(2 + i * i % 11);
    tokens += sizes.back() - 1;
  }
  const Batches batches = packed_batches(examples_of(documents_of(sizes)), 1, 64, 7);
  CHECK(batches.size() <= 1.05 * static_cast<double>(tokens) / 64 + 1);
  std::int64_t counted = 0;
  for (const BatchData& batch : batches.epoch(0))
    for (const std::int32_t label : batch.at("labels").elements_as<std::int32_t>())
      counted += label >= 0 ? 1 : 0;
  CHECK(counted == tokens);
}

TEST_CASE("mistakes with segments are told") {
  const auto error = [](TensorType segments, TensorType positions) {
    return error_of([&] {
      training_step(
          {{"segments", segments}, {"positions", positions}},
          [](const Batch& b) {
            const nn::Documents in(b["segments"], b["positions"]);
            return LossAndMetrics(Value{});
          },
          optim::Sgd{})
          .trace(1);
    });
  };
  CHECK(error({i32, {2, 4}}, {i32, {2, 5}}) ==
        "nn::Documents: segments are i32[2, 4] and positions i32[2, 5]; both must be i32 [B, T]");
  CHECK(error({f32, {2, 4}}, {f32, {2, 4}}) ==
        "nn::Documents: segments are f32[2, 4] and positions f32[2, 4]; both must be i32 [B, T]");
}

}  // namespace packed_test
