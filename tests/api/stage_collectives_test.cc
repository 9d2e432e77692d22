// The collectives of a stage's lists, under data parallelism with sharded optimizer state: as in
// Alpa's tests of gradient accumulation with reduce-scatter (test_gradient_accumulation.py).
#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include <map>

#include "src/runtime/executor.h"

namespace stage_collectives_test {

using namespace alpa;

namespace {

constexpr std::int64_t kRows = 256, kWidth = 16;

/// Alpa's MLP: dense layers with bias and without activation, mean squared error, SGD with
/// momentum; a boundary in the middle.
TrainingStep mlp(bool boundary) {
  const auto model = [boundary](const Batch& b) {
    static const nn::Dense dense[4] = {nn::Dense(kWidth), nn::Dense(kWidth), nn::Dense(kWidth),
                                       nn::Dense(kWidth)};
    Value h = dense[1](dense[0](b["x"]));
    if (boundary) h = mark_pipeline_boundary(h);
    return nn::mean_squared_error(dense[3](dense[2](h)), b["y"]);
  };
  return training_step({{"x", {f32, {kRows, kWidth}}}, {"y", {f32, {kRows, kWidth}}}}, model,
                       optim::Sgd{.learning_rate = 1e-2, .momentum = 0.9});
}

/// Collectives of a device, list by list, each with the number of tensors if they are several.
std::string collectives_of(const lower::DeviceProgram& device) {
  std::string text;
  for (const lower::InstructionList& list : device.lists) {
    text += list.name + ":";
    for (const lower::Instruction& instruction : list.instructions)
      if (instruction.kind == lower::Instruction::Kind::collective ||
          instruction.kind == lower::Instruction::Kind::start)
        text += fmt::format(" {} of {}", name_of(instruction.call.kind), instruction.inputs.size());
    text += "\n";
  }
  return text;
}

Executable train_on(const Method& method, int devices, bool boundary) {
  return parallelize(mlp(boundary), method, Cluster::local(devices));
}

PipeshardParallel data_parallel_stages(bool shard_optimizer_state) {
  return {.num_micro_batches = 2,
          .stages = UniformStages{2},
          .mesh_shape = {4},
          .batch_mesh_axis = 0,
          .shard_optimizer_state = shard_optimizer_state};
}

std::map<std::string, std::vector<double>> parameters_after_three_steps(const Executable& train) {
  TrainState state = train.init(0);
  const Dataset data = linear_dataset(kRows, kWidth, 1);
  for (int i = 0; i < 3; ++i) train.run(state, {{"x", data.x}, {"y", data.y}});
  std::map<std::string, std::vector<double>> parameters;
  for (const DistributedArray& p : state.parameters())
    parameters[p.name()] = p.to_host().to_doubles();
  return parameters;
}

}  // namespace

TEST_CASE(
    "data-parallel stages with sharded optimizer state communicate nothing forward, once backward "
    "and once to update") {
  const Executable train = train_on(data_parallel_stages(true), 8, true);
  for (int device = 0; device < 8; ++device) {
    const std::string loss = device < 4 ? "" : " all_reduce of 1";  // once per step
    const std::string text = collectives_of(train.executor().device_program(device));
    CAPTURE(device);
    CHECK(text == "forward:\nbackward: reduce_scatter of 4\napply: all_gather of 4" + loss + "\n");
  }
  // Two layers of weights and biases per stage; the loss is on the last one.
  const auto serial =
      parameters_after_three_steps(train_on(Serial{.num_micro_batches = 2}, 1, false));
  for (const auto& [name, values] : parameters_after_three_steps(train))
    for (std::size_t i = 0; i < values.size(); ++i)
      CHECK(values[i] == doctest::Approx(serial.at(name)[i]).epsilon(1e-5));
}

TEST_CASE("with whole optimizer state, sums of gradients stay partial until the update") {
  const Executable train = train_on(data_parallel_stages(false), 8, true);
  CHECK(collectives_of(train.executor().device_program(0)) ==
        "forward:\nbackward:\napply: all_reduce of 4\n");
}

}  // namespace stage_collectives_test
