// Small functions of jax that have the kinds of operations, each with its gradient.
#include <doctest/doctest.h>

#include <alpa/alpa.h>

#include "alpa/import/stablehlo.h"
#include "import/data.h"
#include "support/difference.h"
#include "support/evaluate.h"

namespace import_kinds_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

/// The modules of one file, each behind a line "// name".
std::vector<std::pair<std::string, std::string>> modules(const std::string& text) {
  constexpr std::string_view kBetween = "// -----\n";
  std::vector<std::pair<std::string, std::string>> found;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(kBetween, at), text.size());
    const std::string one = text.substr(at, end - at);
    const std::size_t line = one.find('\n');
    found.emplace_back(one.substr(3, line - 3), one.substr(line + 1));
    at = end + kBetween.size();
  }
  return found;
}

HostTensor host(const Array& array) { return tensor(array.type(), array.to_doubles()); }

/// How far value and gradients of function `n` are from jax's.
double difference(const Imported& function, const JaxData& data, std::size_t n, bool gradients) {
  Recorder graph;
  Values arguments;
  Tensors inputs;
  for (std::size_t i = 0; i < function.arguments.size(); ++i) {
    const std::string name = fmt::format("x{}", i);
    arguments.push_back(graph.parameter(name, function.arguments[i].type, zeros));
    inputs.emplace(name, host(data.at(fmt::format("in.{}", n), i)));
  }
  const Value loss = function(arguments)[0];
  output(graph, "loss", loss);
  inputs.emplace("loss", HostTensor({f32, {}}));
  const Values found = gradients ? gradient(loss, arguments) : Values{};
  for (std::size_t i = 0; i < found.size(); ++i) {
    output(graph, fmt::format("g{}", i), found[i]);
    inputs.emplace(fmt::format("g{}", i), HostTensor(found[i].type()));
  }
  const auto result = evaluate(graph.finish(), inputs);
  double most = largest_distance(result.update("loss"), data.at("out", n).to_doubles());
  for (std::size_t i = 0; i < found.size(); ++i)
    most = std::max(most, largest_distance(result.update(fmt::format("g{}", i)),
                                           data.at(fmt::format("grad.{}", n), i).to_doubles()));
  return most;
}

}  // namespace

TEST_CASE("small functions of jax have its values and gradients") {
  const JaxData data("kinds");
  std::size_t n = 0;
  for (const auto& [name, text] : modules(data.text())) {
    CAPTURE(name);
    CHECK_NOTHROW([&, text = text] {
      const double most =
          difference(import_stablehlo(text), data, n, !name.starts_with("value of"));
      CHECK_MESSAGE(most <= 2e-4, most);
    }());
    ++n;
  }
  CHECK(n > 50);
}

}  // namespace import_kinds_test
