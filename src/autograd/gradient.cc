// src/autograd/gradient.cc — reverse-mode differentiation
#include "alpa/autograd/gradient.h"

#include <algorithm>

#include "alpa/base/error.h"
#include "alpa/ops/ops.h"
#include "recomputation.h"
#include "src/ir/op_def.h"
#include "src/ir/recorder.h"
#include "src/ops/simplify.h"

namespace alpa {
namespace {

void check_loss(Value loss) {
  require(static_cast<bool>(loss), "gradient: the loss is an empty Value");
  require(loss.rank() == 0 && is_floating(loss.dtype()),
          "gradient: the loss is {}, but only a floating scalar can be differentiated; "
          "reduce it first, e.g. with mean",
          to_string(loss.type()));
}

void check_variable(Value loss, Value variable) {
  require(static_cast<bool>(variable), "gradient: a value to differentiate by is empty");
  require(variable.builder == loss.builder,
          "gradient: a value to differentiate by belongs to another graph than the loss");
  require(is_floating(variable.dtype()),
          "gradient: \"{}\" is {}, which has no gradient; only floating types have",
          recorder(loss).node(recorder(loss).producer(variable.id)).name,
          to_string(variable.type()));
}

Region region_of_gradients(const Builder& builder) {
  return builder.region() == Region::forward ? Region::backward : builder.region();
}

/// One differentiation. Gradients of values are summed as they arrive.
class Tape {
 public:
  Tape(Recorder& builder, Value loss)
      : builder_(builder),
        loss_(loss),
        gradients_(loss.id + 1),
        recomputation_(builder, builder.producer(loss.id)) {}

  /// Empty for values that the loss does not depend on.
  Values run(const Values& wrt) {
    mark_dependents(wrt);
    if (!depends_[loss_.id]) return Values(wrt.size());
    const int last = builder_.producer(loss_.id);
    gradients_[loss_.id] = constant(builder_, 1, loss_.dtype());
    for (int n = last; n >= 0; --n) visit(n);
    Values result;
    for (Value variable : wrt)
      result.push_back(variable.id <= loss_.id ? gradients_[variable.id] : Value{});
    return result;
  }

 private:
  /// Floating values up to the loss that are computed from `wrt`.
  void mark_dependents(const Values& wrt) {
    depends_.assign(loss_.id + 1, false);
    for (Value variable : wrt)
      if (variable.id <= loss_.id) depends_[variable.id] = true;
    for (int n = 0; n <= builder_.producer(loss_.id); ++n) {
      const Node& node = builder_.node(n);
      const bool any = std::any_of(node.operands.begin(), node.operands.end(),
                                   [&](int value) { return depends_[value]; });
      for (int value : node.results)
        if (any && value <= loss_.id && is_floating(builder_.type(value).dtype))
          depends_[value] = true;
    }
  }

  void visit(int n) {
    const Node& node = builder_.node(n);
    const auto needed = [&](int value) { return depends_[value]; };
    const Values dys = arrived(node);
    const bool reached =
        std::any_of(dys.begin(), dys.end(), [](Value dy) { return static_cast<bool>(dy); });
    if (!reached || std::none_of(node.operands.begin(), node.operands.end(), needed)) return;
    require(
        node.op->vjp != nullptr,
        "gradient: the loss depends on {} \"{}\", which has no gradient; wrap it in stop_gradient",
        node.op->name, node.name);
    builder_.set_layer(node.layer);
    const Node known = recomputation_.node(n);
    builder_.push_scope(node.name + ".grad");
    const Values contributions = node.op->vjp(builder_, known, dys);
    invariant(contributions.size() == node.operands.size(),
              "{}: vjp gives {} gradients for {} operands", node.op->name, contributions.size(),
              node.operands.size());
    for (std::size_t i = 0; i < contributions.size(); ++i)
      if (contributions[i] && depends_[node.operands[i]])
        accumulate(node, node.operands[i], contributions[i]);
    builder_.pop_scope();
  }

  /// The gradient of every result, empty where none has arrived.
  Values arrived(const Node& node) const {
    Values dys;
    for (int value : node.results) dys.push_back(value <= loss_.id ? gradients_[value] : Value{});
    return dys;
  }

  void accumulate(const Node& node, int operand, Value contribution) {
    invariant(contribution.type() == builder_.type(operand), "{}: vjp gives {} for an operand {}",
              node.op->name, to_string(contribution.type()), to_string(builder_.type(operand)));
    Value& total = gradients_[operand];
    total = total ? ops::sum_of_gradients(total, contribution) : contribution;
  }

  Recorder& builder_;
  Value loss_;
  Values gradients_;  ///< by value id, so far
  Recomputation recomputation_;
  std::vector<bool> depends_;  ///< by value id
};

}  // namespace

Values gradient_or_empty(Value loss, const Values& wrt) {
  check_loss(loss);
  for (Value variable : wrt) check_variable(loss, variable);
  const RegionScope region(loss, region_of_gradients(loss));
  const LayerScope layer(loss, loss.builder->layer());
  return Tape(recorder(loss), loss).run(wrt);
}

Values gradient(Value loss, const Values& wrt) {
  Values gradients = gradient_or_empty(loss, wrt);
  const RegionScope region(loss, region_of_gradients(loss));
  for (std::size_t i = 0; i < wrt.size(); ++i)
    if (!gradients[i]) gradients[i] = constant(loss, 0, wrt[i].dtype(), wrt[i].shape());
  return gradients;
}

ValueAndGrad value_and_grad(const std::function<Value()>& loss, const Values& wrt) {
  const Value value = loss();
  return {value, gradient(value, wrt)};
}

}  // namespace alpa
