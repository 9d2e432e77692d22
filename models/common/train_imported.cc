// models/common/train_imported.cc — `alpa train FILE`: a function of JAX on data of a file
#include <algorithm>

#include "models/common/imported.h"
#include "models/common/run.h"

namespace programs {

using namespace alpa;

namespace {

std::vector<cli::Flag> rows_of_imported(Flags& f) {
  using namespace cli;
  const ModelRows own{
      .data = {text("--data", &f.data,
                    "a safetensors file that has the arguments which are not trained, by name: "
                    "more rows than the function takes are further examples"),
               text("--load", &f.load,
                    "start with the parameters, or the state of a whole step, of this safetensors "
                    "file")},
      .output = {output_file("--save", &f.save,
                             "write the parameters, or the state, to this safetensors file")}};
  std::vector<Flag> rows = joined({rows_of_import(f), rows_of(f, own)});
  std::erase_if(rows, [](const Flag& row) { return row.name == "--batch"; });
  return rows;
}

/// "batch.x" f32[n, 16]: `n` rows for as many examples.
std::string needed_text(const BatchInput& input) {
  std::string type = to_string(input.type);
  if (input.batched) {
    const std::size_t begin = type.find('[') + 1, end = type.find_first_of(",]");
    type.replace(begin, end - begin, "n");
  }
  return fmt::format("\"{}\" {}", input.name, type);
}

/// "batch.x" f32[n, 16], "batch.y" i32[n], where n is 8 or more
std::string needed_text(const std::vector<BatchInput>& inputs, std::int64_t rows) {
  std::string text;
  for (const BatchInput& input : inputs) text += (text.empty() ? "" : ", ") + needed_text(input);
  return rows > 0 ? fmt::format("{}, where n is {} or more", text, rows) : text;
}

/// Rows of a batch; 0: no input has any.
std::int64_t rows_of(const std::vector<BatchInput>& inputs) {
  const auto found = std::ranges::find(inputs, true, &BatchInput::batched);
  return found == inputs.end() ? 0 : found->type.shape[0];
}

/// The tensor for an input. Throws Error unless it fits.
Array tensor_for(const BatchInput& input, const TensorFile& file, const std::string& needed) {
  const TensorType held = file.contains(input.name) ? file.type(input.name) : TensorType{};
  TensorType expected = input.type;
  const bool examples =
      input.batched && held.rank() == expected.rank() && held.shape[0] >= expected.shape[0];
  if (examples) expected.shape[0] = held.shape[0];
  require(file.contains(input.name) && held == expected,
          "--data {}: {} \"{}\"{}; the function needs {}", file.path(),
          file.contains(input.name) ? "its tensor" : "lacks", excerpt(input.name),
          file.contains(input.name) ? " is " + to_string(held) : "", needed);
  return file[input.name];
}

/// The examples in their order, those at the end that fill no batch left out.
Batches batches_of(const Flags& flags, const std::vector<BatchInput>& inputs) {
  const std::int64_t rows = rows_of(inputs);
  const std::string needed = needed_text(inputs, rows);
  require(!flags.data.empty(), "--data is missing; give a safetensors file that has {}", needed);
  const TensorFile file(flags.data);
  BatchData all;
  std::int64_t examples = std::max<std::int64_t>(rows, 1);
  const BatchInput* first = nullptr;
  for (const BatchInput& input : inputs) {
    const Array& array = all.emplace(input.name, tensor_for(input, file, needed)).first->second;
    if (!input.batched) continue;
    if (!first) first = &input, examples = array.shape()[0];
    require(array.shape()[0] == examples,
            "--data {}: \"{}\" has {} examples, but \"{}\" has {}; row i of each must be example i",
            file.path(), excerpt(input.name), array.shape()[0], excerpt(first->name), examples);
  }
  const std::int64_t batch = std::max<std::int64_t>(rows, 1);
  if (rows > 0 && std::ranges::all_of(inputs, &BatchInput::batched))
    return batches(std::move(all), batch, {}, {.drop_last = true});
  const auto load = [inputs, all](std::span<const std::int64_t> of) {
    BatchData found;
    for (const BatchInput& input : inputs) {
      const Array& array = all.at(input.name);
      found.emplace(input.name, input.batched ? take_rows(array, of) : array);
    }
    return found;
  };
  return batches(examples, load, batch, {}, {.drop_last = true, .own_rows = false});
}

/// As flax names and GPT-2 draws them; nothing is made up for others.
Initializer initial_of(const Flags& flags, const Imported& function,
                       const ImportedTensor& parameter) {
  if (!flags.load.empty() || flags.plan_only) return zeros;
  const std::string last = parameter.name.substr(parameter.name.rfind('.') + 1);
  require(function.is_loss(),
          "--load is missing: a whole step starts with its state, \"{}\" and others; give a "
          "safetensors file that has it",
          excerpt(parameter.name));
  if (last == "bias" || last == "scale") return last == "bias" ? zeros : ones;
  require(parameter.type.rank() >= 2 && is_floating(parameter.type.dtype),
          "--load is missing: nothing says how \"{}\" {} begins, neither a matrix nor a bias or a "
          "scale; give a safetensors file that has the parameters",
          excerpt(parameter.name), to_string(parameter.type));
  constexpr double kDeviation = 0.02;
  return Initializer::normal(0, kDeviation);
}

/// Parameters, or tensors of state, under their own names.
WeightMap weights_of(const Graph& graph) {
  WeightMap map;
  for (const std::string& name : parameter_names(graph)) map.push_back({name, {name}});
  return map;
}

std::string loss_of(const Graph& graph, const std::string& path) {
  require(!graph.metrics.empty(),
          "{}: the step returns no number behind its new state; let the function return the loss, "
          "too",
          path);
  const bool named = std::ranges::count(graph.metrics, "loss", &Metric::name) > 0;
  return named ? "loss" : graph.metrics[0].name;
}

Task task_of(const Flags& flags, const Imported& function, const std::string& path) {
  const auto initial = [flags, function](const ImportedTensor& parameter) {
    return initial_of(flags, function, parameter);
  };
  const TrainingStep step = imported_step(function, path, flags, initial);
  const Graph graph = step.trace(std::stoi(flags.micro_batches));
  fmt::print("imported    {}\n", imported_text(function, graph));
  const std::int64_t rows = rows_of(step.inputs);
  Task task{.model = {},
            .inputs = step.inputs,
            .step = step,
            .loss = loss_of(graph, path),
            .items_per_step = std::max<std::int64_t>(rows, 1)};
  if (!flags.load.empty()) {
    const TensorFile file(flags.load);
    check_weights(graph, file, weights_of(graph));
    task.load = [file, map = weights_of(graph)](TrainState& state) {
      load_weights(state, file, map);
    };
  }
  if (!flags.plan_only) task.training = batches_of(flags, step.inputs);
  return task;
}

}  // namespace

int train_imported(int argc, char** argv) {
  Flags flags{.data = {}};
  std::string path;
  std::vector<cli::Flag> rows = rows_of_imported(flags);
  rows.insert(rows.begin(), cli::text("FILE", &path, "a function of JAX, as StableHLO text"));
  if (read_flags(argc, argv, "Trains a function of JAX with an automatic parallel plan.", rows,
                 flags))
    return 0;
  if (flags.micro_batches == "auto") flags.micro_batches = "1";  // the function has fixed rows
  const Imported function = read_stablehlo(path, import_options(flags));
  const auto save = [&](const Run& run) {
    if (!flags.save.empty())
      save_weights(run.state, flags.save, weights_of(run.executable.graph()));
  };
  run_task(
      flags, [&] { return task_of(flags, function, path); }, save);
  return 0;
}

}  // namespace programs
