#include <doctest/doctest.h>

#include <algorithm>

#include "alpa/autograd/gradient.h"
#include "alpa/ops/ops.h"
#include "run_case.h"
#include "src/ir/recorder.h"
#include "support/evaluate.h"

namespace gradient_test {

using namespace alpa::testing::cases;
using namespace alpa;

namespace {

/// Weights of the elements of every result; an empty tensor where the loss does not use the result.
using Weights = std::vector<HostTensor>;

bool is_used(const HostTensor& weights) { return !weights.bytes.empty(); }

/// Slopes of the sum of weights · result over the used results, for every element of operand
/// `which`, by central differences of the formula.
std::vector<double> differences(const Case& row, std::vector<Tensor> x, std::size_t which,
                                const Weights& weights) {
  const auto loss = [&] {
    const std::vector<Tensor> results = row.reference(x);
    double total = 0;
    for (std::size_t r = 0; r < results.size(); ++r)
      for (std::size_t i = 0; is_used(weights[r]) && i < results[r].data.size(); ++i)
        total += results[r].data[i] * weights[r].get(static_cast<std::int64_t>(i));
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

/// Gradients of the same sum with respect to the floating operands, computed by the
/// graph. Names "x0", "x1", …
testing::StepResult graph_gradients(const Case& row, const std::vector<HostTensor>& operands,
                                    const Weights& weights) {
  Recorder b;
  Values x, wrt;
  testing::Tensors inputs;
  for (const HostTensor& operand : operands) {
    const std::string name = "x" + std::to_string(x.size());
    x.push_back(b.input(InputKind::batch, name, operand.type));
    inputs[name] = operand;
    if (is_floating(operand.type.dtype)) wrt.push_back(x.back());
  }
  const Values y = b.emit(*row.op, x, row.attributes);
  Value loss = constant(b, 0, f64);
  for (std::size_t r = 0; r < y.size(); ++r) {
    if (!is_used(weights[r])) continue;
    const std::string name = "weights" + std::to_string(r);
    loss = loss + sum(y[r] * b.input(InputKind::batch, name, weights[r].type));
    inputs[name] = weights[r];
  }
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

/// Results that a gradient can come through. The log-sum-exp of attention is for its gradient.
std::size_t differentiable_results(const Case& row) {
  return row.op == &ops::attention ? 1 : result_types(row).size();
}

/// Weights of every non-empty subset of the differentiable results.
std::vector<Weights> weights_of_subsets(const Case& row) {
  const std::vector<TensorType> types = result_types(row);
  std::vector<Weights> all;
  for (unsigned subset = 1; subset < 1u << differentiable_results(row); ++subset) {
    Weights& weights = all.emplace_back(types.size());
    for (std::size_t r = 0; r < types.size(); ++r)
      if (subset >> r & 1) weights[r] = draw({types[r], 0.5, 1.5}, 99 + static_cast<unsigned>(r));
  }
  return all;
}

}  // namespace

TEST_CASE(
    "gradients through every subset of results agree with central differences of the formulas") {
  int compared = 0, several = 0;
  for (const Case& row : all()) {
    if (!has_gradient(row) || row.op == &ops::stop_gradient) continue;
    CAPTURE(row.label());
    const std::vector<HostTensor> operands = draw_operands(row);
    for (const Weights& weights : weights_of_subsets(row)) {
      const testing::StepResult got = graph_gradients(row, operands, weights);
      for (std::size_t i = 0; i < operands.size(); ++i) {
        if (!is_floating(operands[i].type.dtype)) continue;
        const std::vector<double> expected = differences(row, to_reference(operands), i, weights);
        CHECK(testing::difference(got.updates.at("dx" + std::to_string(i)), expected) < 1e-7);
        ++compared;
      }
      several += std::count_if(weights.begin(), weights.end(), is_used) > 1;
    }
  }
  CHECK(compared > 80);
  CHECK(several > 4);
}

TEST_CASE("no gradient passes stop_gradient") {
  Recorder b;
  const Value x = b.input(InputKind::batch, "x", {f64, {3}});
  testing::output(b, "dx", gradient(sum(stop_gradient(square(x)) * x), {x})[0]);
  const testing::StepResult got =
      testing::evaluate(b.finish(), {{"x", testing::tensor({f64, {3}}, {1, 2, 3})}});
  CHECK(got.update("dx") == std::vector<double>{1, 4, 9});
}

TEST_CASE("gradients have the element type of what they belong to, through casts") {
  Recorder b;
  const Value x = b.input(InputKind::batch, "x", {bf16, {3}});
  const Value dx = gradient(sum(square(cast(x, f32))), {x})[0];
  CHECK(dx.type() == TensorType{bf16, {3}});
  testing::output(b, "dx", dx);
  const testing::StepResult got =
      testing::evaluate(b.finish(), {{"x", testing::tensor({bf16, {3}}, {1, -2, 3})}});
  CHECK(got.update("dx") == std::vector<double>{2, -4, 6});
}

TEST_CASE("reduce_max shares its gradient equally among ties") {
  Recorder b;
  const Value x = b.input(InputKind::batch, "x", {f64, {2, 3}});
  testing::output(b, "dx", gradient(sum(max(x, {1})), {x})[0]);
  const testing::StepResult got =
      testing::evaluate(b.finish(), {{"x", testing::tensor({f64, {2, 3}}, {1, 5, 5, 4, 2, 3})}});
  CHECK(got.update("dx") == std::vector<double>{0, 0.5, 0.5, 1, 0, 0});
}

}  // namespace gradient_test
