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
/// step, and guard_updates once all updates are declared.
class ScaledLoss {
 public:
  ScaledLoss(Recorder& builder, Value loss, std::optional<LossScale> options);

  Value loss() const { return scaled_; }
  /// The gradients of the loss itself.
  Values unscaled(const Values& gradients);
  /// The number of this step, skipped ones not counted.
  Value step(Value counted);
  /// Keeps the state of a step with a gradient that is not finite, and updates a dynamic scale.
  void guard_updates();

 private:
  bool dynamic() const { return options_ && options_->dynamic; }
  void update_scale();

  Recorder& builder_;
  std::optional<LossScale> options_;
  Value scaled_, scale_;
  Value good_steps_, updates_;  ///< state
  Value finite_;                ///< u8[]
};

}  // namespace alpa
