// Reading and writing a training state, printing what the library hands out, and
// learning rates of one's own.
#include <alpa/alpa.h>
#include <doctest/doctest.h>
#include "src/plan/cost/cost_model.h"

namespace read_write_test {

using namespace alpa;

namespace {

TrainingStep make_step(Optimizer optimizer = optim::Adam{}) {
  nn::Sequential mlp{nn::Dense(8), nn::ReLU(), nn::Dense(8)};
  return training_step(
      {{"x", {f32, {4, 8}}}, {"y", {f32, {4, 8}}}},
      [mlp](const Batch& b) { return mean(square(mlp(b["x"]) - b["y"])); }, std::move(optimizer));
}

std::map<std::string, Array> make_batch() {
  const Dataset data = linear_dataset(4, 8, 1);
  return {{"x", data.x}, {"y", data.y}};
}

std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("a parameter is read and written as an array, element by element where wanted") {
  const Executable train = parallelize(make_step(), Zero3Parallel{}, Cluster::local(2));
  TrainState state = train.init(0);
  Array w = state["0.kernel"];
  const float before = w.at<float>(3, 4);
  w.at<float>(3, 4) = before + 1;
  CHECK(Array(state["0.kernel"]).at<float>(3, 4) == before);  // w is a copy
  state["0.kernel"] = w;
  const Array written = state["0.kernel"];
  CHECK(written.at<float>(3, 4) == before + 1);
  CHECK(written.to_doubles() == w.to_doubles());
}

TEST_CASE("a parameter takes the content of another one, of this state or of another") {
  const Executable train = parallelize(make_step(), DataParallel{}, Cluster::local(2));
  const Executable split = parallelize(make_step(), Zero3Parallel{}, Cluster::local(4));
  TrainState state = train.init(0), other = split.init(1);
  state["0.kernel"] = state["2.kernel"];
  CHECK(state["0.kernel"].to_host().to_doubles() == state["2.kernel"].to_host().to_doubles());
  for (DistributedArray parameter : state.parameters())
    parameter = other[parameter.name()].to_host();
  for (const DistributedArray& parameter : other.parameters())
    CHECK(state[parameter.name()].to_host().to_doubles() == parameter.to_host().to_doubles());
}

TEST_CASE("parameters come in the model's order, without optimizer state") {
  TrainState state = parallelize(make_step(), Serial{}, Cluster::local(1)).init(0);
  std::vector<std::string> names;
  for (const DistributedArray& parameter : state.parameters()) names.push_back(parameter.name());
  CHECK(names == std::vector<std::string>{"0.kernel", "0.bias", "2.kernel", "2.bias"});
  CHECK(state.names().size() == 12);
}

TEST_CASE("a state that is const, and handles that would be rebound, are not assigned to") {
  CHECK_FALSE(std::is_assignable_v<decltype(std::declval<const TrainState&>()["w"]), Array>);
  CHECK(std::is_assignable_v<decltype(std::declval<TrainState&>()["w"]), Array>);
  CHECK_FALSE(std::is_assignable_v<DistributedArray&, const DistributedArray&>);
}

TEST_CASE("what does not fit is refused with both types, or with the known names") {
  TrainState state = parallelize(make_step(optim::Sgd{}), Serial{}, Cluster::local(1)).init(0);
  const Array bias = state["0.bias"];
  CHECK(error_of([&] { state["0.kernel"] = bias; }) ==
        "state \"0.kernel\" is f32[8, 8], but the array is f32[8]");
  CHECK(error_of([&] { state["kernel"] = bias; }) ==
        "no parameter or optimizer state is called \"kernel\"; "
        "known are \"0.kernel\", \"0.bias\", \"2.kernel\", \"2.bias\"");
}

TEST_CASE("fmt prints shapes, types, arrays, layouts, graphs, plans and metrics") {
  const Executable train =
      parallelize(make_step(optim::Sgd{}), DataParallel{.mesh_shape = {2}}, Cluster::local(2));
  TrainState state = train.init(0);
  const DistributedArray bias = state["0.bias"];
  CHECK(to_string(bias.type().shape) == "[8]");
  CHECK(fmt::format("{:>8}|{}", bias.type(), bf16) == "  f32[8]|bf16");
  CHECK(fmt::format("{}", Array(bias)) == "f32[8] [0, 0, 0, 0, 0, 0, 0, 0]");
  CHECK(fmt::format("{}", bias) == "0.bias f32[8]: a copy on every device");
  CHECK(fmt::format("{} {}", bias.sharding(), ShardingSpec().split(0, 1)) == "R S1@0");
  CHECK(fmt::format("{}", train.graph()) == to_string(train.graph()));
  const std::string plan = fmt::format("{}", train.plan());
  CAPTURE(plan);
  CHECK(plan.starts_with("data on mesh 2: "));
  CHECK(plan.ends_with("communication), proven optimal"));
  const StepResult result = train.run(state, make_batch());
  CHECK(fmt::format("{}", result.metrics) == fmt::format("loss {:.4g}", result.loss()));
}

TEST_CASE(
    "any callable is a learning rate: the steps that it makes are those of the number it returns") {
  const auto trained = [](Optimizer optimizer) {
    const Executable train =
        parallelize(make_step(std::move(optimizer)), Serial{}, Cluster::local(1));
    TrainState state = train.init(0);
    for (int i = 0; i < 2; ++i) train.run(state, make_batch());
    return state["2.kernel"].to_host().to_doubles();
  };
  struct Halved {
    double rate;
    double operator()(std::int64_t step) const { return step == 1 ? rate : rate / 2; }
  };
  const auto reference = trained(
      optim::Sgd{.learning_rate = [](std::int64_t step) { return step == 1 ? 0.5 : 0.25; }});
  CHECK(trained(optim::Sgd{.learning_rate = Halved{0.5}}) == reference);
  CHECK(trained(optim::Sgd{.learning_rate = Schedule(Halved{0.5})}) == reference);
  CHECK(trained(optim::Sgd{.learning_rate = 0.5}) != reference);
  CHECK(trained(optim::Adam{.learning_rate = [n = 0](std::int64_t) mutable {
          return 0.1 * ++n;
        }}) != trained(optim::Adam{.learning_rate = 0.1}));
}

TEST_CASE("an executable explains its plan with the exact memory of a device") {
  const Cluster cluster = Cluster::local(2);
  const Executable train = parallelize(make_step(), Zero3Parallel{}, cluster);
  const auto expected = [&](Detail detail) {
    return explain(train.plan().sharding(), train.graph(), cost::CostModel::of(cluster), detail,
                   train.memory_bytes());
  };
  CHECK(train.explain() == expected(Detail::summary));
  CHECK(train.explain(Detail::full) == expected(Detail::full));
  CHECK(train.explain().find("\nMemory         " +
                             bytes_text(static_cast<double>(train.memory_bytes()))) !=
        std::string::npos);
}

}  // namespace read_write_test
