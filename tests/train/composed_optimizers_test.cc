// LAMB, Lion and Adafactor against their formulas, written out here in double, on a matrix; and
// moving averages of parameters.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

namespace composed_optimizers_test {

using namespace alpa;

namespace {

using Numbers = std::vector<double>;

constexpr int kRows = 2, kColumns = 3, kSteps = 3;
const Numbers kStart = {0.5, -1.25, 2.0, 0.1, -0.3, 0.75};
const std::vector<Numbers> kGradients = {{0.3, -0.7, 0.01, 0.2, -0.1, 0.6},
                                         {-0.2, 0.4, 0.05, -0.9, 0.3, 0.1},
                                         {0.9, 0.1, -0.6, 0.4, 0.25, -0.05}};

/// The step whose gradient with respect to "w" is "x".
TrainingStep step_of(const Optimizer& optimizer, DType dtype, StepOptions options = {}) {
  return training_step(
      {{"x", {dtype, {1, kRows, kColumns}}}},
      [dtype](const Batch& b) {
        const Value w =
            b.builder().parameter("w", {dtype, {kRows, kColumns}}, Initializer::zeros());
        return sum(b["x"] * w);
      },
      optimizer, std::move(options));
}

/// "w" and every other state after three steps.
std::map<std::string, Numbers> trained(const TrainingStep& step, DType dtype,
                                       const Method& method = Serial{}, int devices = 1) {
  const Executable train = parallelize(step, method, Cluster::local(devices));
  TrainState state = train.init(0);
  state["w"] = Array(kStart, {kRows, kColumns}).cast(dtype);
  for (const Numbers& gradient : kGradients)
    train.run(state, {{"x", Array(gradient, {1, kRows, kColumns}).cast(dtype)}});
  std::map<std::string, Numbers> result;
  for (const std::string& name : state.names()) result[name] = state[name].to_host().to_doubles();
  return result;
}

void check_close(const Numbers& actual, const Numbers& expected, double tolerance) {
  REQUIRE(actual.size() == expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    CAPTURE(i);
    CHECK(std::abs(actual[i] - expected[i]) <= tolerance * std::max(1.0, std::abs(expected[i])));
  }
}

/// In f64 as exact as that, in f32 and on several devices as exact as f32.
void check_everywhere(const Optimizer& optimizer, const Numbers& expected) {
  check_close(trained(step_of(optimizer, f64), f64).at("w"), expected, 1e-13);
  check_close(trained(step_of(optimizer, f32), f32).at("w"), expected, 1e-6);
  for (int devices : {2, 3, 8}) {
    CAPTURE(devices);
    check_close(trained(step_of(optimizer, f32), f32, ShardParallel{}, devices).at("w"), expected,
                1e-6);
    check_close(
        trained(step_of(optimizer, f32), f32, ShardParallel{.shard_optimizer_state = true}, devices)
            .at("w"),
        expected, 1e-6);
  }
}

double norm(const Numbers& x) {
  return std::sqrt(std::inner_product(x.begin(), x.end(), x.begin(), 0.0));
}

double rms(const Numbers& x) { return norm(x) / std::sqrt(static_cast<double>(x.size())); }

Numbers lamb_by_formula(double rate, double weight_decay, double epsilon) {
  Numbers w = kStart, m(w.size()), v(w.size()), r(w.size());
  for (int t = 1; t <= kSteps; ++t) {
    for (std::size_t i = 0; i < w.size(); ++i) {
      const double g = kGradients[t - 1][i];
      m[i] = 0.9 * m[i] + 0.1 * g;
      v[i] = 0.999 * v[i] + 0.001 * g * g;
      const double m_hat = m[i] / (1 - std::pow(0.9, t)), v_hat = v[i] / (1 - std::pow(0.999, t));
      r[i] = m_hat / (std::sqrt(v_hat) + epsilon) + weight_decay * w[i];
    }
    const double size = rate * norm(w) / norm(r);
    for (std::size_t i = 0; i < w.size(); ++i) w[i] -= size * r[i];
  }
  return w;
}

Numbers lion_by_formula(double rate, double weight_decay) {
  Numbers w = kStart, m(w.size());
  for (const Numbers& g : kGradients)
    for (std::size_t i = 0; i < w.size(); ++i) {
      const double c = 0.9 * m[i] + 0.1 * g[i];
      w[i] -= rate * ((c > 0) - (c < 0) + weight_decay * w[i]);
      m[i] = 0.99 * m[i] + 0.01 * g[i];
    }
  return w;
}

/// The paper's algorithm 4 (factored) or 5, with relative steps, for a rate per step.
Numbers adafactor_by_formula(const std::function<double(int)>& rate, bool factored) {
  Numbers w = kStart, rows(kRows), columns(kColumns), v(w.size());
  for (int t = 1; t <= kSteps; ++t) {
    const double rest = std::pow(t, -0.8);
    Numbers u = kGradients[t - 1], row_means(kRows), column_means(kColumns);
    for (int i = 0; i < kRows; ++i)
      for (int j = 0; j < kColumns; ++j) {
        const double square = u[i * kColumns + j] * u[i * kColumns + j] + 1e-30;
        row_means[i] += square / kColumns;
        column_means[j] += square / kRows;
        v[i * kColumns + j] += rest * (square - v[i * kColumns + j]);
      }
    for (int i = 0; i < kRows; ++i) rows[i] += rest * (row_means[i] - rows[i]);
    for (int j = 0; j < kColumns; ++j) columns[j] += rest * (column_means[j] - columns[j]);
    const double mean = std::accumulate(rows.begin(), rows.end(), 0.0) / kRows;
    for (int i = 0; i < kRows; ++i)
      for (int j = 0; j < kColumns; ++j) {
        const std::size_t at = i * kColumns + j;
        u[at] /= std::sqrt(factored ? rows[i] * columns[j] / mean : v[at]);
      }
    const double size = rate(t) * std::max(1e-3, rms(w)) / std::max(1.0, rms(u));
    for (std::size_t i = 0; i < w.size(); ++i) w[i] -= size * u[i];
  }
  return w;
}

}  // namespace

TEST_CASE("lamb follows its formula on one device and on several") {
  check_everywhere(optim::Lamb{.learning_rate = 0.05}, lamb_by_formula(0.05, 0, 1e-6));
  check_everywhere(optim::Lamb{.learning_rate = 0.05, .epsilon = 1e-3, .weight_decay = 0.3},
                   lamb_by_formula(0.05, 0.3, 1e-3));
}

TEST_CASE("lamb moves a parameter of zeros as adam does") {
  const TrainingStep step = step_of(optim::Lamb{.learning_rate = 0.05, .epsilon = 0}, f64);
  const Executable train = parallelize(step, Serial{}, Cluster::local(1));
  TrainState state = train.init(0);  // zeros
  train.run(state, {{"x", Array(kGradients[0], {1, kRows, kColumns})}});
  Numbers expected;
  for (double g : kGradients[0]) expected.push_back(g > 0 ? -0.05 : 0.05);
  check_close(state["w"].to_host().to_doubles(), expected, 1e-12);
}

TEST_CASE("lion follows its formula on one device and on several") {
  check_everywhere(optim::Lion{.learning_rate = 0.05}, lion_by_formula(0.05, 0));
  check_everywhere(optim::Lion{.learning_rate = 0.05, .weight_decay = 0.3},
                   lion_by_formula(0.05, 0.3));
}

TEST_CASE("adafactor follows its formula, factored or not, on one device and on several") {
  const auto relative = [](int t) { return std::min(1e-2, 1 / std::sqrt(t)); };
  check_everywhere(optim::Adafactor{}, adafactor_by_formula(relative, false));
  check_everywhere(optim::Adafactor{.min_factored_extent = 2},
                   adafactor_by_formula(relative, true));
  check_everywhere(optim::Adafactor{.learning_rate = 0.05, .min_factored_extent = 2},
                   adafactor_by_formula([](int) { return 0.05; }, true));
}

TEST_CASE("adafactor keeps a mean per row and per column instead of a matrix") {
  const auto state = trained(step_of(optim::Adafactor{.min_factored_extent = 2}, f64), f64);
  CHECK(state.size() == 3);
  CHECK(state.at("w.adafactor_rows").size() == kRows);
  CHECK(state.at("w.adafactor_columns").size() == kColumns);
  const auto whole = trained(step_of(optim::Adafactor{.min_factored_extent = 4}, f64), f64);
  CHECK(whole.at("w.adafactor_v").size() == kStart.size());
  const auto with_momentum = trained(step_of(optim::Adafactor{.momentum = 0.9}, f64), f64);
  CHECK(with_momentum.at("w.adafactor_m").size() == kStart.size());
}

TEST_CASE("bf16 parameters keep their moments in f32") {
  const TrainingStep step = step_of(optim::Lion{.learning_rate = 0.05}, bf16);
  const Graph graph = step.trace(1);
  for (const Input& input : graph.inputs)
    if (input.name == "w.lion_m") CHECK(graph.type(input.value).dtype == f32);
  check_close(trained(step, bf16).at("w"), lion_by_formula(0.05, 0), 2e-2);
}

TEST_CASE("a moving average begins as the first step's parameters and follows them") {
  const Optimizer sgd = optim::Sgd{.learning_rate = 0.1};
  Numbers w = kStart, average;
  for (const Numbers& g : kGradients) {
    for (std::size_t i = 0; i < w.size(); ++i) w[i] -= 0.1 * g[i];
    if (average.empty()) average = w;
    for (std::size_t i = 0; i < w.size(); ++i) average[i] = 0.8 * average[i] + 0.2 * w[i];
  }
  const TrainingStep step = step_of(sgd, f64, {.ema = 0.8});
  const auto state = trained(step, f64);
  check_close(state.at("w"), w, 1e-14);
  check_close(state.at("w.ema"), average, 1e-14);
  check_close(trained(step, f64, ShardParallel{}, 3).at("w.ema"), average, 1e-14);
}

TEST_CASE("averages are read beside state that belongs to parameters") {
  const std::vector<BatchInput> inputs = {{"x", {f32, {8, 2, 2, 3}}}};
  const nn::BatchNorm norm;
  const auto model = [=](const Batch& b) { return mean(square(norm(b["x"]) - 1)); };
  auto [train, averaged] = parallelize(
      training_step(inputs, model, optim::Sgd{.learning_rate = 0.1}, {.ema = 0.9}),
      evaluation_step(inputs, model, {.ema = true}), ShardParallel{}, Cluster::local(2));
  TrainState state = train.init(1);
  const std::map<std::string, Array> batch = {
      {"x", Array(linear_dataset(8, 12, 3).x.elements_as<float>(), {8, 2, 2, 3})}};
  for (int i = 0; i < 2; ++i) train.run(state, batch);
  CHECK(std::isfinite(averaged.run(state, batch).loss()));
}

TEST_CASE("evaluation reads the parameters or their averages") {
  const std::vector<BatchInput> inputs = {{"x", {f32, {8, 4}}}, {"y", {f32, {8, 2}}}};
  const nn::Dense first(3), second(2);
  const auto model = [=](const Batch& b) {
    return nn::mean_squared_error(second(relu(first(b["x"]))), b["y"]);
  };
  const std::vector<std::string> frozen = {"dense0.bias"};
  auto [train, plain, averaged] =
      parallelize({training_step(inputs, model, optim::Sgd{.learning_rate = 0.1},
                                 {.frozen = frozen, .ema = 0.9}),
                   evaluation_step(inputs, model),
                   evaluation_step(inputs, model, {.ema = true, .frozen = frozen})},
                  ShardParallel{}, Cluster::local(2));
  TrainState state = train.init(1);
  const Dataset data = linear_dataset(8, 4, 3);
  const std::vector<float> targets(16, 0.5F);
  const std::map<std::string, Array> batch = {{"x", data.x}, {"y", Array(targets, {8, 2})}};
  train.run(state, batch);
  CHECK(averaged.run(state, batch).loss() == plain.run(state, batch).loss());
  for (int i = 0; i < 3; ++i) train.run(state, batch);
  const double loss = averaged.run(state, batch).loss();
  CHECK(loss != plain.run(state, batch).loss());
  for (const std::string& name : state.names())
    if (name.ends_with(".ema")) {
      const std::string parameter = name.substr(0, name.size() - 4);
      state[parameter] = state[name].to_host();
    }
  CHECK(plain.run(state, batch).loss() == doctest::Approx(loss).epsilon(1e-6));
}

}  // namespace composed_optimizers_test
