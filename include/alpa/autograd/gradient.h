#pragma once
/// Reverse-mode differentiation of a graph under construction.
#include <functional>

#include "alpa/ir/builder.h"

namespace alpa {

/// Gradients of `loss` with respect to each of `wrt`, of their types. Appends nodes in region backward
/// (also when the builder's region is apply: then there), each with the layer of the forward node it
/// belongs to; region and layer are restored. A value on which the loss does not depend gets zeros. Throws
/// Error if the loss is no floating scalar, or if a value of `wrt` is of integer type, of another graph, or
/// needs an operator that has no gradient.
Values gradient(Value loss, const Values& wrt);

/// The same with an empty Value for what the loss does not depend on.
Values gradient_or_empty(Value loss, const Values& wrt);

struct ValueAndGrad {
  Value value;
  Values gradients;
};

/// Evaluates `loss()` and differentiates it: the pair of both.
ValueAndGrad value_and_grad(const std::function<Value()>& loss, const Values& wrt);

}  // namespace alpa
