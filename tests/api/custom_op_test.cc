// Operators that a program defines are planned, split, checked, saved and run like the library's.
#include <cmath>

#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include "api/custom_ops.h"
#include "support/error_text.h"
#include "support/processes.h"
#include "support/temporary_file.h"
#include "support/temporary_folder.h"

namespace custom_op_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

struct Outcome {
  std::vector<double> losses;
  std::map<std::string, std::vector<double>> state;
  std::int64_t planned = 0, measured = 0;
};

Outcome train(const Executable& executable) {
  TrainState state = executable.init(3);
  Outcome outcome;
  for (int i = 0; i < 3; ++i) outcome.losses.push_back(executable.run(state, small_batch()).loss());
  for (DistributedArray tensor : state.parameters())
    outcome.state[tensor.name()] = tensor.to_host().to_doubles();
  outcome.planned = executable.memory_bytes(), outcome.measured = executable.measured_bytes(state);
  return outcome;
}

Outcome train(bool own, const Method& method, int devices) {
  return train(parallelize(small_step(own), method, Cluster::local(devices)));
}

void check_close(const std::vector<double>& found, const std::vector<double>& expected,
                 double tolerance) {
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i)
    CHECK(std::abs(found[i] - expected[i]) <= tolerance * std::max(1.0, std::abs(expected[i])));
}

void check_equal(const Outcome& own, const Outcome& ours) {
  CHECK(own.measured == own.planned);
  CHECK(own.losses.back() < own.losses.front());
  check_close(own.losses, ours.losses, 1e-5);
  for (const auto& [name, values] : ours.state) {
    CAPTURE(name);
    check_close(own.state.at(name), values, 1e-5);
  }
}

struct Plan {
  std::string name;
  int devices;
  Method method;
};

std::vector<Plan> plans() {
  const PipeshardParallel two_stages{.num_micro_batches = 4, .stages = UniformStages{2}};
  PipeshardParallel gpipe = two_stages;
  gpipe.schedule = ScheduleKind::gpipe;
  return {
      {"serial", 1, Serial{}},
      {"serial in micro-batches", 1, Serial{.num_micro_batches = 3}},
      {"data on 2", 2, DataParallel{}},
      {"data on 5", 5, DataParallel{}},
      {"data on 8", 8, DataParallel{}},
      {"zero2 on 2", 2, Zero2Parallel{}},
      {"zero2 on 4", 4, Zero2Parallel{.num_micro_batches = 3}},
      {"zero3 on 4", 4, Zero3Parallel{}},
      {"zero3 on 8", 8, Zero3Parallel{}},
      {"shard on 2", 2, ShardParallel{}},
      {"shard on 3", 3, ShardParallel{}},
      {"shard on 1x4", 4, ShardParallel{.mesh_shape = {1, 4}}},
      {"shard on 2x2", 4, ShardParallel{.mesh_shape = {2, 2}}},
      {"shard on 2x4", 8, ShardParallel{.num_micro_batches = 2, .mesh_shape = {2, 4}}},
      {"two stages on 2", 2, two_stages},
      {"two stages on 4", 4, two_stages},
      {"two stages on 8, gpipe", 8, gpipe},
  };
}

/// With a smaller model than the library's own operators need.
TrainingStep step_of(const std::function<Value(Value)>& model) {
  return training_step(
      {{"x", {f32, {8, 6}}}}, [=](const Batch& b) { return mean(model(b["x"])); },
      optim::Sgd{.learning_rate = 0.1});
}

Value with_parameter(Value x) {
  const nn::Scope in(x, nn::LayerId("layer"), "layer");
  return x * in.parameter("w", {x.dim(-1)}, ones);
}

void copy(const OpCall& call) {
  for (std::int64_t i = 0; i < call.results[0].type.elements(); ++i)
    call.results[0].set(i, call.operands[0].get(i));
}

}  // namespace

TEST_CASE("a norm and an attention of a program train like the library's under 17 plans") {
  for (const Plan& plan : plans()) {
    CAPTURE(plan.name);
    check_equal(train(true, plan.method, plan.devices), train(false, plan.method, plan.devices));
  }
}

TEST_CASE("operators of a program have the same bits in several processes") {
  const ShardParallel shard{.mesh_shape = {2, 2}, .solver_seconds = 100};
  const PipeshardParallel stages{
      .num_micro_batches = 4, .stages = UniformStages{2}, .solver_seconds = 100};
  for (const Method& method : {Method(shard), Method(Zero3Parallel{}), Method(stages)}) {
    const Outcome one = train(true, method, 4);
    for (const int size : {2, 4}) {
      std::vector<Outcome> outcomes(size);
      const std::vector<std::string> errors =
          run_processes(size, [&](int rank) { outcomes[rank] = train(true, method, 4); });
      for (int rank = 0; rank < size; ++rank) {
        CHECK(errors[rank] == "");
        CHECK(outcomes[rank].losses == one.losses);
        CHECK(outcomes[rank].state == one.state);
      }
    }
  }
}

