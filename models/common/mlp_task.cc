// models/common/mlp_task.cc — a multi-layer perceptron, and its data
#include "models/common/mlp_task.h"

#include "models/common/data.h"

namespace programs {

using namespace alpa;

namespace {

/// Dense layers of alternating width, ReLU between them: "pairs.0.up", "pairs.0.down", …, "head",
/// which has `outputs` features.
nn::Sequential make_mlp(const MlpFlags& flags, std::int64_t outputs, bool final_relu) {
  nn::Sequential mlp;
  const std::int64_t wide = flags.dim * flags.hidden_factor;
  for (std::int64_t i = 2; i < flags.layers; i += 2) {
    const nn::Sequential two({nn::Dense(wide, {.name = "up"}), nn::ReLU(),
                              nn::Dense(flags.dim, {.name = "down"}), nn::ReLU()},
                             {.name = fmt::format("pairs.{}", i / 2 - 1)});
    mlp.add(marks_remat(flags) ? nn::Layer(nn::remat(two)) : nn::Layer(two));
  }
  if (flags.layers % 2 == 0) mlp.add(nn::Dense(wide, {.name = "last"})).add(nn::ReLU());
  mlp.add(nn::Dense(outputs, {.name = "head"}));
  if (final_relu) mlp.add(nn::ReLU());
  return mlp;
}

LossAndMetrics classify(Value logits, Value labels) {
  return {nn::cross_entropy(logits, labels), {{"accuracy", nn::accuracy(logits, labels)}}};
}

}  // namespace

Task mlp_task(const MlpFlags& flags) {
  const auto seed = static_cast<std::uint64_t>(flags.seed);
  TaskData data;
  if (!flags.plan_only) data = load_data(flags.data, flags.batch, flags.dim, seed);
  const DataTypes types =
      flags.plan_only ? load_types(flags.data, flags.batch, flags.dim) : types_of(data.training);
  const auto task = [&](std::function<LossAndMetrics(const Batch&)> model) {
    return dataset_task(std::move(model), inputs_of(types, flags.batch), data.training, data.test,
                        seed);
  };
  if (types.classes > 0)
    return task([mlp = make_mlp(flags, types.classes, false)](const Batch& b) {
      return classify(mlp(b["x"]), b["y"]);
    });
  const bool final_relu = flags.data == "tutorial";  // as in the Alpa tutorial
  return task([mlp = make_mlp(flags, types.y.shape[1], final_relu)](const Batch& b) {
    return nn::mean_squared_error(mlp(b["x"]), b["y"]);
  });
}

}  // namespace programs
