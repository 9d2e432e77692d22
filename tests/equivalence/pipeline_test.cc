// Pipelines with a user's defaults against one device: models x stages x schedules, at night x
// devices x micro-batches.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include <cmath>
#include <optional>
#include <random>

#include "equivalence/mlp_case.h"
#include "support/gpt_stack.h"
#include "support/nightly.h"

namespace pipeline_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

constexpr int kSteps = 3;
constexpr std::int64_t kRows = 24, kWidth = 10;

/// A training step, its layers as marked, and its batches.
struct Model {
  std::string name;
  DType dtype = f32;
  int layers = 0;
  TrainingStep train, evaluate;
  std::function<std::map<std::string, Array>(int step)> batch;
};

enum class Kind { bias, tied, residual, clipped };

/// Layers of `kind`, with a boundary after each but the last.
Value mlp(Kind kind, int layers, Value x) {
  const nn::Dense shared(kWidth);
  Value h = x;
  for (int l = 0; l < layers; ++l) {
    const bool same_width = kind == Kind::tied || kind == Kind::residual || l + 1 == layers;
    const nn::Dense own(same_width ? kWidth : kWidth + 2 + l % 3);
    const Value next = tanh((kind == Kind::tied && l % 3 == 0 ? shared : own)(h));
    h = kind == Kind::residual ? h + next : next;
    if (l + 1 < layers) h = mark_pipeline_boundary(h);
  }
  return kind == Kind::residual ? h - x : h;
}

Array numbers(DType dtype, const Shape& shape, double phase) {
  std::vector<float> values(num_elements(shape));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(std::sin(0.37 * static_cast<double>(i) + phase));
  return Array(values, shape).cast(dtype);
}

Model mlp_model(Kind kind, int layers, DType dtype) {
  const std::vector<BatchInput> inputs{{"x", {dtype, {kRows, kWidth}}},
                                       {"y", {dtype, {kRows, kWidth}}}};
  const auto model = [kind, layers](const Batch& b) {
    const Value h = mlp(kind, layers, b["x"]), loss = nn::mean_squared_error(h, b["y"]);
    return LossAndMetrics(loss, {{"size", mean(abs(h))}});
  };
  const StepOptions options{.clip_global_norm = kind == Kind::clipped ? 0.05 : 0};
  // Adam divides a gradient by its size, rounding included, which 12 layers of f32 show.
  const Optimizer optimizer = dtype == f64
                                  ? Optimizer(optim::Adam{.learning_rate = 1e-3})
                                  : Optimizer(optim::Sgd{.learning_rate = 0.1, .momentum = 0.9});
  constexpr const char* kNames[] = {"bias", "tied", "residual", "clipped"};
  return {fmt::format("MLP {} {} {}", layers, kNames[static_cast<int>(kind)], name_of(dtype)),
          dtype,
          layers,
          training_step(inputs, model, optimizer, options),
          evaluation_step(inputs, model),
          [dtype](int step) -> std::map<std::string, Array> {
            return {{"x", numbers(dtype, {kRows, kWidth}, step)},
                    {"y", numbers(dtype, {kRows, kWidth}, 2.0 * step + 1)}};
          }};
}

/// Attention by einsum, layer norms, residuals, a tied one-hot embedding, cross entropy.
Model gpt_model(int blocks) {
  const GptStack s{.layers = blocks,
                   .batch = kRows,
                   .sequence = 5,
                   .hidden = 12,
                   .heads = 3,
                   .vocabulary = 11,
                   .causal = true};
  const TensorType tokens{i32, {s.batch, s.sequence}};
  const std::vector<BatchInput> inputs{{"x", tokens}, {"y", tokens}};
  return {fmt::format("GPT {}", blocks),
          f32,
          blocks,
          gpt_step(s, optim::Sgd{.learning_rate = 0.1, .momentum = 0.9}),
          evaluation_step(inputs, [s](const Batch& b) { return gpt_loss(s, b); }),
          [s](int step) -> std::map<std::string, Array> {
            const auto ids = [&](int shift) {
              std::vector<int> all;
              for (int i = 0; i < s.batch * s.sequence; ++i)
                all.push_back(static_cast<int>((i * i + 5 * (i + shift) + 3 * step) % 11));
              return Array(all, {s.batch, s.sequence});
            };
            return {{"x", ids(0)}, {"y", ids(1)}};
          }};
}

struct Outcome {
  Contents parameters;
  double evaluated = 0;
};

void check_traffic(const Executable& executable) {
  const auto planned = executable.traffic(), measured = executable.measured_traffic();
  CHECK(measured.size() == planned.size());
  for (const auto& [kind, traffic] : planned) {
    INFO(kind);
    REQUIRE(measured.contains(kind));
    CHECK(measured.at(kind).count == traffic.count);
    CHECK(std::abs(measured.at(kind).bytes - traffic.bytes) <= 1e-12 * traffic.bytes);
  }
}

