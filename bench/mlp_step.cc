// The whole training step of an MLP (Dense + bias + ReLU, mean squared error, Adam) against its
// limit (limit.h), then the same step on several CPU devices against the step on one. Data
// parallelism repeats Adam on every device, which the cores of one machine must do one after the
// other; the yardstick "step, Adam repeated" is the step on one device and this additional work.
// With --on-request it answers numbers of steps with their seconds, for bench/peers/mlp.py.
//   bench_mlp_step --help
#include <alpa/alpa.h>

#include "arguments.h"
#include "interleave.h"
#include "kernels/cpu/kernels.h"
#include "limit.h"
#include "mlp.h"
#include "on_request.h"
#include "src/base/thread_team.h"

using namespace alpa;

namespace {

struct Sizes : bench::MlpSizes {
  int devices = 8, rounds = 5;
  std::string method = "shard";
};

/// Adam's update of all kernels, `times` times.
std::function<void()> adam_alone(const Sizes& sizes, int times) {
  struct State {
    std::vector<Array> arrays;
    Attributes attributes{{"beta1", 0.9},
                          {"beta2", 0.999},
                          {"epsilon", 1e-8},
                          {"weight_decay", 0.0},
                          {"decoupled", std::int64_t{0}}};
    StepContext step;
    ThreadTeam team{usable_cores()};
    KernelCall call;
  };
  auto state = std::make_shared<State>();
  const Shape all = {sizes.layers * sizes.dim * sizes.dim};
  // w, gradient, m, v, rate, step
  for (const Shape& shape : {all, all, all, all, Shape{}, Shape{}}) {
    state->arrays.push_back(bench::random_array(shape));
    for (float& x : state->arrays.back().mutable_elements_as<float>()) x = x * x + 0.5f;
    state->call.inputs.push_back(
        {state->arrays.back().mutable_data(), {f32, shape}, Shape(shape.size(), 0), shape});
  }
  state->call.outputs = {state->call.inputs[0], state->call.inputs[1], state->call.inputs[2]};
  state->call.attributes = &state->attributes;
  state->call.step = &state->step;
  state->call.team = &state->team;
  state->call.threads = state->team.size();
  return [state, times] {
    for (int i = 0; i < times; ++i) cpu::multi_tensor_adam.run(state->call);
  };
}

bench::Variant step_variant(std::string name, const Sizes& sizes, const Method& method,
                            int devices) {
  return {std::move(name), bench::mlp_runner(sizes, method, devices)};
}

void measure(const Sizes& sizes) {
  std::vector<bench::Variant> one_device{{"limit", bench::limit_of(bench::mlp_step(sizes))}};
  one_device.push_back(step_variant("step, one device", sizes, Serial{}, 1));
  bench::repeat_short_ones(one_device);
  bench::interleave(one_device, sizes.rounds, bench::kPause);
  bench::print(one_device);

  std::vector<bench::Variant> methods{one_device.back()};
  methods.front().seconds.clear();
  methods.push_back({"step, Adam repeated",
                     [step = methods.front().run, adam = adam_alone(sizes, sizes.devices - 1)] {
                       step();
                       adam();
                     }});
  methods.push_back(step_variant("data", sizes, DataParallel{}, sizes.devices));
  methods.push_back(step_variant("zero2", sizes, Zero2Parallel{}, sizes.devices));
  methods.push_back(step_variant("zero3", sizes, Zero3Parallel{}, sizes.devices));
  methods.push_back(step_variant("shard", sizes, ShardParallel{}, sizes.devices));
  bench::interleave(methods, sizes.rounds);
  bench::print(methods);
  fmt::print(R"({{"name": "data, of the step with Adam repeated", "ratio": {:.3f}}})"
             "\n",
             bench::median_ratio(methods[2], methods[1]));
}

}  // namespace

int main(int argc, char** argv) {
  Sizes sizes;
  bool on_request = false;
  std::vector<cli::Flag> flags = bench::size_flags(sizes);
  flags.push_back(cli::whole("--devices", &sizes.devices, "CPU devices", 1, 1024));
  flags.push_back(cli::whole("--rounds", &sizes.rounds, "Counted rounds", 1, 1000));
  flags.push_back(cli::text("--method", &sizes.method, "Of several devices, with --on-request"));
  flags.push_back(cli::on("--on-request", &on_request, "Answer numbers of steps with seconds"));
  return bench::run(argc, argv, "The training step of an MLP on CPU devices.", flags, [&] {
    if (!on_request) return measure(sizes);
    bench::answer(bench::mlp_runner(
        sizes, sizes.devices == 1 ? Method(Serial{}) : parse_method(sizes.method), sizes.devices));
  });
}
