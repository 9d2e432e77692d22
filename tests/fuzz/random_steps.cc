// Random models whose numbers depend on the micro-batch: events on batches of every size, under
// random methods and on one device.
#include "fuzz/random_steps.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "support/difference.h"
#include "support/temporary_file.h"

namespace alpa::fuzz {
namespace {

constexpr double kTolerance = 1e-8;
constexpr int kEvents = 6;

Value activated(int which, Value x) {
  switch (which) {
    case 0: return relu(x);
    case 1: return gelu(x);
    case 2: return tanh(x);
    default: return x;
  }
}

enum class StepKind : std::uint8_t { training, evaluation, prediction };

/// A step on so many rows.
struct Event {
  StepKind kind;
  std::map<std::string, Array> batch;
};

/// The three steps of a model on whole batches, on one state.
struct Steps {
  TrainingStep training, evaluation, prediction;
};

/// ALPA_FUZZ_BACKEND, or else "cpu".
std::string backend() {
  const char* given = std::getenv("ALPA_FUZZ_BACKEND");
  return given == nullptr ? "cpu" : given;
}

/// Adds the metrics or the outputs of a step to `numbers`.
void add(const StepResult& result, StepKind kind, std::vector<double>& numbers) {
  if (kind == StepKind::prediction) {
    const std::vector<double> values = result.outputs["prediction"].to_doubles();
    numbers.insert(numbers.end(), values.begin(), values.end());
    return;
  }
  for (const auto& [name, value] : result.metrics.values()) numbers.push_back(value);
}

struct Executables {
  Executable training, evaluation, prediction;

