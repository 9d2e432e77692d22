#pragma once
/// Losses and metrics: scalars, averaged over the batch. Of half precision, losses are computed and
/// returned in f32.
#include "alpa/ops/ops.h"
#include "alpa/train/training_step.h"
#pragma GCC visibility push(default)

namespace alpa::nn {

/// x in f32 if it is of half precision.
inline Value at_least_f32(Value x) {
  return x.dtype() == bf16 || x.dtype() == f16 ? cast(x, f32) : x;
}

/// Mean over all elements of (prediction - target)².
inline Value mean_squared_error(Value prediction, Value target) {
  return mean(square(at_least_f32(prediction) - at_least_f32(target)));
}

/// Mean of `softmax_cross_entropy` over the rows that are not ignored, 0 if all are; logits
/// [..., V], labels i32 [...]. With micro-batches it is the mean of their means.
inline Value cross_entropy(Value logits, Value labels, CrossEntropyOptions options = {}) {
  const Value losses = softmax_cross_entropy(logits, labels, options);
  if (!options.ignored_label) return mean(losses);
  const Value counted = ne(labels, static_cast<double>(*options.ignored_label));
  return sum(losses) / maximum(sum(cast(counted, losses.dtype())), 1);
}

/// `cross_entropy` of the labels that are not `ignored_label`, weighed by their share: the mean of
/// all that count in a batch, however many micro-batches it has.
inline LossAndMetrics counted_cross_entropy(Value logits, Value labels,
                                            std::int64_t ignored_label = -1) {
  const Value counted = ne(labels, static_cast<double>(ignored_label));
  return {cross_entropy(logits, labels, {.ignored_label = ignored_label}),
          {},
          mean(cast(counted, f32))};
}

/// Fraction of rows whose label has the largest logit: logits [..., V], labels i32 [...]. A tie
/// counts as correct, a label outside [0, V) as wrong. No gradient.
inline Value accuracy(Value logits, Value labels) {
  const Value largest = cast(eq(logits, max(logits, {-1}, true)), f32);
  return mean(sum(largest * one_hot(labels, logits.shape().back()), {-1}));
}

}  // namespace alpa::nn
#pragma GCC visibility pop
