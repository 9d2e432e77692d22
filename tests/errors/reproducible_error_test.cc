// What `reproducible` cannot be had with.
#include <doctest/doctest.h>

#include "errors/small_model.h"
#include "support/error_text.h"
#include "support/temporary_file.h"

namespace reproducible_error_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

constexpr ExecutorOptions kReproducible{.reproducible = true};

std::string planning_error(const TrainingStep& step, const Method& method, const Cluster& cluster) {
  return error_of([&] { plan_only(step, method, cluster); });
}

}  // namespace

TEST_CASE("sums of one order are refused on CUDA, and in types other than f32") {
  Cluster cluster = Cluster::local(2);
  cluster.backend = "cuda";
  CHECK(planning_error(small_step(), DataParallel{.executor = kReproducible}, cluster) ==
        "parallelize: reproducible is set, but libraries of backend cuda choose the order of sums "
        "by the shapes of a device's part; use backend cpu, or leave it out");
  const nn::Dense dense(4, {.bias = false});
  const TrainingStep half = training_step(
      small_inputs(),
      [dense](const Batch& b) { return nn::mean_squared_error(dense(b["x"]), b["y"]); },
      optim::Sgd{}, {.precision = bf16_mixed});
  CHECK(planning_error(half, DataParallel{.executor = kReproducible}, Cluster::local(2)) ==
        "reproducible: \"dense0/einsum\" (einsum) is bf16; sums have one order in f32 alone, so "
        "leave other types and mixed precision out");
}

TEST_CASE("a plan of another order of sums is refused") {
  const TrainingStep step = small_step();
  const Cluster three = Cluster::local(3);
  const TemporaryFile plan("reproducible_error_test.json",
                           to_json(plan_only(step, DataParallel{}, three)));
  CHECK(
      error_of(
          [&] { load_plan(step, DataParallel{.executor = kReproducible}, three, plan.path()); }) ==
      "reproducible: the plan adds up \"reduce_sum\" (reduce_sum) in an order of its own; plan the "
      "step with reproducible set");
}

TEST_CASE("sums that several stages share are refused") {
  const TrainingStep step = training_step(
      {{"x", {f32, {12, 6}}}},
      [](const Batch& b) -> LossAndMetrics {
        const Value weight =
            b.builder().parameter("weight", {f32, {6, 6}}, Initializer::normal(0, 0.3));
        const Value hidden = mark_pipeline_boundary(relu(matmul(b["x"], weight)));
        return {mean(square(matmul(hidden, weight))), {}};
      },
      optim::Sgd{});
  CHECK(
      planning_error(step, PipeshardParallel{.num_micro_batches = 2, .executor = kReproducible},
                     Cluster::local(2)) ==
      "reproducible: \"weight.gradient.stage1\" would be added up by several stages, each over all "
      "micro-batches; use one micro-batch, or have all readers of its parameter in one stage");
  CHECK(planning_error(step, PipeshardParallel{.num_micro_batches = 1, .executor = kReproducible},
                       Cluster::local(2)) == "no error");
}

}  // namespace reproducible_error_test
