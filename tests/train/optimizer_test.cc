// Optimizers against their formulas, written out here in double.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include <cmath>

namespace optimizer_test {

using namespace alpa;

namespace {

const std::vector<double> kStart = {0.5, -1.25, 2.0};
const std::vector<std::vector<double>> kGradients = {
    {0.3, -0.7, 0.01}, {-0.2, 0.4, 0.05}, {0.9, 0.1, -0.6}};

/// The parameter after one step per row of kGradients: the loss is the sum of w·x,
/// so that x is the gradient.
std::vector<double> trained(const Optimizer& optimizer, DType dtype = f64) {
  const TrainingStep step = training_step(
      {{"x", {dtype, {1, 3}}}},
      [](const Batch& b) {
        const Value w = b.builder().parameter("w", {b["x"].dtype(), {3}}, Initializer::zeros());
        return sum(b["x"] * w);
      },
      optimizer);
  const Executable train = parallelize(step, Serial{}, Cluster::local(1));
  TrainState state = train.init(0);
  state["w"] = Array(kStart, {3}).cast(dtype);
  for (const auto& gradient : kGradients)
    train.run(state, {{"x", Array(gradient, {1, 3}).cast(dtype)}});
  return state["w"].to_host().to_doubles();
}

void check_close(const std::vector<double>& actual, const std::vector<double>& expected,
                 double tolerance) {
  REQUIRE(actual.size() == expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    CAPTURE(i);
    CHECK(std::abs(actual[i] - expected[i]) <= tolerance * std::max(1.0, std::abs(expected[i])));
  }
}

/// Applies `update(w, g, t)` with a state of its own per element.
template <class MakeUpdate>
std::vector<double> by_formula(MakeUpdate make_update) {
  std::vector<double> w = kStart;
  for (std::size_t i = 0; i < w.size(); ++i) {
    auto update = make_update();
    for (std::size_t t = 0; t < kGradients.size(); ++t)
      w[i] = update(w[i], kGradients[t][i], static_cast<int>(t) + 1);
  }
  return w;
}

std::vector<double> adam_by_formula(double rate, double weight_decay) {
  return by_formula([=] {
    return [=, m = 0.0, v = 0.0](double w, double g, int t) mutable {
      m = 0.9 * m + 0.1 * g;
      v = 0.999 * v + 0.001 * g * g;
      const double m_hat = m / (1 - std::pow(0.9, t)), v_hat = v / (1 - std::pow(0.999, t));
      return w - rate * (m_hat / (std::sqrt(v_hat) + 1e-8) + weight_decay * w);
    };
  });
}

std::vector<double> sgd_by_formula(double rate, double momentum, double weight_decay,
                                   bool nesterov) {
  return by_formula([=] {
    return [=, velocity = 0.0](double w, double g, int) mutable {
      g += weight_decay * w;
      velocity = momentum * velocity + g;
      return w - rate * (nesterov ? g + momentum * velocity : velocity);
    };
  });
}

std::vector<std::string> state_names(const Optimizer& optimizer) {
  const TrainingStep step = training_step(
      {{"x", {f32, {1, 3}}}},
      [](const Batch& b) {
        return sum(b["x"] * b.builder().parameter("w", {f32, {3}}, {}));
      },
      optimizer);
  std::vector<std::string> names;
  for (const Input& input : step.trace(1).inputs)
    if (input.kind == InputKind::state) names.push_back(input.name);
  return names;
}

}  // namespace

TEST_CASE("sgd follows its formula, with momentum, Nesterov and weight decay") {
  check_close(trained(optim::Sgd{.learning_rate = 0.1}), sgd_by_formula(0.1, 0, 0, false), 1e-14);
  check_close(trained(optim::Sgd{.learning_rate = 0.1, .weight_decay = 0.2}),
              sgd_by_formula(0.1, 0, 0.2, false), 1e-14);
  check_close(trained(optim::Sgd{.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.2}),
              sgd_by_formula(0.1, 0.9, 0.2, false), 1e-14);
  check_close(trained(optim::Sgd{.learning_rate = 0.1, .momentum = 0.9, .nesterov = true}),
              sgd_by_formula(0.1, 0.9, 0, true), 1e-14);
}

TEST_CASE("adam and adamw follow their formulas") {
  check_close(trained(optim::Adam{.learning_rate = 0.05}), adam_by_formula(0.05, 0), 1e-14);
  check_close(trained(optim::AdamW{.learning_rate = 0.05, .weight_decay = 0.3}),
              adam_by_formula(0.05, 0.3), 1e-14);
}

TEST_CASE("f32 and bf16 parameters are updated to their precision") {
  check_close(trained(optim::Sgd{.learning_rate = 0.1}, f32), sgd_by_formula(0.1, 0, 0, false),
              1e-6);
  check_close(trained(optim::Adam{.learning_rate = 0.05}, f32), adam_by_formula(0.05, 0), 1e-6);
  check_close(trained(optim::Sgd{.learning_rate = 0.1}, bf16), sgd_by_formula(0.1, 0, 0, false),
              2e-2);
  check_close(trained(optim::Adam{.learning_rate = 0.05}, bf16), adam_by_formula(0.05, 0), 2e-2);
}

TEST_CASE("an optimizer keeps the state it needs and no more") {
  using Names = std::vector<std::string>;
  CHECK(state_names(optim::Sgd{}) == Names{"w"});
  CHECK(state_names(optim::Sgd{.momentum = 0.9}) == Names{"w", "w.velocity"});
  CHECK(state_names(optim::Adam{}) == Names{"w", "w.adam_m", "w.adam_v"});
}

TEST_CASE("a schedule's rate is used in the step it is for") {
  const Schedule rate = [](std::int64_t step) { return step == 2 ? 0.5 : 0.0; };
  std::vector<double> expected = kStart;
  for (std::size_t i = 0; i < expected.size(); ++i) expected[i] -= 0.5 * kGradients[1][i];
  check_close(trained(optim::Sgd{.learning_rate = rate}), expected, 1e-14);
}

TEST_CASE("warmup_cosine rises linearly, then falls along a cosine to its floor") {
  const Schedule rate = warmup_cosine(1.0, 4, 12, 0.2);
  CHECK(rate(1) == doctest::Approx(0.25));
  CHECK(rate(4) == doctest::Approx(1.0));
  CHECK(rate(8) == doctest::Approx(0.6));  // half way: the mean of peak and floor
  CHECK(rate(10) == doctest::Approx(0.2 + 0.8 * 0.5 * (1 - std::sqrt(0.5))));
  CHECK(rate(12) == doctest::Approx(0.2));
  CHECK(rate(100) == doctest::Approx(0.2));
}

TEST_CASE("schedules warm up linearly, then stay, or fall along a line or a root") {
  const Schedule constant = warmup_constant(2.0, 4), line = warmup_linear(1.0, 4, 12, 0.2),
                 root = warmup_inverse_sqrt(1.0, 4);
  for (const Schedule& rate : {constant, line, root}) CHECK(rate(2) == rate(4) / 2);
  CHECK(constant(4) == 2.0);
  CHECK(constant(1000) == 2.0);
  CHECK(line(4) == doctest::Approx(1.0));
  CHECK(line(10) == doctest::Approx(0.4));
  CHECK(line(12) == doctest::Approx(0.2));
  CHECK(line(100) == doctest::Approx(0.2));
  CHECK(root(16) == doctest::Approx(0.5));
}

TEST_CASE("joined schedules follow one another and count their own steps") {
  const Schedule rate =
      join_schedules({{2, linear_schedule(0, 1, 2)}, {3, 0.25}, {4, cosine_schedule(1, 0, 4)}},
                     [](std::int64_t step) { return 10.0 * static_cast<double>(step); });
  CHECK(rate(1) == doctest::Approx(0.5));
  CHECK(rate(2) == doctest::Approx(1.0));
  CHECK(rate(3) == 0.25);
  CHECK(rate(5) == 0.25);
  CHECK(rate(7) == doctest::Approx(0.5));
  CHECK(rate(9) == doctest::Approx(0.0));
  CHECK(rate(10) == 10.0);
}

}  // namespace optimizer_test