  const Executable& of(StepKind kind) const {
    return kind == StepKind::training     ? training
           : kind == StepKind::evaluation ? evaluation
                                          : prediction;
  }
  std::int64_t memory_bytes() const {
    return std::max(
        {training.memory_bytes(), evaluation.memory_bytes(), prediction.memory_bytes()});
  }
};

Executables executables(const Steps& steps, const Method& method, const Cluster& cluster) {
  const std::vector<TrainingStep> all{steps.training, steps.evaluation, steps.prediction};
  const std::vector<Executable> loaded =
      parallelize(std::span<const TrainingStep>(all), method, cluster);
  return {loaded[0], loaded[1], loaded[2]};
}

/// Runs the events. Throws Error if other bytes are measured than were planned.
Trail run(const Executables& loaded, const std::vector<Event>& events) {
  Trail trail;
  TrainState state = loaded.training.init(7);
  std::int64_t planned = loaded.memory_bytes();
  for (const Event& event : events) {
    add(loaded.of(event.kind).run(state, event.batch), event.kind, trail.numbers);
    if (loaded.memory_bytes() > planned)
      trail.enlarged += fmt::format(" {} to {} for {} rows", planned, loaded.memory_bytes(),
                                    event.batch.at("x").shape()[0]);
    planned = loaded.memory_bytes();
    const std::int64_t measured = loaded.training.measured_bytes(state);
    require(measured <= planned, "{} bytes measured, {} planned", measured, planned);
  }
  const auto whole = std::any_of(events.begin(), events.end(), [&](const Event& event) {
    return event.kind == StepKind::training &&
           event.batch.at("x").shape()[0] == loaded.training.batch_rows();
  });
  if (whole)
    require(loaded.training.measured_bytes(state) >= loaded.training.executor().memory_bytes(),
            "{} bytes measured, {} planned for whole batches",
            loaded.training.measured_bytes(state), loaded.training.executor().memory_bytes());
  for (const std::string& name : state.names())
    trail.state[name] = state[name].to_host().to_doubles();
  return trail;
}

/// The largest difference of a number, as a share of the largest of its tensor, at least 1.
std::string difference_of(const Trail& found, const Trail& expected) {
  if (const double apart = testing::largest_difference(found.numbers, expected.numbers, 1);
      !(apart <= kTolerance))
    return fmt::format("metrics differ by {}: {}\ninstead of {}", apart,
                       fmt::join(found.numbers, " "), fmt::join(expected.numbers, " "));
  for (const auto& [name, values] : expected.state)
    if (const double apart = testing::largest_difference(found.state.at(name), values, 1);
        !(apart <= kTolerance))
      return fmt::format("\"{}\" differs by {}", name, apart);
  return "";
}

}  // namespace

RandomStep::RandomStep(Random& random)
    : tokens_(chance(random, 0.5) ? 1 + below(random, 4) : 0),
      width_(2 * (1 + below(random, 4))),
      classes_(2 + below(random, 5)),
      last_(classes_) {
  if (chance(random, 0.5)) ignored_ = chance(random, 0.5) ? -100 : 1;
  for (int block = 0; block < 4; ++block) blocks_.push_back(random_block(random));
  skips_ = chance(random, 0.3);
  optimizer_ = optim::Sgd{.learning_rate = 0.05, .momentum = chance(random, 0.5) ? 0.9 : 0};
  options_.clip_global_norm = chance(random, 0.3) ? 0.5 : 0;
  options_.ema = chance(random, 0.2) ? 0.9 : 0;
  options_.remat = chance(random, 0.2) ? Remat::all : Remat::marked;
  text_ = fmt::format("{} tokens, width {}, {} classes{}{}{}: {}", tokens_, width_, classes_,
                      ignored_ ? fmt::format(", label {} ignored", *ignored_) : "",
                      options_.remat == Remat::all ? ", computed again" : "",
                      skips_ ? ", a value skips blocks" : "", text_);
}

RandomStep::Block RandomStep::random_block(Random& random) {
  const int which = below(random, 4);
  const auto named = [&](const std::string& name) { text_ += (text_.empty() ? "" : ", ") + name; };
  switch (below(random, tokens_ > 0 ? 7 : 6)) {
    case 0: {
      named("dropout");
      const nn::Dense dense(width_);
      const nn::Dropout dropout(0.1 * (1 + below(random, 6)));
      return [=](Value x) -> Flow { return {dropout(activated(which, dense(x))), {}}; };
    }
    case 1: {
      named("batch norm");
      const nn::Dense dense(width_);
      const nn::BatchNorm norm({.momentum = 0.7, .epsilon = 0.1});
      return [=](Value x) -> Flow { return {x + activated(which, norm(dense(x))), {}}; };
    }
    case 2: {
      named("batch norm of inputs");
      const nn::BatchNorm norm({.epsilon = 0.1});
      const nn::Dense dense(width_);
      return [=](Value x) -> Flow { return {activated(which, dense(norm(x))), {}}; };
    }
    case 3: {
      const std::int64_t experts = 2 + below(random, 3);
      const nn::MoE moe(experts, 1 + below(random, 5),
                        {.choices = 1 + below(random, 2),
                         .capacity_factor = chance(random, 0.5) ? 1 : 0.6,
                         .group = chance(random, 0.3) ? 1 : 2048});
      named(fmt::format("{} experts", experts));
      return [=](Value x) -> Flow {
        const nn::MoEOutput out = moe(x);
        return {x + out.y, out.balance_loss};
      };
    }
    case 4: {
      named("layer norm");
      const nn::LayerNorm norm(0.1);
      const nn::Dense wide(1 + below(random, 9)), back(width_);
      return [=](Value x) -> Flow { return {x + back(activated(which, wide(norm(x)))), {}}; };
    }
    case 5: {
      named("noise");
      const nn::Dense dense(width_);
      return [=](Value x) -> Flow {
        const Value y = dense(x);
        return {x.builder->training() ? y + random_normal(*x.builder, y.type(), 0, 0.1) : y, {}};
      };
    }
    default: {
      named("attention");
      const nn::SelfAttention attention(width_, 2, {.causal = chance(random, 0.5), .dropout = 0.2});
      return [=](Value x) -> Flow { return {x + attention(x), {}}; };
    }
  }
}

std::vector<BatchInput> RandomStep::inputs(std::int64_t rows) const {
  const Shape labels = tokens_ > 0 ? Shape{rows, tokens_} : Shape{rows};
  Shape x = labels;
  x.push_back(width_);
  return {{"x", {f64, x}}, {"label", {i32, labels}}};
}

Value RandomStep::logits(const Batch& b, Value& extra_loss) const {
  Value h = b["x"], skipping;
  for (const Block& block : blocks_) {
    const Flow flow = block(h);
    if (flow.extra_loss) extra_loss = extra_loss ? extra_loss + flow.extra_loss : flow.extra_loss;
    h = &block == &blocks_.back() ? flow.h : mark_pipeline_boundary(flow.h);
    if (!skipping) skipping = h;
  }
  return last_(skips_ ? h + skipping : h);
}

LossAndMetrics RandomStep::loss(const Batch& b) const {
  Value extra_loss;
  const Value y = logits(b, extra_loss);
  const Value loss = nn::cross_entropy(y, b["label"], {.ignored_label = ignored_});
  return {extra_loss ? loss + extra_loss * 0.01 : loss, {{"size", mean(square(y))}}};
}

TrainingStep RandomStep::training(std::int64_t rows) const {
  return training_step(
      inputs(rows), [model = *this](const Batch& b) { return model.loss(b); }, optimizer_,
      options_);
}

TrainingStep RandomStep::evaluation(std::int64_t rows) const {
  return evaluation_step(inputs(rows), [model = *this](const Batch& b) { return model.loss(b); },
                         {.ema = options_.ema != 0});
}

TrainingStep RandomStep::prediction(std::int64_t rows) const {
  std::vector<BatchInput> x = inputs(rows);
  x.pop_back();
  return prediction_step(std::move(x), [model = *this](const Batch& b) {
    Value extra_loss;
    return Predictions(model.logits(b, extra_loss));
  });
}

std::map<std::string, Array> RandomStep::batch(std::int64_t rows, Random& random) const {
  const std::vector<BatchInput> types = inputs(rows);
  std::vector<double> x(static_cast<std::size_t>(types[0].type.elements()));
  std::normal_distribution<double> normal(0, 1);
  for (double& value : x) value = normal(random);
  std::vector<std::int32_t> label(static_cast<std::size_t>(types[1].type.elements()));
  for (std::int32_t& value : label)
    value = ignored_ && chance(random, 0.4) ? static_cast<std::int32_t>(*ignored_)
                                            : below(random, static_cast<int>(classes_));
  return {{"x", Array(x, types[0].type.shape)}, {"label", Array(label, types[1].type.shape)}};
}

Placement random_placement(Random& random, const RandomStep& model, int micro_batches,
                           std::int64_t rows) {
  const int split = std::min<int>(4, static_cast<int>(rows) / micro_batches);
  if (chance(random, 0.4) && split >= 2) {
    const int devices = 2 + below(random, split - 1);
    const std::vector<Method> methods{DataParallel{.num_micro_batches = micro_batches},
                                      Zero2Parallel{.num_micro_batches = micro_batches},
                                      Zero3Parallel{.num_micro_batches = micro_batches}};
    const int which = below(random, 3);
    return {methods[which], devices,
            fmt::format("{} on {}",
                        which == 0   ? "data"
                        : which == 1 ? "zero2"
                                     : "zero3",
                        devices)};
  }
  if (chance(random, 0.25)) {
    ShardParallel shard{.num_micro_batches = micro_batches};
    if (chance(random, 0.5)) shard.mesh_shape = {2, 2};
    return {shard, 4, fmt::format("shard{}", shard.mesh_shape.empty() ? "" : " on 2x2")};
  }
  PipeshardParallel pipeline{.num_micro_batches = micro_batches};
  pipeline.schedule = one_of<ScheduleKind>(
      random, {ScheduleKind::gpipe, ScheduleKind::one_f_one_b, ScheduleKind::one_f_one_b_overlap,
               ScheduleKind::zero_bubble, ScheduleKind::interleaved_one_f_one_b,
               ScheduleKind::interleaved_one_f_one_b});
  const bool interleaved = pipeline.schedule == ScheduleKind::interleaved_one_f_one_b;
  const int parts = interleaved ? 2 : 2 + below(random, 3);
  pipeline.stages = interleaved ? UniformStages{4, 2} : UniformStages{parts};
  const bool automatic = !model.computes_again() && chance(random, 0.25);
  if (automatic) pipeline.layers = AutoLayers{4};
  const int devices = parts * (parts == 2 && chance(random, 0.4) ? 2 : 1);
  return {pipeline, devices,
          fmt::format("{} on {} devices in {} parts{}", name_of(*pipeline.schedule), devices, parts,
                      automatic ? ", layers found" : "")};
}

std::string short_batch_difference_of(std::uint64_t seed) {
  Random random(seed);
  const RandomStep model(random);
  const int micro_batches = 1 + below(random, 5);
  const std::int64_t rows = micro_batches * (1 + below(random, 6));
  const std::int64_t others = chance(random, 0.5) ? rows : micro_batches * (1 + below(random, 6));
  const Steps steps{model.training(rows), model.evaluation(others), model.prediction(others)};
  std::vector<Event> events;
  for (int n = 0; n < kEvents; ++n) {
    const StepKind kind =
        one_of<StepKind>(random, {StepKind::training, StepKind::training, StepKind::training,
                                  StepKind::evaluation, StepKind::prediction});
    const std::int64_t whole = kind == StepKind::training ? rows : others;
    const std::int64_t some = 1 + below(random, static_cast<int>(whole));
    events.push_back({kind, model.batch(chance(random, 0.3) ? whole : some, random)});
    if (kind == StepKind::prediction) events.back().batch.erase("label");
  }
  const Trail expected = run(
      executables(steps, Serial{.num_micro_batches = micro_batches}, Cluster::local(1)), events);
  for (int n = 0; n < 2; ++n) {
    const Placement placement = random_placement(random, model, micro_batches, rows);
    std::string failure;
    try {
      const Trail found =
          run(executables(steps, placement.method, Cluster::local(placement.devices, backend())),
              events);
      failure = difference_of(found, expected);
      if (!found.enlarged.empty() && std::getenv("ALPA_FUZZ_SEEDS"))
        fmt::print(stderr, "seed {}: {}, {} micro-batches of {} rows: enlarged{}\n", seed,
                   placement.text, micro_batches, rows, found.enlarged);
    } catch (const std::exception& error) {
      failure = error.what();
    }
    if (failure.empty()) continue;
    std::vector<std::int64_t> of_events;
    for (const Event& event : events) of_events.push_back(event.batch.at("x").shape()[0]);
    return fmt::format("{}, {} micro-batches of {} rows ({}), events of {} rows, {}: {}",
                       placement.text, micro_batches, rows, others, fmt::join(of_events, ", "),
                       model.text(), failure);
  }
  return "";
}

}  // namespace alpa::fuzz
