// tools/planned_model.cc — the model, cluster and method of `alpa plan`
#include "tools/planned_model.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "alpa/models/pretrained.h"
#include "alpa/models/pretrained_encoder.h"
#include "models/common/decoder_flags.h"
#include "models/common/imported.h"
#include "models/common/model.h"
#include "models/common/run.h"
#include "src/base/file.h"
#include "src/ir/rule.h"
#include "src/ir/stages.h"
#include "src/models/json_object.h"
#include "tools/plan_or_model.h"

namespace plan {

using namespace alpa;

namespace {

constexpr FileKind kGraphFile{"model file", 1 << 28};

/// A function of JAX: a loss takes an optimizer and micro-batches, a whole step is as it is.
PlannedModel model_of_jax(const PlanFlags& flags, const std::string& text) {
  for (const char* flag : {"--batch", "--sequence", "--vocabulary", "--image"})
    cli::require_effect(flags.given, flag, true,
                        "on a function of JAX, which has been lowered for its extents");
  const Imported function = programs::imported(text, flags.name, flags);
  PlannedModel model{.name = flags.name, .fixed_rows = true};
  model.step = programs::imported_step(function, flags.name, flags);
  if (flags.micro_batches != "auto") model.micro_batches = std::stoi(flags.micro_batches);
  model.has_layers = function.is_loss();
  if (function.is_loss())
    model.with_remat = [flags, function](const std::string& remat) {
      PlanFlags with = flags;
      with.remat = remat;
      return programs::imported_step(function, flags.name, with);
    };
  model.imported = programs::imported_text(function, model.step.trace(model.micro_batches));
  return model;
}

PlannedModel model_of_file(const PlanFlags& flags) {
  require(flags.model.empty(), "SIZE is '{}', but a file has no sizes", excerpt(flags.model));
  const std::string text = read_file(flags.name, kGraphFile);
  if (programs::is_stablehlo(text)) return model_of_jax(flags, text);
  for (const char* flag : {"--parameters", "--random"})
    cli::require_effect(flags.given, flag, true, "on a graph file");
  for (const char* flag : {"--batch", "--sequence", "--vocabulary", "--image", "--precision",
                           "--optimizer", "--remat", "--micro-batches", "--pipeline-layers"})
    cli::require_effect(flags.given, flag, true,
                        "on a graph file, which is a training step as it is");
  const Graph graph = tools::graph_of(text, flags.name);
  return {.name = flags.name,
          .step = tools::step_of(graph),
          .traced = true,
          .micro_batches = graph.num_micro_batches,
          .has_layers = num_layers(graph) > 1};
}

/// `own`: what `model` is made of.
PlannedModel model_of_flags(std::string name, const PlanFlags& flags, const programs::Model& model,
                            const programs::Flags& own) {
  const programs::Task task = model.task(own);
  PlannedModel planned{.name = std::move(name),
                       .step = programs::step_of(flags, task),
                       .item = task.item,
                       .items = static_cast<double>(task.items_per_step)};
  planned.with_remat = [flags, own, &model](const std::string& remat) {
    PlanFlags with = flags;
    programs::Flags own_with = own;
    with.remat = own_with.remat = remat;
    return programs::step_of(with, model.task(own_with));
  };
  if (&model == &programs::gpt || &model == &programs::llama)
    planned.decoder = programs::options_of(own), planned.sequence = own.sequence;
  return planned;
}

PlannedModel model_of_table(const PlanFlags& flags) {
  for (const char* flag : {"--parameters", "--random"})
    cli::require_effect(flags.given, flag, true, "on a model of alpa");
  const programs::Model& model = programs::planned_model(flags.name);
  require(!flags.model.empty(), "{} needs a size; its sizes are {}", model.name,
          fmt::join(model.sizes, ", "));
  return model_of_flags(model.name + " " + flags.model, flags, model,
                        programs::planned_flags(model, flags.model, flags));
}

/// A decoder or BERT as Hugging Face's config.json has it.
PlannedModel model_of_config(const PlanFlags& flags) {
  require(flags.model.empty(), "SIZE is '{}', but {} has a size", excerpt(flags.model),
          excerpt(flags.name));
  for (const char* flag : {"--vocabulary", "--image"})
    cli::require_effect(flags.given, flag, true, fmt::format("beside {}", excerpt(flags.name)));
  const std::string path =
      std::filesystem::is_directory(flags.name) ? flags.name + "/config.json" : flags.name;
  if (models::JsonObject(path).text("model_type") == "bert") {
    const auto bert = std::get<models::BertOptions>(models::read_encoder_options(path));
    return model_of_flags(flags.name, flags, programs::bert,
                          programs::planned_flags(bert, path, flags));
  }
  models::DecoderOptions decoder = models::read_decoder_options(path);
  decoder.variant.experts.capacity_factor = 1;  // loads of a trained model are nearly even
  return model_of_decoder(flags.name, decoder, path, flags);
}

}  // namespace

PlanFlags::PlanFlags() {
  method = "pipeline";
  stages = micro_batches = remat = "auto";
  batch = 64;
  model = "";
}

Cluster cluster_of(const PlanFlags& flags) {
  return Cluster::find(flags.cluster, flags.hosts.value_or(1));
}

std::string cluster_text(const PlanFlags& flags, const Cluster& cluster) {
  return fmt::format("{} host{} of {} ({})", cluster.num_hosts, cluster.num_hosts == 1 ? "" : "s",
                     cluster.devices_per_host, excerpt(flags.cluster));
}

PlannedModel model_of(const PlanFlags& flags) {
  const bool file = std::ranges::count(programs::planned_models(), flags.name) == 0 &&
                    std::filesystem::exists(flags.name);
  if (file && (std::filesystem::is_directory(flags.name) || flags.name.ends_with(".json")))
    return model_of_config(flags);
  return file ? model_of_file(flags) : model_of_table(flags);
}

PlannedModel model_of_decoder(const std::string& name, const models::DecoderOptions& decoder,
                              const std::string& origin, const PlanFlags& flags) {
  return model_of_flags(name, flags, programs::gpt,
                        programs::planned_flags(decoder, origin, flags));
}

Method method_of(const PlanFlags& flags, const PlannedModel& model) {
  programs::Flags common = flags;
  if (model.traced || model.fixed_rows) common.micro_batches = std::to_string(model.micro_batches);
  if (!model.has_layers && common.method == "pipeline") common.method = "shard";
  if (common.method != "pipeline" && common.micro_batches == "auto") common.micro_batches = "1";
  Method method = programs::make_method(common, common.method);
  if (auto* stages = std::get_if<PipeshardParallel>(&method); stages && model.traced)
    stages->layers = ManualLayers{};
  return method;
}

std::string size_text(double bytes) {
  if (bytes == 0) return "0";
  const double mib = bytes / (1 << 20);
  const auto three_digits = [](double value) {
    return fmt::format("{:.{}f}", value, value < 10 ? 2 : value < 100 ? 1 : 0);
  };
  return mib < 1024 ? three_digits(mib) + " MiB" : three_digits(mib / 1024) + " GiB";
}

double state_bytes(const PlannedModel& model) {
  const Graph graph = model.step.trace(model.micro_batches);
  double bytes = 0;
  for (const Input& input : graph.inputs)
    if (input.kind == InputKind::state)
      bytes += static_cast<double>(graph.type(input.value).bytes());
  return bytes;
}

double device_bytes(const PlanFlags& flags, const Cluster& cluster) {
  return static_cast<double>(flags.memory_budget.value_or(cluster.device.memory_bytes));
}

void require_room_for_state(const PlanFlags& flags, const PlannedModel& model,
                            const Cluster& cluster) {
  const double state = state_bytes(model), device = device_bytes(flags, cluster),
               room = device * cluster.num_devices();
  if (state <= room) return;
  const double host = device * cluster.devices_per_host;
  fail(
      "{} does not fit {}: parameters and optimizer state take {}, {} more than its {} devices "
      "have; it takes {:.0f} hosts at least",
      model.name, cluster_text(flags, cluster), size_text(state), size_text(state - room),
      cluster.num_devices(), std::ceil(state / host));
}

double useful_flops(const Graph& graph) {
  double total = 0;
  for (const Node& node : graph.nodes)
    if (!node.again) total += flops(rule_of(graph, node)) * runs_per_step(graph, node);
  return total;
}

}  // namespace plan
