// Random functions of jax (random_functions.py): its numbers, or a message for what is not read.
#include <doctest/doctest.h>

#include <alpa/alpa.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "alpa/import/stablehlo.h"
#include "import/data.h"
#include "support/difference.h"

namespace import_functions_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

constexpr double kTolerance = 1e-5;

/// What docs/from-jax.md says is not read.
constexpr const char* kNotRead[] = {"\"stablehlo.sort\" is not supported",
                                    "\"stablehlo.case\" is not supported",
                                    "\"stablehlo.atan2\" is not supported",
                                    "\"stablehlo.popcnt\" is not supported",
                                    "that replaces elements",
                                    "over 3 dimensions is not supported",
                                    "over 4 dimensions is not supported",
                                    "only by maximum from -inf",
                                    "with batch_group_count is not supported"};

/// The results of function `n`, which become the content of parameters.
std::vector<Array> results_of(const Imported& function, const JaxData& data, std::size_t n,
                              const Method& method, int devices) {
  const auto name = [](const char* kind, std::size_t i) { return fmt::format("{}{}", kind, i); };
  const TrainingStep step =
      custom_step({{"unused", {f32, {4}}}}, [&](Builder& graph, const Batch&) {
        Values arguments;
        for (std::size_t i = 0; i < function.arguments.size(); ++i)
          arguments.push_back(graph.parameter(name("x", i), function.arguments[i].type, zeros));
        const Values results = function(arguments);
        for (std::size_t i = 0; i < results.size(); ++i)
          graph.update(graph.parameter(name("y", i), results[i].type(), zeros), results[i]);
      });
  const Executable run = parallelize(step, method, Cluster::local(devices));
  TrainState state = run.init(0);
  for (std::size_t i = 0; i < function.arguments.size(); ++i)
    state[name("x", i)] = data.at(fmt::format("in.{}", n), i);
  run.run(state, {{"unused", Array({f32, {4}})}});
  std::vector<Array> found;
  for (std::size_t i = 0; i < function.results.size(); ++i) found.push_back(state[name("y", i)]);
  return found;
}

void check_results(const Imported& function, const JaxData& data, std::size_t n,
                   const Method& method, int devices) {
  CAPTURE(devices);
  const std::vector<Array> found = results_of(function, data, n, method, devices);
  for (std::size_t i = 0; i < found.size(); ++i) {
    CAPTURE(i);
    const std::vector<double> expected = data.at(fmt::format("out.{}", n), i).to_doubles();
    CHECK(largest_difference(found[i].to_doubles(), expected, 1) <= kTolerance);
  }
}

/// Whether the function is read; other errors are failures.
bool check_function(const std::string& text, const JaxData& data, std::size_t n) {
  try {
    const Imported function = import_stablehlo(text);
    check_results(function, data, n, Serial{}, 1);
    check_results(function, data, n, ShardParallel{}, 4);
    return true;
  } catch (const Error& error) {
    const std::string what = error.what();
    CHECK_MESSAGE(
        std::ranges::any_of(kNotRead, [&](const char* why) { return what.find(why) != what.npos; }),
        what);
  } catch (const std::exception& error) {
    FAIL_CHECK(error.what());
  }
  return false;
}

}  // namespace

/// ALPA_RANDOM_FUNCTIONS=NAME: those of another file that the script made.
TEST_CASE("random functions of jax have its results on one device and on four") {
  const char* const name = std::getenv("ALPA_RANDOM_FUNCTIONS");
  const JaxData data(name ? name : "random");
  std::size_t n = 0, read = 0;
  for (const auto& [what, text] : modules(data.text())) {
    CAPTURE(what);
    read += check_function(text, data, n++) ? 1 : 0;
  }
  CHECK(n > 100);
  CHECK(4 * read > 3 * n);
}

}  // namespace import_functions_test
