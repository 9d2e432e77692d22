// src/import/stablehlo.cc — an imported function, and training steps of it
#include "alpa/import/stablehlo.h"

#include <algorithm>
#include <charconv>
#include <map>

#include "alpa/base/text.h"
#include "src/base/file.h"
#include "src/base/wildcard.h"
#include "src/import/emit.h"
#include "src/import/patterns.h"

namespace alpa {
namespace {

/// params['layers'][0].kernel → params.layers.0.kernel
std::string dotted(const std::string& path) {
  std::string name;
  for (char c : path) {
    if (c == ']' || c == '\'' || c == '"' || c == '\\') continue;
    if (c == '[' || c == '.') {
      if (!name.empty() && name.back() != '.') name += '.';
      continue;
    }
    name += c;
  }
  return name;
}

std::vector<ImportedTensor> tensors(const stablehlo::FlatFunction& function,
                                    const std::vector<int>& values,
                                    const std::vector<std::string>& names, const char* otherwise) {
  std::vector<ImportedTensor> found;
  std::map<std::string, int> taken;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const stablehlo::FlatValue& value = function.values[static_cast<std::size_t>(values[i])];
    std::string name = i < names.size() ? dotted(names[i]) : "";
    if (name.empty() || taken[name]++ > 0) name = otherwise + std::to_string(i);
    found.push_back({name, stablehlo::tensor_type(value.type, value.place)});
  }
  return found;
}

std::vector<std::string> names_of(const std::vector<ImportedTensor>& tensors) {
  std::vector<std::string> names;
  for (const ImportedTensor& tensor : tensors) names.push_back(tensor.name);
  return names;
}

std::string root_of(const std::string& name) { return name.substr(0, name.find('.')); }

/// How many of the first arguments are meant; nullopt: `text` is no number.
std::optional<std::size_t> count_in(const std::string& text) {
  std::size_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return count;
}

/// For each argument, whether it is a parameter.
std::vector<bool> parameters_of(const Imported& loss, const std::string& which) {
  const std::vector<ImportedTensor>& all = loss.arguments;
  std::vector<bool> found(all.size());
  const std::optional<std::size_t> count = count_in(which);
  const bool named = !all.empty() && all[0].name != "arg0";
  require(!which.empty() || named,
          "StableHLO: the text does not name its arguments, so nothing says which are parameters; "
          "give `parameters`, the number of the first ones, or print the text with "
          "enable_debug_info=True");
  for (std::size_t i = 0; i < all.size(); ++i)
    found[i] = count           ? i < *count
               : which.empty() ? root_of(all[i].name) == root_of(all[0].name)
                               : matches(which, all[i].name);
  require(std::ranges::find(found, true) != found.end() && (!count || *count <= all.size()),
          "StableHLO: parameters are \"{}\", but the arguments are {}", excerpt(which),
          quoted_names(names_of(all), 8));
  return found;
}

/// Rows of the batch: the first extent that most inputs have; 0: none has one.
std::int64_t rows_of(const std::vector<ImportedTensor>& inputs) {
  std::map<std::int64_t, int> times;
  for (const ImportedTensor& input : inputs)
    if (input.type.rank() > 0) ++times[input.type.shape[0]];
  const auto most = std::ranges::max_element(times, {}, [](const auto& e) { return e.second; });
  return most == times.end() ? 0 : most->first;
}

std::vector<BatchInput> batch_inputs(const std::vector<ImportedTensor>& inputs, int micro_batches) {
  const std::int64_t rows = rows_of(inputs);
  std::vector<BatchInput> found;
  for (const ImportedTensor& input : inputs) {
    const bool batched = input.type.rank() > 0 && input.type.shape[0] == rows;
    found.push_back({input.name, input.type, batched});
    if (batched) found.back().type.shape[0] *= micro_batches;
  }
  return found;
}

std::vector<ImportedTensor> others(const Imported& function, const std::vector<bool>& state) {
  std::vector<ImportedTensor> found;
  for (std::size_t i = 0; i < state.size(); ++i)
    if (!state[i]) found.push_back(function.arguments[i]);
  return found;
}

Initializer initial_of(const ImportedStepOptions& options, const ImportedTensor& parameter) {
  if (options.initial) return options.initial(parameter);
  return is_floating(parameter.type.dtype) ? Initializer::normal(0, 0.02) : zeros;
}

/// Arguments of the function: state of `graph`, and inputs of its batch.
Values arguments_of(const Imported& function, const std::vector<bool>& state,
                    const ImportedStepOptions& options, Builder& graph, const Batch& batch) {
  Values found;
  for (std::size_t i = 0; i < state.size(); ++i) {
    const ImportedTensor& argument = function.arguments[i];
    found.push_back(
        state[i] ? graph.parameter(argument.name, argument.type, initial_of(options, argument))
                 : batch[argument.name]);
  }
  return found;
}

/// The function's shapes are fixed, so a step has neither other micro-batches nor other rows.
TrainingStep with_fixed_rows(TrainingStep step, int micro_batches) {
  step.with_batch = {};
  step.trace = [trace = step.trace, micro_batches](const TraceOptions& options) {
    require(options.num_micro_batches == micro_batches,
            "StableHLO: the step has {} micro-batches, one for each call of the imported function, "
            "not {}; lower the function for fewer rows and give `micro_batches`",
            micro_batches, options.num_micro_batches);
    return trace(options);
  };
  return step;
}

}  // namespace

