// models/common/encoder_folder.cc — folders of encoders: loading, saving, logits
#include "models/common/encoder_folder.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "models/common/run.h"

namespace programs {

using namespace alpa;
using namespace alpa::models;

namespace {

/// The tensors of --examples. Throws Error if one has a name that the model does not read.
BatchData examples_of(const Flags& flags, const Predictor& predictor) {
  const TensorFile file(flags.examples);
  BatchData examples;
  for (const std::string& name : file.names()) {
    require(std::ranges::find(predictor.inputs, name) != predictor.inputs.end(),
            "{}: has tensor \"{}\", but the model reads {}", file.path(), excerpt(name),
            fmt::join(predictor.inputs, ", "));
    examples.emplace(name, file[name]);
  }
  return examples;
}

/// Writes --logits; `fill` gives a state its weights.
void write_predictions(const Flags& flags, const Predictor& predictor,
                       const std::function<void(TrainState&)>& fill) {
  const BatchData examples = examples_of(flags, predictor);
  const Executable executable = parallelize(
      prediction_step(inputs_of(examples),
                      [&](const Batch& b) {
                        std::vector<Value> inputs;
                        for (const std::string& name : predictor.inputs)
                          inputs.push_back(inputs.empty() || examples.contains(name) ? b[name]
                                                                                     : Value{});
                        return predictor.logits(inputs);
                      }),
      Serial{}, Cluster::local(1, "cpu"));
  TrainState state = executable.init(0);
  fill(state);
  const Array logits = executable.run(state, examples).outputs["prediction"];
  write_safetensors(flags.logits, {{"logits", logits.cast(f32)}});
}

/// Whether logits are asked for, and nothing that is of a training step.
bool only_predicts(const Flags& flags) {
  static const std::set<std::string> of_prediction = {"--dtype",  "--examples", "--load",
                                                      "--logits", "--seed",     "--steps"};
  return !flags.examples.empty() && flags.steps == 0 &&
         std::ranges::includes(of_prediction, flags.given);
}

void check_folder_flags(const Flags& flags) {
  for (const char* flag : {"--save-folder", "--examples"})
    cli::require_effect(flags.given, flag, !flags.encoder, "without --load");
  cli::require_effect(flags.given, "--logits", flags.examples.empty(), "without --examples");
  cli::require_effect(flags.given, "--examples", flags.logits.empty(), "without --logits");
  if (!flags.save_folder.empty()) check_save_pretrained(flags.save_folder, *flags.encoder);
}

}  // namespace

std::vector<cli::Flag> folder_rows(Flags& flags, const std::string& inputs) {
  using namespace cli;
  return joined(
      {in_group("Data",
                {text("--load", &flags.load,
                      "start with the model of a folder of Hugging Face's, which is trained only "
                      "with --data or --steps"),
                 text("--examples", &flags.examples, "a safetensors file with " + inputs)}),
       in_group("Output",
                {output_folder("--save-folder", &flags.save_folder,
                               "write the weights to this folder, with the other files of that of "
                               "--load, as transformers has them"),
                 output_file("--logits", &flags.logits,
                             "write what the model makes of --examples to this safetensors "
                             "file")})});
}

void read_encoder(Flags& flags, const std::vector<const char*>& decided) {
  if (flags.load.empty()) return;
  refuse_decided(flags, decided);
  flags.encoder = read_pretrained_encoder(flags.load);
  if (!flags.given.contains("--steps") && !flags.given.contains("--data")) flags.steps = 0;
}

Predictor image_predictor(const Flags& flags, nn::Layer network) {
  return {{"images"},
          [network = std::move(network),
           dtype = own_dtype(flags.dtype)](const std::vector<Value>& inputs) {
            return network(dtype ? cast(inputs[0], *dtype) : inputs[0]);
          }};
}

void train_encoder(const Flags& flags, const std::function<Task()>& make_task,
                   const Predictor& predictor) {
  check_folder_flags(flags);
  const auto load = [&](TrainState& state) {
    load_hugging_face(state, TensorFile(flags.encoder->weights), flags.encoder->model);
  };
  if (only_predicts(flags)) return write_predictions(flags, predictor, load);
  const auto make = [&] {
    Task task = make_task();
    if (!flags.encoder) return task;
    check_hugging_face(evaluation_step(task.inputs, task.model).trace(1),
                       TensorFile(flags.encoder->weights), flags.encoder->model);
    task.load = load;
    return task;
  };
  run_task(flags, make, [&](const Run& run) {
    if (!flags.save_folder.empty()) save_pretrained(run.state, flags.save_folder, *flags.encoder);
    if (!flags.examples.empty())
      write_predictions(flags, predictor, [&](TrainState& state) { state.copy_from(run.state); });
  });
}

}  // namespace programs