Outcome run(const Model& model, const Method& method, int devices) {
  auto [train, evaluate] =
      parallelize(model.train, model.evaluate, method, Cluster::local(devices));
  TrainState state = train.init(1);
  for (int step = 0; step < kSteps; ++step) train.run(state, model.batch(step));
  CHECK(train.measured_bytes(state) == train.memory_bytes());
  check_traffic(train);
  Outcome outcome;
  for (const DistributedArray& p : state.parameters())
    outcome.parameters[p.name()] = p.to_host().to_doubles();
  outcome.evaluated = evaluate.run(state, model.batch(kSteps)).loss();
  return outcome;
}

/// Random layers per stage and devices per stage, at most four stages.
ManualStages random_stages(int layers, int devices, std::mt19937& random) {
  const auto parts_of = [&](int total, int parts) {  // ascending ends of `parts` nonempty parts
    std::vector<int> ends(total - 1);
    for (int i = 0; i < total - 1; ++i) ends[i] = i + 1;
    std::shuffle(ends.begin(), ends.end(), random);
    ends.resize(parts - 1);
    std::sort(ends.begin(), ends.end());
    ends.push_back(total);
    return ends;
  };
  const int stages = 1 + static_cast<int>(random() % std::min({layers, devices, 4}));
  const std::vector<int> layer_ends = parts_of(layers, stages),
                         device_ends = parts_of(devices, stages);
  ManualStages manual;
  for (int s = 0, layer = 0, device = 0; s < stages; ++s) {
    manual.layers.emplace_back();
    for (; layer < layer_ends[s]; ++layer) manual.layers.back().push_back(layer);
    manual.devices.push_back(device_ends[s] - device);
    device = device_ends[s];
  }
  return manual;
}

/// Two stages on each of the parts; none if devices, layers and micro-batches have no such parts.
std::optional<UniformStages> interleaved_stages(int layers, int devices, int micro_batches) {
  for (int parts = 4; parts >= 2; --parts)
    if (devices % parts == 0 && 2 * parts <= layers && micro_batches % parts == 0)
      return UniformStages{2 * parts, 2};
  return {};
}

std::vector<int> numbers_of(std::vector<int> daily, std::vector<int> all) {
  return sampled(std::move(daily), std::move(all));
}

void check_model(const Model& model) {
  std::mt19937 random(static_cast<unsigned>(model.layers));
  for (int micro_batches : numbers_of({4}, {1, 2, 4, 8})) {
    const Outcome serial = run(model, Serial{.num_micro_batches = micro_batches}, 1);
    const auto check = [&](const PipeshardParallel& method, int devices, const std::string& text) {
      INFO(model.name << ", " << micro_batches << " micro-batches, " << name_of(*method.schedule)
                      << ", " << devices << " devices, " << text);
      try {
        const Outcome here = run(model, method, devices);
        CHECK(deviation(here.parameters, serial.parameters) <= tolerance(model.dtype));
        CHECK(here.evaluated == doctest::Approx(serial.evaluated).epsilon(1e-5));
      } catch (const std::exception& error) {
        FAIL_CHECK(std::string(error.what()));
      }
    };
    for (int devices : numbers_of({4}, {1, 2, 3, 4, 5, 6, 7, 8})) {
      for (const ScheduleKind schedule :
           {ScheduleKind::gpipe, ScheduleKind::one_f_one_b, ScheduleKind::one_f_one_b_overlap,
            ScheduleKind::zero_bubble}) {
        PipeshardParallel method{.num_micro_batches = micro_batches, .schedule = schedule};
        const ManualStages manual = random_stages(model.layers, devices, random);
        method.stages = manual;
        check(method, devices, fmt::format("{} manual stages", manual.layers.size()));
        method.layers = AutoLayers{std::min(model.layers, 3)};
        method.stages = AutoStages{};
        check(method, devices, "automatic stages");
      }
      if (const auto stages = interleaved_stages(model.layers, devices, micro_batches))
        check({.num_micro_batches = micro_batches,
               .stages = *stages,
               .schedule = ScheduleKind::interleaved_one_f_one_b},
              devices, "interleaved");
    }
  }
}

}  // namespace

TEST_CASE("pipelines of MLPs in f32 compute what one device computes") {
  for (int layers : numbers_of({4}, {4, 7, 12}))
    for (Kind kind : {Kind::bias, Kind::tied, Kind::residual, Kind::clipped})
      check_model(mlp_model(kind, layers, f32));
}

TEST_CASE("pipelines of MLPs in f64 compute what one device computes" *
          doctest::skip(!is_nightly())) {
  for (int layers : {5, 8})
    for (Kind kind : {Kind::bias, Kind::tied, Kind::residual, Kind::clipped})
      check_model(mlp_model(kind, layers, f64));
}

TEST_CASE("pipelines of GPT-like stacks compute what one device computes") {
  for (int blocks : numbers_of({2}, {2, 4})) check_model(gpt_model(blocks));
}

}  // namespace pipeline_test
