// Work that a method leaves to every device is reported.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

namespace repeated_work_test {

using namespace alpa;

namespace {

/// The batch is the minor part of what the second product's rows are, so that no
/// split of it is one of them.
TrainingStep hidden_batch_step(std::int64_t batch) {
  return training_step(
      {{"x", {f32, {batch, 12}}}},
      [batch](const Batch& b) {
        Builder& g = b.builder();
        const Value first = g.parameter("first", {f32, {12, 12}}, Initializer::ones());
        const Value second = g.parameter("second", {f32, {4, 64}}, Initializer::ones());
        const Value rows = reshape(transpose(matmul(b["x"], first), {1, 0}), {3 * batch, 4});
        return mean(square(matmul(rows, second)));
      },
      optim::Sgd{});
}

}  // namespace

TEST_CASE("data parallelism says what it leaves to every device, the heaviest first") {
  const CompiledStep planned = plan_only(hidden_batch_step(16), DataParallel{}, Cluster::local(4));
  const RepeatedWork work = repeated_work(planned.plan.sharding(), planned.graph);
  REQUIRE(work.nodes.size() >= 2);
  CHECK(work.nodes[0].devices == 4);
  CHECK(work.nodes[0].share >= work.nodes[1].share);
  // Products: 3 of 2·16·12·12 that have the batch (x needs no gradient: 2), 3
  // of 2·48·4·64 that do not.
  CHECK(work.share > 0.8);
  CHECK(work.share < 1);
  const std::string text = explain(planned, Cluster::local(4));
  CAPTURE(text);
  const std::string line = repeated_work_text(planned.plan.sharding(), planned.graph);
  CAPTURE(line);
  CHECK(
      line.find(" of the floating-point operations are done alike by several devices: einsum \"") !=
      std::string::npos);
  CHECK(line.ends_with("; the method data splits along the batch alone, use \"shard\""));
  CHECK(text.find("\nRepeated work  " + line + "\n") != std::string::npos);
}

TEST_CASE(
    "nothing is reported where all work is split, nor of updates that every device makes alike") {
  const TensorType data{f32, {16, 12}};
  const TrainingStep step = training_step(
      {{"x", data}, {"y", data}},
      [mlp = nn::Sequential().add(nn::Dense(12))](const Batch& b) {
        return mean(square(mlp(b["x"]) - b["y"]));
      },
      optim::Adam{});
  const CompiledStep planned = plan_only(step, DataParallel{}, Cluster::local(4));
  CHECK(repeated_work(planned.plan.sharding(), planned.graph).share < 0.01);
  CHECK(repeated_work_text(planned.plan.sharding(), planned.graph).empty());
  const CompiledStep serial = plan_only(step, Serial{}, Cluster::local(1));
  CHECK(repeated_work(serial.plan.sharding(), serial.graph).nodes.empty());
}

}  // namespace repeated_work_test
