// src/train/loss_scaling.cc — multiplies the loss, divides its gradients, skips what overflows
#include "loss_scaling.h"

#include <cmath>
#include <limits>

#include "alpa/base/error.h"
#include "alpa/ops/ops.h"
#include "src/ir/input.h"

namespace alpa {
namespace {

constexpr double kLargestScale = 1 << 24;

/// Whether all elements are finite (and small enough for their squares to be): u8[].
Value all_finite(const Values& gradients) {
  Value squares;
  for (const Value& gradient : gradients) {
    const Value own = cast(squared_norm(gradient), f32);
    squares = squares ? squares + own : own;
  }
  return lt(squares, std::numeric_limits<float>::max());
}

bool is_state(const Recorder& builder, int value) {
  const Node& node = builder.node(builder.producer(value));
  return node.attributes.string("kind") == name_of(InputKind::state);
}

}  // namespace

std::optional<LossScale> loss_scale_of(const StepOptions& options) {
  if (options.loss_scale || options.precision != Precision::f16_mixed) return options.loss_scale;
  return LossScale{};
}

void check_loss_scale(const StepOptions& options) {
  if (!options.loss_scale) return;
  const LossScale& scale = *options.loss_scale;
  require(scale.initial > 0 && std::isfinite(scale.initial),
          "StepOptions::loss_scale: the scale is {}; it must be above 0", scale.initial);
  require(scale.growth_interval >= 1,
          "StepOptions::loss_scale: growth_interval is {}; it must be at least 1",
          scale.growth_interval);
}

ScaledLoss::ScaledLoss(Recorder& builder, Value loss, std::optional<LossScale> options)
    : builder_(builder), options_(options), scaled_(loss) {
  if (!options_) return;
  if (size_of(loss.dtype()) < size_of(f32)) scaled_ = cast(loss, f32);
  if (!dynamic()) {
    scaled_ = scaled_ * options_->initial;
    return;
  }
  scale_ = builder.step_state("loss_scale", {f32, {}}, Initializer::constant(options_->initial));
  good_steps_ = builder.step_state("loss_scale.good_steps", {f32, {}}, Initializer::zeros());
  updates_ = builder.step_state("loss_scale.updates", {f32, {}}, Initializer::zeros());
  scaled_ = scaled_ * cast(scale_, scaled_.dtype());
}

Values ScaledLoss::unscaled(const Values& gradients) {
  if (!options_) return gradients;
  if (dynamic()) finite_ = all_finite(gradients);
  const Value inverse = dynamic() ? 1 / scale_ : constant(builder_, 1 / options_->initial);
  Values results;
  for (const Value& gradient : gradients)
    results.push_back(gradient * cast(inverse, gradient.dtype()));
  return results;
}

Value ScaledLoss::step(Value counted) {
  return dynamic() ? cast(updates_ + 1, counted.dtype()) : counted;
}

void ScaledLoss::guard_updates() {
  if (!dynamic()) return;
  const std::vector<Update> declared(builder_.updates().begin() + guarded_,
                                     builder_.updates().end());
  for (const Update& update : declared) {
    if (!is_state(builder_, update.input)) continue;
    const Value before = builder_.value(update.input);
    builder_.replace_update(before, where(finite_, builder_.value(update.value), before));
  }
  guarded_ = std::ssize(builder_.updates());
}

void ScaledLoss::update_scale() {
  if (!dynamic()) return;
  builder_.metric("loss_scale", scale_);
  const Value good = good_steps_ + 1;
  const Value grows = ge(good, static_cast<double>(options_->growth_interval));
  const Value grown = where(grows, minimum(scale_ * 2, kLargestScale), scale_);
  builder_.update(scale_, where(finite_, grown, maximum(scale_ * 0.5, 1)));
  builder_.update(good_steps_, where(finite_, where(grows, 0, good), 0));
  builder_.update(updates_, where(finite_, updates_ + 1, updates_));
}

}  // namespace alpa
