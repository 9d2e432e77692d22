#include "equivalence/mlp_case.h"

#include <doctest/doctest.h>

#include <cmath>

#include "support/difference.h"

namespace alpa::testing {

namespace {

/// Uneven on most meshes on purpose: 40 = 5·8 rows (10 per micro-batch of
/// four), widths 7, 10 and 12.
constexpr std::int64_t kBatch = 40, kInputs = 7, kHidden[] = {12, 10}, kOutputs = 7;
constexpr int kSteps = 3;

nn::Sequential make_model(const MlpCase& model) {
  const nn::DenseOptions options{.bias = model.trait != Trait::plain};
  nn::Sequential mlp;
  if (model.trait == Trait::plain || model.trait == Trait::bias) {
    for (int i = 0; i + 1 < model.layers; ++i)
      mlp.add(nn::Dense(kHidden[i % 2], options)).add(nn::ReLU());
    return mlp.add(nn::Dense(kOutputs, options));
  }
  const nn::Dense shared(kHidden[0], options);
  mlp.add(nn::Dense(kHidden[0], options)).add(nn::Tanh());
  for (int i = 0; i + 2 < model.layers; ++i) {
    nn::Sequential block{
        i % 2 == 0 && model.trait == Trait::tied ? shared : nn::Dense(kHidden[0], options),
        nn::Tanh()};
    if (model.trait == Trait::residual)
      mlp.add(nn::Residual(block));
    else
      mlp.add(block);
  }
  return mlp.add(nn::Dense(kOutputs, options));
}

TrainingStep make_step(const MlpCase& model) {
  const TensorType x{model.dtype, {kBatch, kInputs}}, y{model.dtype, {kBatch, kOutputs}};
  const Optimizer optimizer = model.adam
                                  ? Optimizer(optim::Adam{.learning_rate = 1e-3})
                                  : Optimizer(optim::Sgd{.learning_rate = 1e-2, .momentum = 0.9});
  return training_step(
      {{"x", x}, {"y", y}},
      [mlp = make_model(model)](const Batch& b) {
        return nn::mean_squared_error(mlp(b["x"]), b["y"]);
      },
      optimizer);
}

std::map<std::string, Array> make_batch(DType dtype, int step) {
  const Dataset data = linear_dataset(kBatch, kInputs, 100 + step);
  return {{"x", data.x.cast(dtype)}, {"y", data.y.cast(dtype)}};
}

/// Bytes are sums of fractions (n - 1)/n, which may round differently in another order.
void check_traffic(const std::map<std::string, Traffic>& measured,
                   const std::map<std::string, Traffic>& planned) {
  CHECK(measured.size() == planned.size());
  for (const auto& [kind, traffic] : planned) {
    REQUIRE(measured.contains(kind));
    INFO(kind << ": " << measured.at(kind).bytes << " bytes sent, " << traffic.bytes << " planned");
    CHECK(measured.at(kind).count == traffic.count);
    CHECK(std::abs(measured.at(kind).bytes - traffic.bytes) <= 1e-12 * traffic.bytes);
  }
}

Contents run(const Executable& executable, DType dtype) {
  TrainState state = executable.init(1);
  for (int step = 0; step < kSteps; ++step) executable.run(state, make_batch(dtype, step));
  CHECK(executable.measured_bytes(state) == executable.memory_bytes());
  check_traffic(executable.measured_traffic(), executable.traffic());
  Contents contents;
  for (const std::string& name : state.names()) contents[name] = state[name].to_host().to_doubles();
  return contents;
}

const char* name_of(Trait trait) {
  constexpr const char* kNames[] = {"plain", "bias", "tied", "residual"};
  return kNames[static_cast<int>(trait)];
}

}  // namespace

std::string to_string(const MlpCase& model) {
  return fmt::format("{} layers, {}, {}, {}", model.layers, name_of(model.trait),
                     model.adam ? "adam" : "sgd", alpa::name_of(model.dtype));
}

std::string to_string(const Spread& spread) {
  std::string mesh;
  for (int size : spread.mesh) mesh += fmt::format("{}{}", mesh.empty() ? "" : "x", size);
  return fmt::format("{} on {}, {} micro-batches, {} threads", spread.method, mesh,
                     spread.micro_batches, spread.threads);
}

Contents run_serial(const MlpCase& model) {
  return run(parallelize(make_step(model), Serial{}, Cluster::local(1)), model.dtype);
}

std::vector<Contents> run_spread(const MlpCase& model, const Spread& spread,
                                 const std::string& backend, int times) {
  int devices = 1;
  for (int size : spread.mesh) devices *= size;
  Method method = parse_method(spread.method);
  ExecutorOptions executor;
  executor.threads_per_device = spread.threads;
  executor.tune = false;
  const auto set = [&](auto& options) {
    options.mesh_shape = spread.mesh;
    options.num_micro_batches = spread.micro_batches;
    options.executor = executor;
    options.solver_seconds = 2;  // any plan must be right, the best or not
  };
  std::visit(set, method);
  const TrainingStep step = make_step(model);
  const Cluster cluster = Cluster::local(devices, backend);
  const CompiledStep planned = plan_only(step, method, cluster);
  std::vector<Contents> runs;
  for (int i = 0; i < times; ++i)
    runs.push_back(run(Executable(planned, step, cluster, executor), model.dtype));
  return runs;
}

Contents run_spread(const MlpCase& model, const Spread& spread, const std::string& backend) {
  return run_spread(model, spread, backend, 1)[0];
}

double deviation(const Contents& run, const Contents& reference) {
  REQUIRE(run.size() == reference.size());
  double worst = 0;
  for (const auto& [name, expected] : reference) {
    const std::vector<double>& actual = run.at(name);
    REQUIRE(actual.size() == expected.size());
    worst = std::max(worst, testing::largest_difference(actual, expected, 0));
  }
  return worst;
}

double tolerance(DType dtype) { return dtype == f64 ? 1e-10 : 2e-5; }

}  // namespace alpa::testing