Imported import_stablehlo(const std::string& text, const ImportOptions& options) {
  auto module = std::make_shared<const stablehlo::Module>(stablehlo::parse_module(text));
  std::vector<std::string> patterns;
  stablehlo::FlatFunction read = stablehlo::flatten(std::move(module));
  if (options.random == RandomNumbers::ours) read = stablehlo::with_own_random(std::move(read));
  auto flat = std::make_shared<const stablehlo::FlatFunction>(
      stablehlo::with_patterns(std::move(read), patterns));
  Imported imported;
  imported.arguments = tensors(*flat, flat->arguments, flat->names, "arg");
  imported.results = tensors(*flat, flat->results, flat->result_names, "result");
  std::map<std::string, int> times;
  for (const std::string& pattern : patterns) ++times[pattern];
  for (const auto& [pattern, n] : times) imported.recognised.push_back({pattern, n});
  imported.function_ = std::move(flat);
  return imported;
}

Imported read_stablehlo(const std::string& path, const ImportOptions& options) {
  const std::string text = read_file(path, {"StableHLO text", std::int64_t{1} << 28});
  try {
    return import_stablehlo(text, options);
  } catch (const Error& error) {
    fail("{}: {}", path, error.what());
  }
}

Values Imported::operator()(const Values& values) const {
  require(values.size() == arguments.size() && !values.empty(),
          "StableHLO: {} arguments given, the function takes {}", values.size(), arguments.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    require(values[i] && values[i].type() == arguments[i].type,
            "StableHLO: argument {} is {}, the function takes {}", arguments[i].name,
            values[i] ? to_string(values[i].type()) : "empty", to_string(arguments[i].type));
  return stablehlo::record(recorder(values[0]), *function_, values);
}

bool Imported::is_loss() const {
  return results.size() == 1 && results[0].type.shape.empty() && is_floating(results[0].type.dtype);
}

TrainingStep training_step(const Imported& loss, Optimizer optimizer, ImportedStepOptions options) {
  require(loss.is_loss(),
          "StableHLO: a loss has one floating number as result, this function has {}; import a "
          "whole step with `whole_step`",
          loss.results.size() == 1 ? to_string(loss.results[0].type)
                                   : std::to_string(loss.results.size()) + " results");
  const std::vector<bool> state = parameters_of(loss, options.parameters);
  const std::vector<BatchInput> inputs = batch_inputs(others(loss, state), options.micro_batches);
  const auto model = [=](const Batch& batch) -> LossAndMetrics {
    return loss(arguments_of(loss, state, options, batch.builder(), batch))[0];
  };
  return with_fixed_rows(training_step(inputs, model, std::move(optimizer), options.step),
                         options.micro_batches);
}

TrainingStep whole_step(const Imported& step, ImportedStepOptions options) {
  std::size_t count = 0;
  while (count < step.results.size() && count < step.arguments.size() &&
         step.results[count].type == step.arguments[count].type)
    ++count;
  require(count > 0,
          "StableHLO: a whole step returns its first arguments anew, but result 0 is {} and "
          "argument 0 is {}; let the function return the new state first",
          step.results.empty() ? "missing" : to_string(step.results[0].type),
          step.arguments.empty() ? "missing" : to_string(step.arguments[0].type));
  std::vector<bool> state(step.arguments.size());
  std::fill_n(state.begin(), count, true);
  auto divided = std::make_shared<stablehlo::FlatFunction>(step.function());
  stablehlo::divide_step(*divided, count);
  const auto build = [=](Builder& graph, const Batch& batch) {
    const Values arguments = arguments_of(step, state, options, graph, batch);
    const Values results = stablehlo::record(recorder(graph), *divided, arguments);
    for (std::size_t i = 0; i < count; ++i)
      if (results[i].id != arguments[i].id) graph.update(arguments[i], results[i]);
    for (std::size_t i = count; i < results.size(); ++i)
      if (results[i].shape().empty())
        graph.metric(step.results[i].name, results[i]);
      else
        output(step.results[i].name, results[i]);
  };
  return with_fixed_rows(custom_step(batch_inputs(others(step, state), 1), build), 1);
}

}  // namespace alpa
