// src/runtime/step_inputs.cc — checks what a step is given, by name
#include "src/runtime/step_inputs.h"

#include <algorithm>

#include "alpa/base/error.h"
#include "alpa/base/text.h"
#include "src/ir/input.h"

namespace alpa::runtime {
namespace {

/// The type of the array that a step is given: of a batch input all
/// micro-batches along dimension 0.
TensorType given_type(const Graph& graph, const Input& input) {
  TensorType type = graph.type(input.value);
  if (input.kind == InputKind::batch && !type.shape.empty())
    type.shape[0] *= graph.num_micro_batches;
  return type;
}

void check_known(const Graph& graph, const BatchData& arrays,
                 const std::map<std::string, double>& numbers) {
  const std::vector<std::string> scalars = input_names(graph, InputKind::scalar);
  for (const auto& [name, value] : numbers)
    require(std::find(scalars.begin(), scalars.end(), name) != scalars.end(),
            "no scalar input is called \"{}\"; known are {}", name, quoted_names(scalars));
  std::vector<std::string> names;
  for (InputKind kind : {InputKind::batch, InputKind::shared, InputKind::scalar})
    for (const std::string& name : input_names(graph, kind))
      if (numbers.count(name) == 0) names.push_back(name);
  for (const auto& [name, array] : arrays)
    require(std::find(names.begin(), names.end(), name) != names.end(),
            "no batch input is called \"{}\"; known are {}", name, quoted_names(names));
}

const Array& array_of(const Graph& graph, const Input& input, const BatchData& arrays) {
  const char* const what = input.kind == InputKind::batch ? "batch input" : "input";
  const TensorType type = given_type(graph, input);
  const auto given = arrays.find(input.name);
  require(given != arrays.end(), "{} \"{}\" is missing; give an array of type {}", what, input.name,
          to_string(type));
  require(given->second.type() == type, "{} \"{}\" is {}, but the step takes {}", what, input.name,
          to_string(given->second.type()), to_string(type));
  return given->second;
}

double number_of(const Input& input, const BatchData& arrays,
                 const std::map<std::string, double>& numbers) {
  if (const auto given = numbers.find(input.name); given != numbers.end()) return given->second;
  const auto given = arrays.find(input.name);
  require(given != arrays.end(), "scalar input \"{}\" is missing; give it a value", input.name);
  const TensorType& type = given->second.type();
  require(type.rank() == 0, "scalar input \"{}\" is {}, but the step takes a number", input.name,
          to_string(type));
  return given->second.to_doubles().front();
}

}  // namespace

void take_inputs(const Graph& graph, const BatchData& arrays,
                 const std::map<std::string, double>& numbers, StepInputs& inputs) {
  check_known(graph, arrays, numbers);
  for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
    const Input& input = graph.inputs[i];
    if (input.kind == InputKind::batch || input.kind == InputKind::shared)
      inputs.batch[i] = array_of(graph, input, arrays).data();
    else if (input.kind == InputKind::scalar)
      inputs.scalars[i] = number_of(input, arrays, numbers);
  }
}

std::string run_text(std::int64_t step, const BatchData& arrays,
                     const std::map<std::string, double>& numbers) {
  std::string text, with;
  for (const auto& [name, array] : arrays)
    text += fmt::format("{} {} {}", text.empty() ? "" : ",", name, to_string(array.type()));
  for (const auto& [name, number] : numbers)
    with += fmt::format("{} {} {}", with.empty() ? " with" : ",", name, number);
  return fmt::format("run {} on{}{}", step, text, with);
}

}  // namespace alpa::runtime
