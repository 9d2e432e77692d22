#pragma once
/// Loss scaling, static or dynamic.
#include <optional>

#include "alpa/train/training_step.h"
#include "src/ir/recorder.h"

namespace alpa {

/// The scale that a step uses, or none.
std::optional<LossScale> loss_scale_of(const StepOptions& options);

/// Throws Error if the options of the scale make no sense.
void check_loss_scale(const StepOptions& options);

/// A loss and its scale, in the order of use: loss (region forward), then in region apply unscaled,
/// step, guard_updates after updates were declared, and at last update_scale.
class ScaledLoss {
 public:
  ScaledLoss(Recorder& builder, Value loss, std::optional<LossScale> options);

  Value loss() const { return scaled_; }
  /// The gradients of the loss itself.
  Values unscaled(const Values& gradients);
  /// The number of this step, skipped ones not counted.
  Value step(Value counted);
  /// A step with a gradient that is not finite keeps the state whose updates were declared since
  /// the last call. To be called after each parameter: until then old and new values are both live.
  void guard_updates();
  /// Updates a dynamic scale.
  void update_scale();

 private:
  bool dynamic() const { return options_ && options_->dynamic; }

  Recorder& builder_;
  std::optional<LossScale> options_;
  Value scaled_, scale_;
  Value good_steps_, updates_;  ///< state
  Value finite_;                ///< u8[]
  std::ptrdiff_t guarded_ = 0;  ///< updates that `guard_updates` has seen, which come first
};

}  // namespace alpa
