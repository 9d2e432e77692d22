#include <doctest/doctest.h>

#include "alpa/autograd/gradient.h"
#include "alpa/ops/ops.h"
#include "run_case.h"
#include "support/evaluate.h"

using namespace cases;
using namespace alpa;

namespace {

/// Row i of sum(weights * f(x)) for every element of operand `which`, by central differences of the
/// formula.
std::vector<double> differences(const Case& row, std::vector<Tensor> x, std::size_t which,
                                const std::vector<double>& weights) {
  const auto loss = [&] {
    const std::vector<double> y = row.reference(x)[0].data;
    double total = 0;
    for (std::size_t i = 0; i < y.size(); ++i) total += y[i] * weights[i];
    return total;
  };
  constexpr double h = 1e-5;
  std::vector<double> slopes;
  for (double& element : x[which].data) {
    const double original = element;
    element = original + h;
    const double above = loss();
    element = original - h;
    slopes.push_back((above - loss()) / (2 * h));
    element = original;
  }
  return slopes;
}

/// Gradients of sum(weights * op(x)) with respect to the floating operands, computed by the graph. Names
/// "x0", "x1", …
testing::StepResult graph_gradients(const Case& row, const std::vector<HostTensor>& operands,
                                    const HostTensor& weights) {
  Builder b;
  Values x, wrt;
  testing::Tensors inputs{{"weights", weights}};
  for (const HostTensor& operand : operands) {
    const std::string name = "x" + std::to_string(x.size());
    x.push_back(b.input(InputKind::batch, name, operand.type));
    inputs[name] = operand;
    if (is_floating(operand.type.dtype)) wrt.push_back(x.back());
  }
  const Value y = b.emit_one(*row.op, x, row.attributes);
  const Value loss = sum(y * b.input(InputKind::batch, "weights", weights.type));
  const Values gradients = gradient(loss, wrt);
  for (std::size_t i = 0; i < wrt.size(); ++i)
    testing::output(b, "d" + b.node(b.producer(wrt[i].id)).name, gradients[i]);
  return testing::evaluate(b.finish(), inputs);
}

/// Rows whose gradient can be compared: differentiable, in f64 throughout.
bool has_gradient(const Case& row) {
  if (!row.op->vjp || !row.reference || row.operands.empty()) return false;
  for (const TensorType& type : result_types(row))
    if (type.dtype != f64) return false;
  for (const Operand& operand : row.operands)
    if (is_floating(operand.type.dtype) && operand.type.dtype != f64) return false;
  return true;
}

}  // namespace

TEST_CASE("gradients agree with central differences of the formulas") {
  int compared = 0;
  for (const Case& row : all()) {
    if (!has_gradient(row) || row.op == &ops::stop_gradient) continue;
    CAPTURE(row.label());
    const std::vector<HostTensor> operands = draw_operands(row);
    const HostTensor weights = draw({result_types(row)[0], 0.5, 1.5}, 99);
    const testing::StepResult got = graph_gradients(row, operands, weights);
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (!is_floating(operands[i].type.dtype)) continue;
      const std::vector<double> expected =
          differences(row, to_reference(operands), i, to_reference(weights).data);
      CHECK(testing::difference(got.updates.at("dx" + std::to_string(i)), expected) < 1e-7);
      ++compared;
    }
  }
  CHECK(compared > 80);
}

TEST_CASE("no gradient passes stop_gradient") {
  Builder b;
  const Value x = b.input(InputKind::batch, "x", {f64, {3}});
  testing::output(b, "dx", gradient(sum(stop_gradient(square(x)) * x), {x})[0]);
  const testing::StepResult got =
      testing::evaluate(b.finish(), {{"x", testing::tensor({f64, {3}}, {1, 2, 3})}});
  CHECK(got.update("dx") == std::vector<double>{1, 4, 9});
}

TEST_CASE("gradients have the element type of what they belong to, through casts") {
  Builder b;
  const Value x = b.input(InputKind::batch, "x", {bf16, {3}});
  const Value dx = gradient(sum(square(cast(x, f32))), {x})[0];
  CHECK(dx.type() == TensorType{bf16, {3}});
  testing::output(b, "dx", dx);
  const testing::StepResult got =
      testing::evaluate(b.finish(), {{"x", testing::tensor({bf16, {3}}, {1, -2, 3})}});
  CHECK(got.update("dx") == std::vector<double>{2, -4, 6});
}

TEST_CASE("reduce_max shares its gradient equally among ties") {
  Builder b;
  const Value x = b.input(InputKind::batch, "x", {f64, {2, 3}});
  testing::output(b, "dx", gradient(sum(reduce_max(x, {1})), {x})[0]);
  const testing::StepResult got =
      testing::evaluate(b.finish(), {{"x", testing::tensor({f64, {2, 3}}, {1, 5, 5, 4, 2, 3})}});
  CHECK(got.update("dx") == std::vector<double>{0, 0.5, 0.5, 1, 0, 0});
}
