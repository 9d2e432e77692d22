// src/train/accumulation.cc — means of values and gradients over micro-batches
#include "accumulation.h"

#include "alpa/autograd/gradient.h"
#include "alpa/base/error.h"
#include "alpa/ops/ops.h"
#include "alpa/train/training_step.h"
#include "parameter_pattern.h"
#include "src/ir/input.h"
#include "src/ops/all_ops.h"

namespace alpa {
namespace {

Region region_of(Value value) {
  return recorder(value).node(recorder(value).producer(value.id)).region;
}

}  // namespace

Value micro_batch_sum(const std::string& name, Value value) {
  Recorder& builder = recorder(value);
  if (builder.num_micro_batches() == 1) return value;
  const LayerScope of_no_layer(builder, -1);  // its readers decide
  const DType dtype = value.dtype() == f64 ? f64 : f32;
  const Value before = builder.input(InputKind::accumulator, name, {dtype, value.shape()});
  const Value after = before + cast(value, dtype);
  builder.update(before, after);
  return after;
}

Value mean_of_sum(Value sum) { return sum * (1.0 / recorder(sum).num_micro_batches()); }

Values gradient_sums(Value share, const Values& parameters, const std::string& name) {
  Values gradients = gradient_or_empty(share, parameters);
  for (std::size_t i = 0; i < gradients.size(); ++i)
    if (gradients[i])
      gradients[i] = micro_batch_sum(name_of(parameters[i]) + "." + name, gradients[i]);
  return gradients;
}

Value mean_over_micro_batches(const std::string& name, Value value) {
  require(static_cast<bool>(value), "mean_over_micro_batches \"{}\": the value is empty", name);
  require(is_floating(value.dtype()),
          "mean_over_micro_batches \"{}\": the value is {}; convert it with cast(…, f32)", name,
          to_string(value.type()));
  require(region_of(value) != Region::apply,
          "mean_over_micro_batches \"{}\": the value is computed once per step; use it as it is",
          name);
  Recorder& builder = recorder(value);
  const RegionScope per_micro_batch(builder, region_of(value));
  const Value sum = micro_batch_sum(name + ".sum", value);
  const RegionScope once(builder, Region::apply);
  return mean_of_sum(sum);
}

void output(const std::string& name, Value value) {
  require(static_cast<bool>(value), "output \"{}\": the value is empty", name);
  require(value.rank() > 0, "output \"{}\": the value is one number; report it with metric", name);
  Recorder& builder = recorder(value);
  const Node& producer = builder.node(builder.producer(value.id));
  if (producer.op == &ops::input) {
    const std::string& kind = producer.attributes.string("kind");
    require(kind == name_of(InputKind::batch),
            "output \"{0}\": the value is the {1} input \"{2}\" itself; read it as state[\"{2}\"]",
            name, kind, producer.name);
  }
  const RegionScope scope(builder, producer.region);
  builder.add_output(name, builder.emit_one(ops::output, {value}));
}

Values mean_gradients(Value loss, const Values& parameters, const std::string& name) {
  require(static_cast<bool>(loss), "mean_gradients: the loss is an empty Value");
  Recorder& builder = recorder(loss);
  require(
      builder.num_micro_batches() == 1 || region_of(loss) != Region::apply,
      "mean_gradients: the loss is computed once per step, but its gradients once per micro-batch; "
      "give the loss of the micro-batch");
  const RegionScope per_micro_batch(builder, Region::backward);
  Values gradients = gradient_sums(loss * (1.0 / builder.num_micro_batches()), parameters, name);
  const RegionScope once(builder, Region::apply);
  for (std::size_t i = 0; i < gradients.size(); ++i)
    if (!gradients[i])
      gradients[i] = constant(builder, 0, parameters[i].dtype(), parameters[i].shape());
  return gradients;
}

Values clip_global_norm(const Values& gradients, double limit) {
  Value squares;
  for (const Value& gradient : gradients) {
    const Value own = squared_norm(gradient);
    squares = squares ? squares + cast(own, squares.dtype()) : own;
  }
  const Value scale = minimum(limit / maximum(sqrt(squares), 1e-30), 1.0);
  Values clipped;
  for (const Value& gradient : gradients)
    clipped.push_back(gradient * cast(scale, gradient.dtype()));
  return clipped;
}

}  // namespace alpa