TEST_CASE("plan files hold operators of a program, with their attributes") {
  const ShardParallel method{.mesh_shape = {2, 2}};
  const Cluster cluster = Cluster::local(4);
  const Executable planned = parallelize(small_step(true), method, cluster);
  const TemporaryFile file("custom_op_plan.json",
                           to_json(plan_only(small_step(true), method, cluster)));
  const Executable loaded = load_plan(small_step(true), method, cluster, file.path());
  CHECK(train(loaded).losses == train(planned).losses);

  const auto scaled = [&](double epsilon) {
    return step_of([=](Value x) {
      const Value gain = with_parameter(x);
      return own_rms_norm()({gain, mean(gain, {0})}, {{"epsilon", epsilon}})[0];
    });
  };
  const TemporaryFile plan("custom_op_epsilon.json",
                           to_json(plan_only(scaled(1e-6), DataParallel{}, Cluster::local(2))));
  CHECK_NOTHROW(load_plan(scaled(1e-6), DataParallel{}, Cluster::local(2), plan.path()));
  CHECK(error_of([&] {
          load_plan(scaled(1e-5), DataParallel{}, Cluster::local(2), plan.path());
        }) != "no error");
}

TEST_CASE("checks of a program's operators pass where their rules are right") {
  const Attributes epsilon{{"epsilon", 1e-6}};
  verify_op(own_rms_norm(), {{f64, {4, 6, 8}}, {f64, {8}}}, epsilon);
  const TensorType heads{f64, {4, 6, 4, 3}};
  verify_op(own_attention(), {heads, heads, heads});
  verify_ops(parallelize(small_step(true), DataParallel{}, Cluster::local(2)).graph());
}

TEST_CASE("a wrong rule is found by the check, which names operator and letter") {
  const std::string text = error_of([&] { verify_op(wrong_softmax(), {{f64, {4, 6}}}); });
  CHECK(
      text.starts_with("tests.softmax: dims \"...c -> ...c\": with c split over 2 devices, result "
                       "0 differs by "));
  CHECK(text.ends_with("mark a letter that cannot be split with `!`, or mend the CPU function"));
  const TrainingStep step =
      step_of([&](Value x) { return with_parameter(x) + wrong_softmax()({x})[0]; });
  CHECK(error_of([&] {
          verify_ops(step.trace(1));
        }).find("\"tests.softmax\": tests.softmax: dims") != std::string::npos);
  const CustomOp linear = define_op({.name = "tests.wrongly_linear",
                                     .dims = "...c! -> ...c!",
                                     .linear = {0b1},
                                     .cpu = softmax_rows});
  CHECK(error_of([&] {
          verify_op(linear, {{f64, {4, 6}}});
        })
            .find("with operands 0 as partial sums of 2 devices (OpDefinition::linear), result 0 "
                  "differs") != std::string::npos);
}

TEST_CASE("mistakes in definitions and calls say what, where and how to mend it") {
  own_rms_norm();
  CHECK(error_of([] { define_op({.name = "norm", .dims = "... -> ...", .cpu = copy}); }) ==
        "define_op: \"norm\" is no name for an operator; give it letters, digits and _ with a dot "
        "between them, as in \"shop.rms_norm\"");
  CHECK(
      error_of([] { define_op({.name = "tests.rms_norm", .dims = "... -> ...", .cpu = copy}); }) ==
      "define_op: tests.rms_norm is defined already; define it once, or give one another name");
  CHECK(error_of([] { define_op({.name = "tests.no_cpu", .dims = "... -> ..."}); }) ==
        "define_op: tests.no_cpu has no CPU function, which is needed to verify it and to run it "
        "on CPU devices; set OpDefinition::cpu");
  CHECK(error_of([] { define_op({.name = "tests.arrow", .dims = "ab > ab", .cpu = copy}); }) ==
        "tests.arrow: dims \"ab > ab\": notation \"ab > ab\": expected \"->\" at position 3; "
        "OpDefinition::dims says how it is written");
  CHECK(error_of([] {
          define_op({.name = "tests.reads", .dims = "ab -> ab", .reads = {"ac"}, .cpu = copy});
        }) ==
        "tests.reads: dims \"ab -> ab\": \"ac\" has 'c', which it lacks; OpDefinition::dims says "
        "how it is written");
  const auto error_in_step = [](const std::function<Value(Value)>& model) {
    return error_of([&] { step_of(model).trace(1); });
  };
  CHECK(error_in_step([](Value x) {
          return own_rms_norm()({x, x})[0];
        }) ==
        "tests.rms_norm: operand 1 must have 1 dimensions (f32[8, 6], f32[8, 6]); its dims are "
        "\"...c!, c! -> ...c!, ...\"");
  const CustomOp plain =
      define_op({.name = "tests.no_gradient", .dims = "... -> ...", .cpu = copy});
  CHECK(error_in_step([&](Value x) { return plain({with_parameter(x)})[0]; }) ==
        "gradient: the loss depends on tests.no_gradient \"tests.no_gradient\", which has no "
        "gradient; give its OpDefinition a `gradient`, or wrap it in stop_gradient");
  const CustomOp short_of = define_op({.name = "tests.short_gradient",
                                       .dims = "... -> ...",
                                       .gradient = [](const GradientCall&) { return Values{}; },
                                       .cpu = copy});
  CHECK(error_in_step([&](Value x) { return short_of({with_parameter(x)})[0]; }) ==
        "tests.short_gradient: its gradient gives 0 Values for 1 operands; give one each, empty "
        "where there is none");
}

}  // namespace custom_op_test
