#pragma once
/// Random omission of activations.
#include "alpa/base/error.h"
#include "alpa/ops/ops.h"

namespace alpa::nn {

/// Sets each element to 0 with probability `rate` and scales the others by 1 / (1 - rate)
/// (Srivastava et al. 2014); the identity in an `evaluation_step`. Every mask is a function of
/// (seed, stream, step, micro-batch, index): the same under every plan.
class Dropout {
 public:
  /// Throws Error unless 0 <= rate < 1.
  explicit Dropout(double rate) : rate_(rate) {
    require(rate >= 0 && rate < 1, "nn::Dropout: rate {} is not in [0, 1)", rate);
  }

  Value operator()(Value x) const {
    if (rate_ == 0 || !x.builder->training()) return x;
    const Value kept = ge(random_uniform(x, {f32, x.shape()}), rate_);
    return where(kept, x / (1 - rate_), 0.0);
  }

 private:
  double rate_;
};

}  // namespace alpa::nn
