// tests/equivalence/reproducible_case.cc — bits of tiny models under twelve plans
#include "equivalence/reproducible_case.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>

#include "alpa/models/gpt.h"
#include "alpa/models/wide_resnet.h"

namespace alpa::testing {
namespace {

constexpr std::int64_t kExamples = 16, kTokens = 6, kVocabulary = 20, kLabels = 5;
constexpr int kMicroBatches = 2;

Array waves(const Shape& shape) {
  std::vector<float> x(num_elements(shape));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(0.37F * static_cast<float>(i));
  return Array(x, shape);
}

Array classes() {
  std::vector<std::int32_t> y(kExamples);
  for (std::size_t i = 0; i < y.size(); ++i) y[i] = static_cast<std::int32_t>(i * 7 % kLabels);
  return Array(y, {kExamples});
}

ZooModel classifier(const std::string& name, const Shape& row, const nn::Layer& network) {
  Shape shape{kExamples};
  shape.insert(shape.end(), row.begin(), row.end());
  return {name,
          {{"x", {f32, shape}}, {"y", {i32, {kExamples}}}},
          [network](const Batch& b) -> LossAndMetrics {
            return nn::cross_entropy(network(b["x"]), b["y"]);
          },
          {{"x", waves(shape)}, {"y", classes()}}};
}

ZooModel gpt(const std::string& name, double dropout) {
  const models::Decoder network({.layers = 2,
                                 .hidden = 24,
                                 .heads = 4,
                                 .sequence = kTokens,
                                 .vocabulary = kVocabulary,
                                 .dropout = dropout,
                                 .tied_head = false});
  const TensorType type{i32, {kExamples, kTokens}};
  return {name,
          {{"tokens", type}, {"labels", type}},
          [network](const Batch& b) { return network.loss(b["tokens"], b["labels"]); },
          token_batch(kExamples, kTokens, kVocabulary)};
}

Cluster slow_devices(int devices) {
  Cluster cluster = Cluster::local(devices);
  for (auto& [dtype, rate] : cluster.device.flops_per_second) rate /= 1e4;
  cluster.device.memory_bytes_per_second /= 1e4;
  return cluster;
}

}  // namespace

std::vector<RunPlan> twelve_plans() {
  constexpr int parts = kMicroBatches;
  return {
      {"serial", Serial{.num_micro_batches = parts}, 1, 1},
      {"serial, 3 threads", Serial{.num_micro_batches = parts}, 1, 3},
      {"data on 2", DataParallel{.num_micro_batches = parts}, 2, 2},
      {"data on 8", DataParallel{.num_micro_batches = parts}, 8, 1},
      {"zero2 on 4", Zero2Parallel{.num_micro_batches = parts}, 4, 1},
      {"zero3 on 4", Zero3Parallel{.num_micro_batches = parts}, 4, 2},
      {"shard on 3", ShardParallel{.num_micro_batches = parts}, 3, 1},
      {"shard on 2x2",
       ShardParallel{.num_micro_batches = parts, .mesh_shape = {2, 2}, .batch_mesh_axis = 0}, 4, 1},
      {"shard on 2x4", ShardParallel{.num_micro_batches = parts, .mesh_shape = {2, 4}}, 8, 1},
      {"shard on 5", ShardParallel{.num_micro_batches = parts}, 5, 1},
      {"two stages", PipeshardParallel{.num_micro_batches = parts, .layers = AutoLayers{}}, 2, 1},
      {"two stages of 2",
       PipeshardParallel{.num_micro_batches = parts,
                         .layers = AutoLayers{},
                         .schedule = ScheduleKind::zero_bubble,
                         .mesh_shape = {2}},
       4, 1}};
}

const std::vector<ZooModel>& reproducible_models() {
  static const std::vector<ZooModel> models{
      classifier(
          "mlp", {24},
          nn::Sequential{nn::Dense(40), nn::GELU(), nn::Dense(32), nn::ReLU(), nn::Dense(kLabels)}),
      gpt("gpt", 0), gpt("gpt with dropout", 0.1),
      classifier("wide_resnet", {9, 9, 3},
                 models::wide_resnet({{1, 1}, 4, 2, kLabels, true, false}))};
  return models;
}

Bits train_bits(const ZooModel& model, const RunPlan& plan, int steps, bool reproducible,
                const Optimizer& optimizer) {
  Method method = plan.method;
  std::visit(
      [&](auto& options) {
        options.executor = {.threads_per_device = plan.threads, .reproducible = reproducible};
      },
      method);
  const TrainingStep step = training_step(model.inputs, model.model, optimizer);
  const Executable train = parallelize(step, method, slow_devices(plan.devices));
  TrainState state = train.init(1);
  Bits bits;
  for (int s = 0; s < steps; ++s) bits.losses.push_back(train.run(state, model.batch).loss());
  for (const std::string& name : state.names()) {
    const Array array = state[name].to_host().cast(f32);
    for (const float x : array.elements_as<float>())
      bits.state[name].push_back(std::bit_cast<std::uint32_t>(x));
  }
  return bits;
}

void check_twelve_plans(int steps) {
  const std::vector<RunPlan> plans = twelve_plans();
  for (const ZooModel& model : reproducible_models()) {
    CAPTURE(model.name);
    const Bits serial = train_bits(model, plans.front(), steps);
    CHECK(serial.losses.back() < serial.losses.front());
    for (const RunPlan& plan : plans) {
      CAPTURE(plan.name);
      const Bits bits = train_bits(model, plan, steps);
      CHECK(bits.losses == serial.losses);
      for (const auto& [name, values] : bits.state) {
        CAPTURE(name);
        CHECK(values == serial.state.at(name));
      }
    }
  }
}

}  // namespace alpa::testing
