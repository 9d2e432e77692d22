// A model with an operator of its own, which trains alike under two plans.
#include <alpa/alpa.h>

#include <cmath>

using namespace alpa;

namespace {

/// max(x, 0)², one loop over each device's part.
const CustomOp squared_relu = define_op({
    .name = "outside.squared_relu",
    .dims = "... -> ...",
    .gradient = [](const GradientCall& call) -> Values {
      return {call.result_gradients[0] * 2.0 * relu(call.operands[0])};
    },
    .cpu =
        [](const OpCall& call) {
          const TensorView &x = call.operands[0], &y = call.results[0];
          call.parallel_for(x.type.elements(), 1024, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t i = begin; i < end; ++i) {
              const double positive = std::fmax(x.get(i), 0);
              y.set(i, positive * positive);
            }
          });
        },
});

/// x + W₂ · max(W₁ · x, 0)², with a gain per column.
struct Block {
  nn::LayerId id;
  nn::Dense up = nn::Dense(64, {.name = "up"}), down = nn::Dense(16, {.name = "down"});
  Value operator()(Value x) const {
    const nn::Scope in(x, id, "block");
    return x + in.parameter("gain", {x.dim(-1)}, ones) * down(squared_relu({up(x)})[0]);
  }
};

/// Loss of the last of 20 steps.
double trained(const Method& method) {
  std::vector<float> x(64 * 16), y(64 * 16);
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(i * 37 % 64) / 32 - 1;
    y[i] = x[i] * x[i];
  }
  const BatchData batch = {{"x", Array(x, {64, 16})}, {"y", Array(y, {64, 16})}};
  const Block block;
  const TrainingStep step = training_step(
      inputs_of(batch), [&](const Batch& b) { return mean(square(block(b["x"]) - b["y"])); },
      optim::Adam{.learning_rate = 1e-2});
  const Executable train = parallelize(step, method, Cluster::local(4));
  TrainState state = train.init(0);
  double loss = 0;
  for (int i = 0; i < 20; ++i) loss = train.run(state, batch).loss();
  return loss;
}

}  // namespace

/// "trained" if the operator's rule holds, and the loss falls, the same under both plans.
const char* try_model() {
  verify_op(squared_relu, {{f64, {4, 8}}});
  const double serial = trained(Serial{}), sharded = trained(ShardParallel{});
  if (std::fabs(serial - sharded) > 1e-4 * serial) return "plans differ";
  return serial < 0.1 ? "trained" : "the loss stays";
}
