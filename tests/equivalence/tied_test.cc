// Weights that several stages read, and their gradients: they cross the stages once per step, and
// the pipeline computes what one device computes.
#include <doctest/doctest.h>

#include <cmath>

#include "alpa/models/gpt.h"
#include "equivalence/zoo.h"

namespace tied_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

constexpr std::int64_t kRows = 12, kSequence = 5, kHidden = 12, kWords = 11;
constexpr std::int64_t kTableBytes = kWords * kHidden * 4;

/// Four blocks, of which the embedding's table is the head.
ZooModel tied_gpt() {
  const models::Decoder decoder({.layers = 4,
                                 .hidden = kHidden,
                                 .heads = 3,
                                 .sequence = kSequence,
                                 .vocabulary = kWords,
                                 .dropout = 0.1});
  const TensorType type{i32, {kRows, kSequence}};
  return {"tied gpt",
          {{"tokens", type}, {"labels", type}},
          [decoder](const Batch& b) { return decoder.loss(b["tokens"], b["labels"]); },
          token_batch(kRows, kSequence, kWords)};
}

/// Three layers on x f32 [12, 12]. `body` gets a weight f32 [12, 12] that the first layer reads.
ZooModel layers_of_one_weight(const std::string& name,
                              const std::function<Value(Value x, Value weight)>& body) {
  std::vector<float> x(kRows * kHidden);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(0.37F * static_cast<float>(i));
  return {name,
          {{"x", {f32, {kRows, kHidden}}}},
          [body](const Batch& b) -> LossAndMetrics {
            const Value weight = b.builder().parameter("weight", {f32, {kHidden, kHidden}},
                                                       Initializer::normal(0, 0.3));
            return {mean(square(body(b["x"], weight))), {}};
          },
          {{"x", Array(x, {kRows, kHidden})}}};
}

Executable compiled(const ZooModel& model, const PipeshardParallel& method, int devices,
                    Precision precision = Precision::as_written) {
  return parallelize(training_step(model.inputs, model.model, optim::Sgd{.momentum = 0.9},
                                   {.precision = precision}),
                     method, Cluster::local(devices));
}

/// What crosses once per step from one stage to another; none: nothing.
StageTransfer once_between(const Plan& plan, int from, int to) {
  for (const StageTransfer& transfer : plan.transfers)
    if (transfer.once && transfer.from == from && transfer.to == to) return transfer;
  return {};
}

/// Bytes that cross between two stages for each micro-batch.
double bytes_each(const Plan& plan, int from, int to) {
  for (const StageTransfer& transfer : plan.transfers)
    if (!transfer.once && transfer.from == from && transfer.to == to) return transfer.bytes;
  return 0;
}

Traffic measured_transfers(const ZooModel& model, const Executable& train) {
  TrainState state = train.init(1);
  train.run(state, model.batch);
  CHECK(train.measured_bytes(state) == train.memory_bytes());
  const Traffic measured = train.measured_traffic().at("transfer"),
                planned = train.traffic().at("transfer");
  CHECK(measured.count == planned.count);
  CHECK(measured.bytes == planned.bytes);
  return measured;
}

}  // namespace

TEST_CASE("a tied GPT in 2, 3 and 4 stages trains as on one device, under every schedule") {
  const ZooModel model = tied_gpt();
  for (const int micro_batches : {1, 4})
    for (const int stages : {2, 3, 4}) {
      CAPTURE(stages);
      for (const ScheduleKind schedule :
           {ScheduleKind::gpipe, ScheduleKind::one_f_one_b, ScheduleKind::one_f_one_b_overlap,
            ScheduleKind::zero_bubble})
        check_like_one_device(
            model, PipeshardParallel{.stages = UniformStages{stages}, .schedule = schedule},
            Cluster::local(stages), micro_batches);
      if (stages == 4)
        check_like_one_device(model,
                              PipeshardParallel{.stages = UniformStages{4, 2},
                                                .schedule = ScheduleKind::interleaved_one_f_one_b},
                              Cluster::local(2), micro_batches);
    }
}

TEST_CASE("a tied GPT trains as on one device on split stages, in bf16, and rematerialised") {
  const ZooModel model = tied_gpt();
  check_like_one_device(model, PipeshardParallel{}, Cluster::local(4), 4);
  check_like_one_device(model, PipeshardParallel{.mesh_shape = {2}, .batch_mesh_axis = 0},
                        Cluster::local(4), 4);
  check_like_one_device(model, PipeshardParallel{.stages = ManualStages{{{0}, {1, 2, 3}}, {3, 2}}},
                        Cluster::local(5), 3);
  check_like_one_device(model, PipeshardParallel{.stages = AutoStages{}}, Cluster::local(4), 4);
  check_like_one_device(model, PipeshardParallel{}, Cluster::local(2), 4, Precision::bf16_mixed);
}

