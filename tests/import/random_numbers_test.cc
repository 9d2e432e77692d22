// Random numbers of ours in place of jax's.
#include <doctest/doctest.h>

#include <alpa/alpa.h>

#include <algorithm>
#include <cmath>

#include "alpa/import/stablehlo.h"
#include "import/data.h"
#include "support/difference.h"

namespace import_random_numbers_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

constexpr ImportOptions kOurs{.random = RandomNumbers::ours};
constexpr double kKeep = 0.7;

Imported function(const std::string& name) {
  for (const auto& [found, text] : modules(JaxData("random_numbers").text()))
    if (found == name) return import_stablehlo(text, kOurs);
  FAIL("no such function");
  return {};
}

struct Run {
  std::vector<double> before, after;  ///< the first argument
  double loss = 0;
};

/// The second of two steps; the first argument begins as numbers from 1 to 2 at each.
Run run_twice(const Imported& function, const TrainingStep& step, int devices, std::uint64_t seed) {
  const Executable run = parallelize(step, ShardParallel{}, Cluster::local(devices));
  TrainState state = run.init(seed);
  const std::string x = function.arguments[0].name;
  Array start(function.arguments[0].type);
  auto elements = start.mutable_elements_as<float>();
  for (std::size_t i = 0; i < elements.size(); ++i)
    elements[i] = 1 + static_cast<float>(i % 97) / 97;
  BatchData batch;
  for (const BatchInput& input : step.inputs) batch.emplace(input.name, Array(input.type));
  Run found{.before = start.to_doubles(), .after = {}};
  for (int i = 0; i < 2; ++i) {
    state[x] = start;
    found.loss = run.run(state, batch).metrics.values().begin()->second;
    found.after = Array(state[x]).to_doubles();
  }
  return found;
}

/// Gradients of the dropped sum of squares: 2x / keep, or 0.
std::vector<double> check_gradient(const Run& run, const std::vector<double>& gradient) {
  std::vector<double> mask;
  double kept = 0, loss = 0;
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    const double x = run.before[i], of_kept = 2 * x / kKeep;
    mask.push_back(std::abs(gradient[i]) > 1e-3 ? 1 : 0);
    CHECK(gradient[i] == doctest::Approx(mask.back() * of_kept).epsilon(1e-4));
    kept += mask.back();
    loss += gradient[i] * x / 2;
  }
  const auto n = static_cast<double>(gradient.size());
  CHECK(std::abs(kept / n - kKeep) < 4 * std::sqrt(kKeep * (1 - kKeep) / n));
  CHECK(run.loss == doctest::Approx(loss).epsilon(1e-5));  // the mask of the forward part
  return mask;
}

std::vector<double> mask_of_loss(int devices, std::uint64_t seed) {
  const Imported loss = function("dropout");
  const Run run =
      run_twice(loss, training_step(loss, optim::Sgd{.learning_rate = 1}, {.parameters = "1"}),
                devices, seed);
  std::vector<double> gradient = run.before;
  for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] -= run.after[i];
  return check_gradient(run, gradient);
}

}  // namespace

TEST_CASE("our dropout keeps its share, and its gradient has the mask of the forward part") {
  const std::vector<double> mask = mask_of_loss(1, 3);
  CHECK(mask_of_loss(1, 3) == mask);
  CHECK(mask_of_loss(4, 3) == mask);
  CHECK(mask_of_loss(1, 4) != mask);
}

TEST_CASE("numbers that jax draws again for a gradient are drawn once") {
  const Imported step = function("dropout again");
  const Run run = run_twice(step, whole_step(step), 1, 0);
  check_gradient(run, run.after);
}

TEST_CASE("our uniform numbers lie between their bounds, and follow their keys") {
  const Imported step = function("uniform");
  const Run run = run_twice(step, whole_step(step), 1, 0);
  const std::size_t n = run.before.size() / 3;
  double sum = 0, same = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const auto drawn = [&](std::size_t k) { return run.after[i + k * n] - run.before[i + k * n]; };
    CHECK(drawn(0) > -2.0001);
    CHECK(drawn(0) < 3.0001);
    CHECK(std::abs(drawn(0) - drawn(2)) < 1e-5);
    sum += drawn(0), same += std::abs(drawn(0) - drawn(1)) < 1e-3 ? 1 : 0;
  }
  const auto count = static_cast<double>(n);
  CHECK(std::abs(sum / count - 0.5) < 4 * 5 / std::sqrt(12 * count));
  CHECK(same < count / 100);
}

TEST_CASE("with our random numbers BERT has a fraction of its operators") {
  const std::string text = JaxData("bert_dropout").text();
  const auto nodes = [&](const ImportOptions& options) {
    const Imported loss = import_stablehlo(text, options);
    return training_step(loss, optim::Sgd{}, {.parameters = "36"}).trace(1).nodes.size();
  };
  CHECK(nodes(kOurs) * 3 < nodes({}));
  const auto found = import_stablehlo(text, kOurs).recognised;
  CHECK(std::ranges::count(found, Recognised{"dropout", 2}) == 1);
  CHECK(std::ranges::count(found, "random_uniform", &Recognised::pattern) == 0);
}

}  // namespace import_random_numbers_test
