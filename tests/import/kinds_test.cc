// Small functions of jax that have the kinds of operations, each with its gradient.
#include <doctest/doctest.h>

#include <alpa/alpa.h>

#include "alpa/import/stablehlo.h"
#include "import/data.h"
#include "support/difference.h"

namespace import_kinds_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

/// How far value and gradients of function `n` are from jax's, run on one device.
double difference(const Imported& function, const JaxData& data, std::size_t n, bool gradients) {
  const auto name = [](std::size_t i) { return fmt::format("x{}", i); };
  const TrainingStep step =
      custom_step({{"unused", {f32, {1}}}}, [&](Builder& graph, const Batch&) {
        Values arguments;
        for (std::size_t i = 0; i < function.arguments.size(); ++i)
          arguments.push_back(graph.parameter(name(i), function.arguments[i].type, zeros));
        const Value loss = function(arguments)[0];
        graph.metric("loss", loss);
        if (!gradients) return;
        const Values found = gradient(loss, arguments);
        for (std::size_t i = 0; i < found.size(); ++i) graph.update(arguments[i], found[i]);
      });
  const Executable run = parallelize(step, Serial{}, Cluster::local(1));
  TrainState state = run.init(0);
  for (std::size_t i = 0; i < function.arguments.size(); ++i)
    state[name(i)] = data.at(fmt::format("in.{}", n), i);
  const double loss = run.run(state, {{"unused", Array({f32, {1}})}}).metrics["loss"];
  double most = largest_distance({loss}, data.at("out", n).to_doubles());
  for (std::size_t i = 0; gradients && i < function.arguments.size(); ++i)
    most = std::max(most, largest_distance(state[name(i)], data.at(fmt::format("grad.{}", n), i)));
  return most;
}

}  // namespace

namespace {

/// Checks every function of a file; returns their number.
std::size_t check_functions(const char* file) {
  const JaxData data(file);
  std::size_t n = 0;
  for (const auto& [name, text] : modules(data.text())) {
    CAPTURE(name);
    CHECK_NOTHROW([&, name = name, text = text] {
      const bool gradients = !name.starts_with("value of");
      const double most = difference(import_stablehlo(text), data, n, gradients);
      CHECK_MESSAGE(most <= 2e-4, most);
    }());
    ++n;
  }
  return n;
}

}  // namespace

TEST_CASE("small functions of jax have its values and gradients") {
  CHECK(check_functions("kinds") > 50);
}

TEST_CASE("layers of flax have its values and gradients") { CHECK(check_functions("flax") == 7); }

}  // namespace import_kinds_test
