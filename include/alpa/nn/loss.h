#pragma once
/// Losses and measures: scalars, averaged over the batch.
#include "alpa/ops/ops.h"

namespace alpa::nn {

/// Mean over all elements of (prediction - target)².
inline Value mean_squared_error(Value prediction, Value target) {
  return mean(square(prediction - target));
}

/// Mean over the rows of -log softmax(logits)[label]; logits [..., V], labels i32 [...].
inline Value cross_entropy(Value logits, Value labels) {
  return mean(softmax_cross_entropy(logits, labels));
}

/// Share of rows whose label has the largest logit (a tie counts as right): logits [..., V], labels i32
/// [...]. No gradient.
inline Value accuracy(Value logits, Value labels) {
  const Value of_label = reduce_sum(logits * one_hot(labels, logits.shape().back(), logits.dtype()), {-1});
  return mean(cast(ge(of_label, reduce_max(logits, {-1})), f32));
}

}  // namespace alpa::nn
