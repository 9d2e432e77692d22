#pragma once
/// Reverse-mode differentiation of a graph under construction.
#include <functional>

#include "alpa/ir/builder.h"
#pragma GCC visibility push(default)

namespace alpa {

/// Gradients of `loss` with respect to each value of `wrt`, with the types of `wrt`. Appends
/// nodes in region backward (in apply, if that is the builder's region), each with the layer
/// of its forward node. Restores the builder's region and layer. A value on which the loss
/// does not depend gets zeros. Throws Error if the loss is not a floating scalar, or if a
/// value of `wrt` has an integer type or is of another graph. Also throws Error if an operator
/// on the way has no gradient.
Values gradient(Value loss, const Values& wrt);

/// As `gradient`, but with an empty Value for values on which the loss does not depend.
Values gradient_or_empty(Value loss, const Values& wrt);

/// A value and its gradients.
struct ValueAndGrad {
  Value value;       ///< the value itself
  Values gradients;  ///< in the order of the parameters
};

/// Evaluates `loss()` and differentiates it; returns both.
ValueAndGrad value_and_grad(const std::function<Value()>& loss, const Values& wrt);

}  // namespace alpa
#pragma GCC visibility pop
