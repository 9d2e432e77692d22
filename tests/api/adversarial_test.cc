// Steps that train different parts of one state, and gradients of gradients: what a GAN needs.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include <array>
#include <cmath>

#include "support/error_text.h"
#include "support/temporary_file.h"

namespace adversarial_test {

using namespace alpa;
using alpa::testing::error_of;

namespace {

constexpr std::int64_t kRows = 6, kNoise = 2, kWidth = 3;

/// "z" and "real", as row-major numbers.
struct Examples {
  std::vector<double> z, real;
  BatchData batch() const {
    return {{"z", Array(z, {kRows, kNoise})}, {"real", Array(real, {kRows, kWidth})}};
  }
};

Examples examples(int n) {
  Examples e;
  for (int i = 0; i < kRows * kNoise; ++i) e.z.push_back(std::sin(i * 1.7 + n));
  for (int i = 0; i < kRows * kWidth; ++i) e.real.push_back(1 + std::cos(i * 0.9 - n));
  return e;
}

std::vector<BatchInput> inputs() { return inputs_of(examples(0).batch()); }

/// f = z · g.w, which d.w tells from real ones by a logit.
struct Models {
  Value generated(const Batch& b) const {
    return matmul(
        b["z"], b.builder().parameter("g.w", {f64, {kNoise, kWidth}}, Initializer::normal(0, 0.5)));
  }
  Value logits(const Batch& b, Value x) const {
    return matmul(x, b.builder().parameter("d.w", {f64, {kWidth, 1}}, Initializer::normal(0, 1)));
  }
  Value generator_loss(const Batch& b) const {
    return mean(log(1 + exp(-logits(b, generated(b)))));
  }
  Value discriminator_loss(const Batch& b) const {
    return mean(log(1 + exp(logits(b, generated(b))))) + mean(log(1 + exp(-logits(b, b["real"]))));
  }
};

const Optimizer sgd = optim::Sgd{.learning_rate = 0.1, .momentum = 0.9};
const Optimizer adam = optim::Adam{.learning_rate = 0.01};

/// Scalars of both steps, of which the generator's reads the rate alone.
std::map<std::string, double> scalars(std::int64_t step) {
  return {{"rate", step < 3 ? 0.1 : 0.05}, {"step", static_cast<double>(step)}};
}

/// A step of one optimizer for the parameters that fit a pattern.
TrainingStep own_step(Value (Models::*loss)(const Batch&) const, const std::string& pattern,
                      const Optimizer& optimizer, bool counts) {
  const auto build = [=](Builder& g, const Batch& b) {
    const Value value = (Models().*loss)(b);
    const Values trained = g.parameters(pattern);
    const Values gradients = mean_gradients(value, trained);
    g.metric("loss", mean_over_micro_batches("loss", value));
    g.set_region(Region::apply);
    const Value rate = g.input(InputKind::scalar, "rate", {f64, {}});
    const Value step = counts ? g.input(InputKind::scalar, "step", {f64, {}}) : rate;
    for (std::size_t i = 0; i < trained.size(); ++i)
      optimizer.update(g, trained[i], gradients[i], rate, step);
  };
  return custom_step(inputs(), build, scalars);
}

TrainingStep generator_step() {
  return own_step(&Models::generator_loss, "g.*", sgd, /*counts=*/false);
}
TrainingStep discriminator_step() {
  return own_step(&Models::discriminator_loss, "d.*", adam, /*counts=*/true);
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

/// Both steps written out: loops over rows, gradients by hand.
struct Reference {
  std::vector<double> g, d, velocity = std::vector<double>(kNoise * kWidth),
                            m = std::vector<double>(kWidth), v = m;
  int steps_of_d = 0, steps_of_g = 0;

  std::array<double, kWidth> row(const Examples& e, int r) const {
    std::array<double, kWidth> f{};
    for (int j = 0; j < kWidth; ++j)
      for (int i = 0; i < kNoise; ++i) f[j] += e.z[r * kNoise + i] * g[i * kWidth + j];
    return f;
  }
  template <class Row>
  double logit(const Row& x) const {
    double s = 0;
    for (int j = 0; j < kWidth; ++j) s += x[j] * d[j];
    return s;
  }
  double train_d(const Examples& e) {
    double loss = 0;
    std::vector<double> slope(kWidth);
    for (int r = 0; r < kRows; ++r) {
      const auto fake = row(e, r);
      const double* const real = &e.real[r * kWidth];
      const double sf = logit(fake), sr = logit(real);
      loss += (std::log1p(std::exp(sf)) + std::log1p(std::exp(-sr))) / kRows;
      for (int j = 0; j < kWidth; ++j)
        slope[j] += (sigmoid(sf) * fake[j] - sigmoid(-sr) * real[j]) / kRows;
    }
    const double rate = scalars(++steps_of_d).at("rate");
    for (int j = 0; j < kWidth; ++j) {
      m[j] = 0.9 * m[j] + 0.1 * slope[j];
      v[j] = 0.999 * v[j] + 0.001 * slope[j] * slope[j];
      d[j] -= rate * m[j] / (1 - std::pow(0.9, steps_of_d)) /
              (std::sqrt(v[j] / (1 - std::pow(0.999, steps_of_d))) + 1e-8);
    }
    return loss;
  }
  double train_g(const Examples& e) {
    double loss = 0;
    std::vector<double> slope(g.size());
    for (int r = 0; r < kRows; ++r) {
      const double s = logit(row(e, r));
      loss += std::log1p(std::exp(-s)) / kRows;
      for (int i = 0; i < kNoise; ++i)
        for (int j = 0; j < kWidth; ++j)
          slope[i * kWidth + j] -= sigmoid(-s) * e.z[r * kNoise + i] * d[j] / kRows;
    }
    const double rate = scalars(++steps_of_g).at("rate");
    for (std::size_t i = 0; i < g.size(); ++i) {
      velocity[i] = 0.9 * velocity[i] + slope[i];
      g[i] -= rate * velocity[i];
    }
    return loss;
  }
};

void check_close(const Array& got, const std::vector<double>& expected) {
  const std::vector<double> values = got.to_doubles();
  REQUIRE(values.size() == expected.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    CHECK(values[i] == doctest::Approx(expected[i]).epsilon(1e-12));
}

/// Two steps of the discriminator for each of the generator's.
void check_gan(const Executable& train_g, const Executable& train_d) {
  TrainState state = train_d.init(3);
  Reference expected{.g = state["g.w"].to_host().to_doubles(),
                     .d = state["d.w"].to_host().to_doubles()};
  for (int n = 0; n < 6; ++n) {
    const Examples e = examples(n);
    const bool of_g = n % 3 == 2;
    const double loss = (of_g ? train_g : train_d).run(state, e.batch()).loss();
    CHECK(loss == doctest::Approx(of_g ? expected.train_g(e) : expected.train_d(e)).epsilon(1e-12));
  }
  check_close(state["g.w"], expected.g), check_close(state["g.w.velocity"], expected.velocity);
  check_close(state["d.w"], expected.d), check_close(state["d.w.adam_m"], expected.m);
  check_close(state["d.w.adam_v"], expected.v);
}

const std::vector<std::pair<int, Method>>& methods() {
  static const std::vector<std::pair<int, Method>> methods{
      {1, Serial{}},
      {2, DataParallel{.num_micro_batches = 3}},
      {3, Zero2Parallel{}},
      {2, Zero3Parallel{}},
      {4, ShardParallel{.num_micro_batches = 2, .mesh_shape = {2, 2}}}};
  return methods;
}

}  // namespace

TEST_CASE("a GAN's two steps share one state, each with its optimizer, as written out by hand") {
  for (const auto& [devices, method] : methods()) {
    CAPTURE(devices);
    const Cluster cluster = Cluster::local(devices);
    const auto [g, d] = parallelize({generator_step(), discriminator_step()}, method, cluster);
    check_gan(g, d);
    const auto [first_d, then_g] =
        parallelize({discriminator_step(), generator_step()}, method, cluster);
    check_gan(then_g, first_d);
  }
}

TEST_CASE("training steps that freeze each other's parameters share one state, too") {
  const auto losses = [](Value (Models::*loss)(const Batch&) const) {
    return [loss](const Batch& b) { return (Models().*loss)(b); };
  };
  const TrainingStep g = training_step(inputs(), losses(&Models::generator_loss), sgd,
                                       {.frozen = {"d.*"}}),
                     d = training_step(inputs(), losses(&Models::discriminator_loss), adam,
                                       {.frozen = {"g.*"}});
  for (const auto& [devices, method] : methods()) {
    CAPTURE(devices);
    const auto [train_g, train_d] = parallelize({g, d}, method, Cluster::local(devices));
    const Executable alone_g = parallelize(g, method, Cluster::local(devices)),
                     alone_d = parallelize(d, method, Cluster::local(devices));
    TrainState state = train_g.init(0), of_g = alone_g.init(0), of_d = alone_d.init(0);
    for (int n = 0; n < 4; ++n) {
      const BatchData batch = examples(n).batch();
      CHECK(train_d.run(state, batch).loss() ==
            doctest::Approx(alone_d.run(of_d, batch).loss()).epsilon(1e-12));
      of_g["d.w"] = of_d["d.w"];
      CHECK(train_g.run(state, batch).loss() ==
            doctest::Approx(alone_g.run(of_g, batch).loss()).epsilon(1e-12));
      of_d["g.w"] = of_g["g.w"];
    }
    check_close(state["d.w.adam_m"], of_d["d.w.adam_m"].to_host().to_doubles());
    check_close(state["g.w.velocity"], of_g["g.w.velocity"].to_host().to_doubles());
  }
}

TEST_CASE("a checkpoint of a GAN holds the state of both steps, and a saved plan is loaded again") {
  const alpa::testing::TemporaryFile file("adversarial_test.json", "");
  const TrainingStep steps[] = {generator_step(), discriminator_step()};
  const auto [g, d] = parallelize(steps, Zero2Parallel{}, Cluster::local(2));
  const std::vector<std::string> names{"g.w", "d.w", "g.w.velocity", "d.w.adam_m", "d.w.adam_v"};
  std::vector<std::string> held = g.init(0).names();
  std::sort(held.begin(), held.end());
  std::vector<std::string> expected = names;
  std::sort(expected.begin(), expected.end());
  CHECK(held == expected);
  g.save_plan(file.path());
  const auto [again_g, again_d] =
      load_plan(steps[0], steps[1], Zero2Parallel{}, Cluster::local(2), file.path());
  check_gan(again_g, again_d);
}

TEST_CASE("state that a later step reads and none updates is still refused") {
  const TrainingStep other = evaluation_step(inputs(), [](const Batch& b) {
    return mean(matmul(b["z"], b.builder().parameter("other", {f64, {kNoise, 1}}, zeros)));
  });
  CHECK(error_of([&] {
          parallelize({generator_step(), other}, Serial{}, Cluster::local(1));
        }) ==
        "a step that shares the state of another reads \"other\", which that one lacks; build both "
        "from the same layers, or call parallelize for each");
}

TEST_CASE("a custom step whose scalars lack one that it reads is refused when it is traced") {
  const auto reads = [](Builder& g, const Batch& b) {
    const Value w = g.parameter("w", {f32, {2}}, ones);
    const Value loss = mean(b["x"] * w);
    const Values gradients = mean_gradients(loss, {w});
    g.update(w, w - gradients[0] * g.input(InputKind::scalar, "rate", {f32, {}}));
  };
  const std::vector<BatchInput> x{{"x", {f32, {4, 2}}}};
  const auto error = [&](const std::map<std::string, double>& given) {
    const TrainingStep step = custom_step(x, reads, [=](std::int64_t) { return given; });
    return error_of([&] { plan_only(step, Serial{}, Cluster::local(1)); });
  };
  CHECK(error({{"rate", 1}, {"unused", 2}}) == "no error");
  CHECK(error({{"rat", 1}}) ==
        "custom_step: the step reads scalar \"rate\", but its scalars are \"rat\"; return it from "
        "the third argument of custom_step, or list it among the inputs");
  CHECK(error({}) ==
        "custom_step: the step reads scalar \"rate\", but its scalars are none; return it from "
        "the third argument of custom_step, or list it among the inputs");
  // Without a function, the number comes with the batch.
  const Executable given = parallelize(custom_step(x, reads), Serial{}, Cluster::local(1));
  TrainState state = given.init(0);
  given.run(state, {{"x", Array(std::vector<float>(8, 2), {4, 2})}, {"rate", 0.25F}});
  CHECK(state["w"].to_host().to_doubles() == std::vector<double>{0.75, 0.75});
}

TEST_CASE("parameters are found by a pattern of their names") {
  std::vector<std::string> found;
  std::string error;
  custom_step({{"x", {f32, {4, 2}}}}, [&](Builder& g, const Batch& b) {
    const Value x = nn::Sequential({nn::Dense(3), nn::Dense(3)}, {.name = "g"})(b["x"]);
    const Value loss = mean(nn::Sequential({nn::Dense(1)}, {.name = "d"})(x));
    CHECK(g.parameters("g.*").size() == 4);
    CHECK(g.parameters("*.bias").size() == 3);
    CHECK(g.parameters("d.0.kernel")[0].shape() == Shape{3, 1});
    error = error_of([&] { g.parameters("e.*"); });
    g.metric("loss", mean_over_micro_batches("loss", loss));
  }).trace(1);
  CHECK(error ==
        "parameters: \"e.*\" matches no parameter made so far; these are \"g.0.kernel\", "
        "\"g.0.bias\", \"g.1.kernel\", \"g.1.bias\", \"d.0.kernel\", \"d.0.bias\"");
}

namespace {

constexpr std::int64_t kHidden = 4;

/// d(x) = tanh(x · w) · v for rows x.
struct Critic {
  Value w, v;
  explicit Critic(Builder& g)
      : w(g.parameter("w", {f64, {kWidth, kHidden}}, Initializer::normal(0, 0.7))),
        v(g.parameter("v", {f64, {kHidden, 1}}, Initializer::normal(0, 0.7))) {}
  Value operator()(Value x) const { return matmul(tanh(matmul(x, w)), v); }
};

/// The loss of a Wasserstein GAN's critic with a gradient penalty (Gulrajani et al. 2017): every
/// row's gradient should have the norm 1.
Value penalised(const Critic& critic, Value x) {
  const Value y = critic(x);
  const Value slope = gradient(sum(y), {x})[0];
  const Value norm = sqrt(sum(square(slope), {1}));
  return mean(y) + 10 * mean(square(norm - 1));
}

/// The same of numbers.
double penalised(const std::vector<double>& w, const std::vector<double>& v,
                 const std::vector<double>& x) {
  double loss = 0;
  for (int r = 0; r < kRows; ++r) {
    double y = 0, slope[kWidth] = {};
    for (int h = 0; h < kHidden; ++h) {
      double a = 0;
      for (int j = 0; j < kWidth; ++j) a += x[r * kWidth + j] * w[j * kHidden + h];
      const double t = std::tanh(a);
      y += t * v[h];
      for (int j = 0; j < kWidth; ++j) slope[j] += (1 - t * t) * w[j * kHidden + h] * v[h];
    }
    const double norm = std::hypot(slope[0], slope[1], slope[2]);
    loss += (y + 10 * (norm - 1) * (norm - 1)) / kRows;
  }
  return loss;
}

/// Slopes by central differences.
std::vector<double> differences(std::vector<double>& at, const std::function<double()>& loss) {
  std::vector<double> slopes;
  for (double& element : at) {
    const double before = element, h = 1e-5;
    element = before + h;
    const double above = loss();
    element = before - h;
    slopes.push_back((above - loss()) / (2 * h));
    element = before;
  }
  return slopes;
}

/// One step by the gradient; what it moves is the gradient.
void check_penalty(const TrainingStep& step) {
  const std::vector<double> x = examples(1).real;
  for (const auto& [devices, method] : methods()) {
    CAPTURE(devices);
    const Executable train = parallelize(step, method, Cluster::local(devices));
    TrainState state = train.init(0);
    std::vector<double> w = state["w"].to_host().to_doubles(),
                        v = state["v"].to_host().to_doubles();
    const auto loss = [&] { return penalised(w, v, x); };
    CHECK(train.run(state, {{"x", Array(x, {kRows, kWidth})}}).loss() ==
          doctest::Approx(loss()).epsilon(1e-12));
    for (const auto& [name, before] : {std::pair("w", &w), std::pair("v", &v)}) {
      const std::vector<double> slopes = differences(*before, loss),
                                after = state[name].to_host().to_doubles();
      for (std::size_t i = 0; i < slopes.size(); ++i)
        CHECK((*before)[i] - after[i] == doctest::Approx(slopes[i]).epsilon(1e-7));
    }
  }
}

const std::vector<BatchInput> kX{{"x", {f64, {kRows, kWidth}}}};

}  // namespace

TEST_CASE("a gradient penalty in a custom step trains along numeric slopes, without a region set") {
  check_penalty(custom_step(kX, [](Builder& g, const Batch& b) {
    const Value loss = penalised(Critic(g), b["x"]);
    const Values parameters = g.parameters(), gradients = mean_gradients(loss, parameters);
    g.metric("loss", mean_over_micro_batches("loss", loss));
    for (std::size_t i = 0; i < parameters.size(); ++i)
      g.update(parameters[i], parameters[i] - gradients[i]);
  }));
}

TEST_CASE("a gradient penalty in the loss of a training step does, too") {
  check_penalty(training_step(
      kX, [](const Batch& b) { return penalised(Critic(b.builder()), b["x"]); },
      optim::Sgd{.learning_rate = 1}));
}

TEST_CASE("a gradient penalty across stages of a pipeline is refused") {
  const nn::Sequential first{nn::Dense(4), nn::Tanh()}, second{nn::Dense(1)};
  const auto loss = [=](const Batch& b) {
    const Value y = second(mark_pipeline_boundary(first(b["x"])));
    return mean(y) + mean(square(gradient(sum(y), {b["x"]})[0]));
  };
  CHECK(error_of([&] {
          parallelize(training_step(kX, loss, optim::Sgd{}),
                      PipeshardParallel{.num_micro_batches = 2, .stages = UniformStages{2}},
                      Cluster::local(2));
        }) ==
        "stages: square \"square\" of stage 1 reads einsum \"0/einsum.grad/einsum\" of the earlier "
        "stage 0, whose backward pass comes later: a gradient of a gradient; give it a plan of one "
        "stage");
}

TEST_CASE("evaluation of any number of rows follows training in micro-batches") {
  const nn::Dense layer(1);
  const auto loss = [=](const Batch& b) { return mean(square(layer(b["x"]))); };
  const auto rows = [](std::int64_t n) {
    std::vector<float> x;
    for (int i = 0; i < 2 * n; ++i) x.push_back(static_cast<float>(std::sin(i)));
    return BatchData{{"x", Array(x, {n, 2})}};
  };
  const std::vector<std::pair<int, Method>> tried{
      {1, Serial{.num_micro_batches = 3}},
      {2, DataParallel{.num_micro_batches = 3}},
      {2, PipeshardParallel{.num_micro_batches = 3, .layers = AutoLayers{2}}}};
  for (const auto& [devices, method] : tried)
    for (const auto& [n, parts] : {std::pair(7, 7), {2, 2}, {1, 1}, {8, 4}, {9, 3}, {12, 3}}) {
      CAPTURE(devices);
      CAPTURE(n);
      const auto [train, evaluate] =
          parallelize(training_step(inputs_of(rows(6)), loss, optim::Sgd{}),
                      evaluation_step(inputs_of(rows(n)), loss), method, Cluster::local(devices));
      TrainState state = train.init(0);
      train.run(state, rows(6));
      CHECK(evaluate.graph().num_micro_batches == parts);
      const std::vector<double> w = state["dense0.kernel"].to_host().to_doubles();
      const double b = state["dense0.bias"].to_host().to_doubles()[0];
      double expected = 0;
      for (int i = 0; i < n; ++i) {
        const double y = std::sin(2 * i) * w[0] + std::sin(2 * i + 1) * w[1] + b;
        expected += y * y / n;
      }
      CHECK(evaluate.run(state, rows(n)).loss() == doctest::Approx(expected).epsilon(1e-5));
    }
}

}  // namespace adversarial_test
