// models/common/model.cc — the table of models, for training and for planning
#include "models/common/model.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "models/common/imported.h"
#include "models/common/run.h"
#include "models/common/train.h"

namespace programs {

using namespace alpa;

namespace {

constexpr std::array kModels{&gpt, &llama, &moe, &bert, &vit, &wide_resnet, &mlp, &pipeline_mlp};

const Model* find_model(std::string_view name) {
  const auto* const found =
      std::ranges::find(kModels, name, [](const Model* model) { return model->name; });
  return found == kModels.end() ? nullptr : *found;
}

void set_size(const Model& model, const std::string& size, Flags& flags) {
  require(std::ranges::find(model.sizes, size) != model.sizes.end(),
          "{} has no size \"{}\"; its sizes are {}", model.name, excerpt(size),
          fmt::join(model.sizes, ", "));
  flags.model = size;
  model.publish(flags);
}

/// `takes_size`: as its first argument, as `alpa plan` does.
int train_model(const Model& model, bool takes_size, int argc, char** argv) {
  Flags flags = model.initial;
  std::string size;
  std::vector<cli::Flag> rows = model.rows(flags);
  if (takes_size)
    rows.insert(rows.begin(),
                cli::optional_argument(
                    "SIZE", &size, fmt::format("as published: {}", fmt::join(model.sizes, ", "))));
  if (read_flags(argc, argv, model.purpose, rows, flags)) return 0;
  if (!size.empty()) {
    cli::require_effect(flags.given, "--model", true, "beside SIZE, which says it");
    set_size(model, size, flags);
    flags.given.insert("--model");
  }
  if (model.train)
    model.train(flags);
  else
    run_task(flags, [&] { return model.task(flags); });
  return 0;
}

}  // namespace

std::vector<std::string> planned_models() {
  std::vector<std::string> names;
  for (const Model* model : kModels)
    if (!model->sizes.empty()) names.push_back(model->name);
  return names;
}

const Model& planned_model(const std::string& name) {
  const Model* const model = find_model(name);
  require(model && !model->sizes.empty(), "\"{}\" is no model; the models are {}", excerpt(name),
          fmt::join(planned_models(), ", "));
  return *model;
}

namespace {

/// Flags of `flags` that all planned models have.
Flags initial_flags(const Model& model, const Flags& flags) {
  Flags own = model.initial;
  own.plan_only = true, own.given = flags.given;
  own.batch = flags.batch, own.remat = flags.remat;
  own.sequence = flags.sequence, own.vocabulary = flags.vocabulary, own.image = flags.image;
  return own;
}

}  // namespace

Flags planned_flags(const Model& model, const std::string& size, const Flags& flags) {
  Flags own = initial_flags(model, flags);
  set_size(model, size, own);
  const std::vector<cli::Flag> rows = model.rows(own);
  for (const char* flag : {"--sequence", "--vocabulary", "--image"})
    cli::require_effect(flags.given, flag,
                        std::ranges::find(rows, flag, &cli::Flag::name) == rows.end(),
                        "on " + model.name);
  return own;
}

namespace {

/// With the vocabulary and tokens of a model of so many positions, which `origin` describes.
Flags with_text(Flags own, std::int64_t vocabulary, std::int64_t positions,
                const std::string& origin) {
  constexpr std::int64_t kTokens = 2048;  // of an example, as of Llama's sizes
  own.vocabulary = vocabulary;
  if (!own.given.contains("--sequence")) own.sequence = std::min(kTokens, positions);
  require(own.sequence <= positions,
          "--sequence is {}, but {} has {} positions; give at most as many", own.sequence,
          excerpt(origin), positions);
  return own;
}

}  // namespace

Flags planned_flags(const alpa::models::DecoderOptions& decoder, const std::string& origin,
                    const Flags& flags) {
  Flags own = with_text(initial_flags(gpt, flags), decoder.vocabulary, decoder.sequence, origin);
  own.pretrained.emplace().decoder = decoder;
  return own;
}

Flags planned_flags(const alpa::models::BertOptions& of, const std::string& origin,
                    const Flags& flags) {
  require(of.head == alpa::models::BertHead::hidden_tokens,
          "{}: is no BertForMaskedLM, which alone is planned; give its \"architectures\"",
          excerpt(origin));
  Flags own = with_text(initial_flags(bert, flags), of.vocabulary, of.sequence, origin);
  own.encoder.emplace().model = of;
  return own;
}

int train_program(std::string_view model, int argc, char** argv) {
  const Model* const found = find_model(model);
  invariant(found, "models/common/model.cc lists no model {}", model);
  return train_model(*found, false, argc, argv);
}

int train_command(int argc, char** argv) {
  const std::string_view given = argc > 1 ? argv[1] : "";
  if (const Model* const model = find_model(given))
    return train_model(*model, !model->sizes.empty(), argc - 1, argv + 1);
  if (given.find(".mlir") != given.npos || (!given.empty() && std::filesystem::exists(given)))
    return train_imported(argc, argv);
  std::string name, size;
  std::vector<std::string> names;
  for (const Model* model : kModels) names.push_back(model->name);
  const std::string models = fmt::format("{}", fmt::join(names, ", "));
  if (cli::parse(argc, argv,
                 "Trains a model with an automatic parallel plan, on devices of this machine or of "
                 "a launch.",
                 {cli::text("MODEL", &name,
                            "one of " + models +
                                "; or a function of JAX, as StableHLO text; behind it, "
                                "--help lists its flags"),
                  cli::optional_argument("SIZE", &size, "of the model, such as 2.6B")}))
    return 0;
  fail("\"{}\" is no model; the models are {}", excerpt(given), models);
}

}  // namespace programs