TEST_CASE("a tied table and its gradient cross the stages once per step") {
  const ZooModel model = tied_gpt();
  for (const int stages : {2, 3, 4})
    for (const int micro_batches : {2, 4, 12})
      for (const Precision precision : {Precision::as_written, Precision::bf16_mixed}) {
        CAPTURE(stages);
        CAPTURE(micro_batches);
        const Executable train =
            compiled(model, {.num_micro_batches = micro_batches, .stages = UniformStages{stages}},
                     stages, precision);
        const Plan& plan = train.planned().plan;
        const std::int64_t element = precision == Precision::bf16_mixed ? 2 : 4;
        for (const auto& [from, to] : {std::pair(0, stages - 1), std::pair(stages - 1, 0)}) {
          CHECK(once_between(plan, from, to).tensors == 1);
          const bool gradient = from > to;  // a sum in f32
          CHECK(once_between(plan, from, to).bytes == (gradient ? 4 : element) * kWords * kHidden);
          CHECK(to_string(plan).find(fmt::format("stage {} to {}: under 0.001 MiB in 1 tensors per "
                                                 "step",
                                                 from, to)) != std::string::npos);
        }
        const double activation =
            static_cast<double>(kRows * kSequence * kHidden * element) / micro_batches;
        for (int s = 0; s + 1 < stages; ++s) {
          CHECK(bytes_each(plan, s, s + 1) == activation);
          CHECK(bytes_each(plan, s + 1, s) == activation);
        }
      }
}

TEST_CASE("more micro-batches do not send more bytes of a tied GPT") {
  const ZooModel model = tied_gpt();
  for (const int micro_batches : {1, 2, 4, 12})
    for (const ScheduleKind schedule :
         {ScheduleKind::gpipe, ScheduleKind::one_f_one_b, ScheduleKind::one_f_one_b_overlap,
          ScheduleKind::zero_bubble}) {
      CAPTURE(micro_batches);
      CAPTURE(name_of(schedule));
      const Traffic sent = measured_transfers(
          model, compiled(model, {.num_micro_batches = micro_batches, .schedule = schedule}, 2));
      CHECK(sent.count == micro_batches + 1);
      CHECK(sent.bytes == kRows * kSequence * kHidden * 4 + kTableBytes);
    }
}

TEST_CASE(
    "a weight of three stages crosses once to each, and one sum of gradients comes from each") {
  const ZooModel model = layers_of_one_weight("three layers", [](Value x, Value weight) {
    for (int layer = 0; layer < 3; ++layer) {
      if (layer > 0) x = mark_pipeline_boundary(x);
      x = tanh(matmul(tanh(matmul(x, weight)), weight)) + x;
    }
    return x;
  });
  const PipeshardParallel method{.num_micro_batches = 4, .stages = UniformStages{3}};
  const Executable train = compiled(model, method, 3);
  for (const int stage : {1, 2}) {
    CHECK(once_between(train.planned().plan, 0, stage).tensors == 1);
    CHECK(once_between(train.planned().plan, 0, stage).bytes == kHidden * kHidden * 4);
    CHECK(once_between(train.planned().plan, stage, 0).tensors == 1);
    CHECK(once_between(train.planned().plan, stage, 0).bytes == kHidden * kHidden * 4);
  }
  CHECK(bytes_each(train.planned().plan, 0, 2) == 0);
  CHECK(bytes_each(train.planned().plan, 2, 0) == 0);
  for (const int devices : {3, 6}) check_like_one_device(model, method, Cluster::local(devices), 4);
}

TEST_CASE("what is computed of weights alone crosses once per step") {
  const ZooModel model = layers_of_one_weight("formula", [](Value x, Value weight) {
    const Value narrow = tanh(weight) * 2;
    return matmul(mark_pipeline_boundary(matmul(x, narrow)), narrow);
  });
  const PipeshardParallel method{.num_micro_batches = 3};
  const Executable train = compiled(model, method, 2);
  CHECK(once_between(train.planned().plan, 0, 1).tensors == 1);
  CHECK(bytes_each(train.planned().plan, 0, 1) == kRows / 3 * kHidden * 4);
  check_like_one_device(model, method, Cluster::local(2), 3);
  check_like_one_device(model, method, Cluster::local(4), 3);
}

TEST_CASE("random numbers differ from micro-batch to micro-batch, also those of a weight alone") {
  const ZooModel model = layers_of_one_weight("dropout", [](Value x, Value weight) {
    const Value thin = dropout(weight, 0.5);
    return matmul(mark_pipeline_boundary(matmul(x, thin)), thin);
  });
  const Executable train = compiled(model, {.num_micro_batches = 3}, 2);
  CHECK(once_between(train.planned().plan, 0, 1).tensors == 0);
  check_like_one_device(model, PipeshardParallel{}, Cluster::local(2), 3);
}

TEST_CASE("a tied GPT is evaluated in micro-batches as on one device") {
  const ZooModel model = tied_gpt();
  const TrainingStep step = training_step(model.inputs, model.model, optim::Sgd{}),
                     evaluation = evaluation_step(model.inputs, model.model);
  const auto losses = [&](const Method& method, int devices) {
    auto [train, evaluate] = parallelize(step, evaluation, method, Cluster::local(devices));
    TrainState state = train.init(1);
    const double before = evaluate.run(state, model.batch).loss();
    train.run(state, model.batch);
    return std::pair(before, evaluate.run(state, model.batch).loss());
  };
  const auto one = losses(Serial{.num_micro_batches = 4}, 1);
  for (const int stages : {2, 4}) {
    const auto here =
        losses(PipeshardParallel{.num_micro_batches = 4, .stages = UniformStages{stages}}, stages);
    CHECK(here.first == doctest::Approx(one.first).epsilon(1e-5));
    CHECK(here.second == doctest::Approx(one.second).epsilon(1e-5));
  }
}

}  // namespace tied_test
