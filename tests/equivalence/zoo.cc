// tests/equivalence/zoo.cc — tiny models of models/ under any method against one device
#include "equivalence/zoo.h"

#include <doctest/doctest.h>

#include <cmath>
#include <tuple>

#include "alpa/models/bert.h"
#include "alpa/models/gpt.h"
#include "alpa/models/moe.h"
#include "alpa/models/vit.h"
#include "alpa/models/wide_resnet.h"
#include "support/difference.h"

namespace alpa::testing {
namespace {

constexpr std::int64_t kZooBatch = 12, kSequence = 5, kWords = 11, kClasses = 5;
constexpr int kZooSteps = 3;

template <class Network>
ZooModel on_tokens(const std::string& name, Network network) {
  const TensorType type{i32, {kZooBatch, kSequence}};
  return {name,
          {{"tokens", type}, {"labels", type}},
          [network = std::move(network)](const Batch& b) {
            return network.loss(b["tokens"], b["labels"]);
          },
          token_batch(kZooBatch, kSequence, kWords)};
}

ZooModel on_images(const std::string& name, const Shape& image, const nn::Layer& network) {
  const Shape shape{kZooBatch, image[0], image[1], image[2]};
  std::vector<float> x(num_elements(shape));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(0.37F * static_cast<float>(i));
  std::vector<std::int32_t> y(kZooBatch);
  for (std::size_t i = 0; i < y.size(); ++i) y[i] = static_cast<std::int32_t>(i * 7 % kClasses);
  return {name,
          {{"x", {f32, shape}}, {"y", {i32, {kZooBatch}}}},
          [network](const Batch& b) -> LossAndMetrics {
            return nn::cross_entropy(network(b["x"]), b["y"]);
          },
          {{"x", Array(x, shape)}, {"y", Array(y, {kZooBatch})}}};
}

ZooModel decoder(const std::string& name, models::DecoderKind kind) {
  const bool llama = kind == models::DecoderKind::llama;
  return on_tokens(name, models::Decoder({.kind = kind,
                                          .layers = 2,
                                          .hidden = 12,
                                          .heads = 3,
                                          .key_heads = llama ? 1 : 0,
                                          .sequence = kSequence,
                                          .vocabulary = kWords,
                                          .feed_forward = llama ? 17 : 0,
                                          .dropout = llama ? 0 : 0.1,
                                          .tied_head = !llama}));
}

/// Groups of 15 tokens: three rows.
models::MoeDecoder experts() {
  return models::MoeDecoder({.layers = 2,
                             .hidden = 12,
                             .heads = 3,
                             .experts = 6,
                             .sequence = kSequence,
                             .vocabulary = kWords,
                             .factor = 2,
                             .group = 15,
                             .balance_weight = 0.1});
}

/// Finds the tokens that are even in the batch, which the labels of others hide.
ZooModel bert() {
  ZooModel model = on_tokens(
      "bert", models::Bert({.encoder = {.layers = 2, .hidden = 12, .heads = 3, .dropout = 0.1},
                            .sequence = kSequence,
                            .vocabulary = kWords}));
  std::vector<std::int32_t> labels(kZooBatch * kSequence, models::Bert::kNotHidden);
  for (std::size_t i = 0; i < labels.size(); i += 3) labels[i] = static_cast<int>(i % kWords);
  model.batch.at("labels") = Array(labels, {kZooBatch, kSequence});
  return model;
}

ZooOutcome one_device(const ZooModel& model, int micro_batches, Precision precision) {
  return train(model, Serial{.num_micro_batches = micro_batches}, Cluster::local(1), precision);
}

const ZooOutcome& reference(const ZooModel& model, int micro_batches, Precision precision) {
  static std::map<std::tuple<std::string, int, Precision>, ZooOutcome> known;
  const auto key = std::tuple(model.name, micro_batches, precision);
  const auto found = known.find(key);
  if (found != known.end()) return found->second;
  return known[key] = one_device(model, micro_batches, precision);
}

double length_of_difference(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return INFINITY;
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum);
}

constexpr double kRounding = 1.0 / 256;
/// Where a tensor has no larger element, such as the gradient of a key's bias, which is 0 but for
/// rounding: all products of a query with keys change alike.
constexpr double kLeast = 1e-2;

/// Larger weights than the initial ones of width 0.02, so that attention attends and gates choose.
void spread_out(TrainState& state) {
  for (DistributedArray parameter : state.parameters()) {
    Array array = parameter.to_host();
    if (array.shape().size() < 2 || largest_magnitude(array.to_doubles()) > 0.1) continue;
    for (float& x : array.mutable_elements_as<float>()) x *= 15;
    parameter = array;
  }
}

void check_state_in_bf16(const ZooOutcome& outcome, const ZooOutcome& one,
                         const ZooOutcome& f32_run) {
  for (const auto& [name, values] : f32_run.state) {
    CAPTURE(name);
    const double length = length_of_difference(values, std::vector<double>(values.size(), 0));
    CHECK(length_of_difference(outcome.state.at(name), values) <=
          3 * length_of_difference(one.state.at(name), values) +
              16 * kRounding * std::max(length, kLeast));
  }
}

void check_state(const ZooOutcome& outcome, const ZooOutcome& one) {
  for (const auto& [name, values] : one.state) {
    CAPTURE(name);
    // Of squares of gradients, errors relative to the largest are twice those of the gradients.
    const double bound = name.ends_with(".velocity") ? 2e-5 : 1e-5;
    CHECK(largest_difference(outcome.state.at(name), values, kLeast) <= bound);
  }
}

}  // namespace

