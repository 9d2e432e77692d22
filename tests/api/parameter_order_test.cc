// Names and order of parameters follow from what is computed, not from the order in which a
// compiler evaluates the operands of an expression. Here both orders are written out.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include "src/ir/recorder.h"

namespace parameter_order_test {

using namespace alpa;
using Names = std::vector<std::string>;

namespace {

/// x · gain + shift, whose parameters are made in either order.
struct Affine {
  nn::LayerId id = {};
  bool gain_first = true;
  Value operator()(Value x) const {
    const nn::Scope in(x, id, "affine");
    const auto gain = [&] { return in.parameter("gain", {x.dim(-1)}, ones); };
    const auto shift = [&] { return in.parameter("shift", {x.dim(-1)}, zeros); };
    if (gain_first) return x * gain() + shift();
    const Value first = shift();
    return x * gain() + first;
  }
};

/// left(x) - right(x) through layers of different width, with the order of
/// evaluation made explicit.
TrainingStep difference_step(bool left_first) {
  const nn::Sequential left{nn::Dense(5), Affine{.gain_first = left_first}};
  const nn::Sequential right{nn::Dense(3), Affine{.gain_first = left_first}};
  const nn::Dense last_left(2), last_right(2);
  return training_step(
      {{"x", {f32, {4, 6}}}},
      [=](const Batch& b) {
        const Value x = b["x"], one = left_first ? last_left(left(x)) : last_right(right(x));
        const Value other = left_first ? last_right(right(x)) : last_left(left(x));
        const Value difference = left_first ? one - other : other - one;
        return LossAndMetrics(mean(square(difference)), {{"size", mean(abs(difference))}});
      },
      optim::Adam{.learning_rate = 0.01});
}

std::vector<double> trained(const TrainingStep& step, const std::string& name) {
  const Executable train =
      parallelize(step, Zero2Parallel{.num_micro_batches = 2}, Cluster::local(2));
  TrainState state = train.init(1);
  std::vector<float> x(4 * 6);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 5) - 2;
  for (int i = 0; i < 3; ++i) train.run(state, {{"x", Array(x, {4, 6})}});
  return state[name].to_host().to_doubles();
}

}  // namespace

TEST_CASE("names and order of parameters are those of reading the loss from left to right") {
  const Names names{"0.kernel",
                    "0.bias",
                    "1.gain",
                    "1.shift",
                    "dense0.kernel",
                    "dense0.bias",
                    "sequential1.0.kernel",
                    "sequential1.0.bias",
                    "sequential1.1.gain",
                    "sequential1.1.shift",
                    "dense1.kernel",
                    "dense1.bias"};
  for (bool left_first : {true, false}) {
    CAPTURE(left_first);
    const Graph graph = difference_step(left_first).trace(2);
    CHECK(parameter_names(graph) == names);
    CHECK(graph.type(graph.inputs[1].value) == TensorType{f32, {6, 5}});
    Names states;
    for (const Input& input : graph.inputs)
      if (input.name.ends_with(".adam_m")) states.push_back(input.of);
    CHECK(states == names);
    // nodes are called as the layers whose parameters they read
    for (const Node& node : graph.nodes)
      if (node.region == Region::forward)
        for (int operand : node.operands) {
          const std::string& read = graph.producer(operand).name;
          if (read.ends_with(".kernel"))
            CHECK(node.name.starts_with(read.substr(0, read.size() - 7) + "/"));
        }
  }
}

TEST_CASE("the numbers of a step do not depend on the order of evaluation") {
  for (const char* name : {"0.kernel", "1.shift", "dense1.kernel", "sequential1.1.gain"}) {
    CAPTURE(name);
    CHECK(trained(difference_step(true), name) == trained(difference_step(false), name));
  }
}

TEST_CASE("parameters that are made in the order of their use stay where they are") {
  // Names in the graph if parameters are ordered by the loss (once), or then by `unread`, too.
  const auto names = [](int orders) {
    Recorder builder;
    const Value x = builder.input(InputKind::batch, "x", {f32, {2, 2}});
    const Value a = builder.parameter("a", {f32, {2}}, ones),
                b = builder.parameter("b", {f32, {2}}, ones);
    const Value unread = builder.parameter("unread", {f32, {2}}, ones),
                c = builder.parameter("c", {f32, {2}}, ones);
    const Value loss = sum((x * a + b) * c);
    builder.metric("loss", loss);
    if (orders > 0) builder.order_parameters({loss});
    if (orders > 1) builder.order_parameters({sum(unread), loss});
    if (orders > 1) CHECK(builder.parameters()[0].id == unread.id);
    return parameter_names(builder.finish());
  };
  CHECK(names(0) == Names{"a", "b", "unread", "c"});
  CHECK(names(1) == Names{"a", "b", "c", "unread"});
  CHECK(names(2) == Names{"unread", "a", "b", "c"});
}

}  // namespace parameter_order_test
