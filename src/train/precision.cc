// src/train/precision.cc — conversions of mixed precision, and moving averages of parameters
#include "precision.h"

#include "alpa/base/error.h"
#include "alpa/ops/ops.h"
#include "parameter_pattern.h"

namespace alpa {
namespace {

constexpr const char* kAverage = "ema";

DType compute_dtype(Precision precision) {
  switch (precision) {
    case Precision::as_written: return f32;
    case Precision::bf16_mixed: return bf16;
    case Precision::f16_mixed: return f16;
  }
  bug("precision {}", static_cast<int>(precision));
}

/// The value that an update gives to a state.
Value updated(Recorder& builder, Value state) {
  for (const Update& update : builder.updates())
    if (update.input == state.id) return builder.value(update.value);
  return {};
}

}  // namespace

ParameterView view_of(Precision precision) {
  return {.compute = compute_dtype(precision),
          .f32_masters = precision != Precision::as_written,
          .cast = [](Value x, DType to) { return cast(x, to); }};
}

Value in_precision(Value input, Precision precision) {
  const bool converts = input.dtype() == f32 && input.rank() > 0;
  return converts ? cast(input, compute_dtype(precision)) : input;
}

Value in_user_precision(Value result, Precision precision) {
  const bool half = result.dtype() == bf16 || result.dtype() == f16;
  return half && precision != Precision::as_written ? cast(result, f32) : result;
}

void average_parameters(Recorder& builder, double decay, Value step) {
  require(decay > 0 && decay < 1, "StepOptions::ema is {}; it must be above 0 and less than 1",
          decay);
  const Value rest = 1 - cast(gt(step, 1), step.dtype()) * decay;  // 1 in the first step
  for (Value parameter : builder.parameters()) {
    require(size_of(parameter.dtype()) >= 4,
            "StepOptions::ema: parameter \"{}\" is {}, too coarse for an average; keep it in f32 "
            "with .precision = bf16_mixed",
            name_of(parameter), to_string(parameter.type()));
    const Value now = updated(builder, parameter);
    if (!now) continue;
    const Value average = builder.optimizer_state(parameter, kAverage);
    builder.update(average, average + (now - average) * cast(rest, now.dtype()));
  }
}

void read_averages(Recorder& builder, const EvaluationOptions& options) {
  if (!options.ema) return;
  require_matches(builder, options.frozen, "frozen");
  for (Value parameter : builder.parameters()) {
    const std::string name = name_of(parameter);
    if (!matches_any(options.frozen, name) && (!options.lora || is_adapter(name)))
      builder.rename(parameter, name + "." + kAverage);
  }
}

}  // namespace alpa