std::map<std::string, Array> token_batch(std::int64_t rows, std::int64_t sequence,
                                         std::int64_t vocabulary) {
  std::vector<std::int32_t> tokens, labels;
  for (std::int64_t i = 0; i < rows * sequence; ++i) {
    tokens.push_back(static_cast<std::int32_t>((37 * i * i + 5 * i) % vocabulary));
    labels.push_back(static_cast<std::int32_t>((41 * i * i + 7 * i + 5) % vocabulary));
  }
  return {{"tokens", Array(tokens, {rows, sequence})}, {"labels", Array(labels, {rows, sequence})}};
}

const std::vector<ZooModel>& zoo() {
  static const std::vector<ZooModel> models{
      decoder("gpt", models::DecoderKind::gpt),
      decoder("llama", models::DecoderKind::llama),
      on_tokens("moe", experts()),
      bert(),
      on_images("vit", {6, 4, 3},
                models::Vit({.encoder = {.layers = 2, .hidden = 12, .heads = 3, .norm_first = true},
                             .patch = 2,
                             .classes = kClasses})),
      on_images("wide_resnet", {7, 6, 3},
                models::wide_resnet({.blocks = {1, 1},
                                     .channels = 3,
                                     .width = 2,
                                     .classes = kClasses,
                                     .small_images = true,
                                     .pooled_stem = false}))};
  return models;
}

const ZooModel& zoo_model(const std::string& name) {
  for (const ZooModel& model : zoo())
    if (model.name == name) return model;
  FAIL("no model ", name);
  return zoo()[0];
}

ZooOutcome train(const ZooModel& model, const Method& method, const Cluster& cluster,
                 Precision precision) {
  const optim::Sgd sgd{.learning_rate = 0.1, .momentum = 0.9};
  const TrainingStep step = training_step(model.inputs, model.model, sgd, {.precision = precision});
  const Executable executable = parallelize(step, method, cluster);
  TrainState state = executable.init(3);
  spread_out(state);
  ZooOutcome outcome;
  for (int i = 0; i < kZooSteps; ++i)
    outcome.losses.push_back(executable.run(state, model.batch).loss());
  for (const std::string& name : state.names())
    outcome.state[name] = state[name].to_host().to_doubles();
  CHECK(executable.measured_bytes(state) == executable.memory_bytes());
  return outcome;
}

void check_like_one_device(const ZooModel& model, Method method, const Cluster& cluster,
                           int micro_batches, Precision precision) {
  std::visit(
      [&](auto& options) {
        options.num_micro_batches = micro_batches;
        options.solver_seconds = 1;  // any plan must be right, the best or not
      },
      method);
  const std::string kind(std::visit([](const auto& m) { return name_of(m.kind); }, method));
  INFO(model.name << ", " << kind << " on " << cluster.num_devices() << " devices, "
                  << micro_batches << " micro-batches");
  const ZooOutcome& one = reference(model, micro_batches, precision);
  const ZooOutcome outcome = train(model, method, cluster, precision);
  const bool whole = precision == Precision::as_written;
  CHECK(outcome.losses[kZooSteps - 1] < outcome.losses[0]);
  for (int i = 0; i < kZooSteps; ++i)
    CHECK(outcome.losses[i] ==
          doctest::Approx(one.losses[i]).epsilon(whole ? 1e-5 : 4 * kRounding));
  REQUIRE(outcome.state.size() == one.state.size());
  if (whole) return check_state(outcome, one);
  check_state_in_bf16(outcome, one, reference(model, micro_batches, Precision::as_written));
}

}  // namespace alpa::testing
