// alpa plan --for: the best plans that other frameworks can run, and their command lines and files.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "models/parameter_count.h"
#include "src/base/infinity.h"
#include "src/plan/facts/strategy.h"
#include "support/nightly.h"
#include "support/program.h"
#include "tools/frameworks.h"

namespace frameworks_test {

using namespace alpa;
using namespace alpa::testing;
using Json = nlohmann::json;

namespace {

constexpr int kDevices = 8, kBatch = 64;
constexpr std::int64_t kWidth = 256, kBetween = 512, kTokens = 1000, kLayers = 4;

/// A folder with the config.json of a small Llama, without weights.
class ConfigFolder {
 public:
  explicit ConfigFolder(const std::string& name, const Json& others = Json::object())
      : path_(name) {
    std::filesystem::create_directory(path_);
    Json config{{"model_type", "llama"},         {"hidden_act", "silu"},
                {"num_hidden_layers", kLayers},  {"hidden_size", kWidth},
                {"num_attention_heads", 4},      {"num_key_value_heads", 2},
                {"intermediate_size", kBetween}, {"max_position_embeddings", 128},
                {"vocab_size", kTokens}};
    config.update(others);
    std::ofstream(path_ + "/config.json") << config;
  }
  ConfigFolder(const ConfigFolder&) = delete;
  ConfigFolder& operator=(const ConfigFolder&) = delete;
  ~ConfigFolder() { std::filesystem::remove_all(path_); }

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// A small DeepSeek-V3.
const Json kDeepSeek = {{"model_type", "deepseek_v3"},
                        {"num_hidden_layers", 3},
                        {"hidden_size", 64},
                        {"num_attention_heads", 4},
                        {"num_key_value_heads", 4},
                        {"intermediate_size", 96},
                        {"moe_intermediate_size", 24},
                        {"n_routed_experts", 8},
                        {"n_shared_experts", 2},
                        {"num_experts_per_tok", 2},
                        {"first_k_dense_replace", 1},
                        {"q_lora_rank", 20},
                        {"kv_lora_rank", 12},
                        {"qk_nope_head_dim", 16},
                        {"qk_rope_head_dim", 8},
                        {"v_head_dim", 12},
                        {"vocab_size", 304}};

ProgramOutput plan_for(const std::string& model, const std::string& framework,
                       std::vector<std::string> more = {}) {
  const bool precise = std::ranges::count(more, "--precision") > 0;
  std::vector<std::string> words = {
      "plan",  model,     "--cluster",    "dgx-a100", "--batch", std::to_string(kBatch),
      "--for", framework, "--time-limit", "3"};
  if (!precise) words.insert(words.end(), {"--precision", "bf16_mixed"});
  words.insert(words.end(), more.begin(), more.end());
  return run_program(ALPA_TOOL, words);
}

Json json_for(const std::string& model, const std::string& framework) {
  const ProgramOutput output = plan_for(model, framework, {"--json"});
  CAPTURE(output.text);
  REQUIRE(output.status == 0);
  return Json::parse(output.text);
}

std::string joined(const Json& lines) {
  std::string text;
  for (const auto& line : lines) text += line.get<std::string>() + "\n";
  return text;
}

/// The whole number behind the word.
int number_behind(const std::string& text, const std::string& word) {
  const std::size_t at = text.find(word);
  CAPTURE(text);
  CAPTURE(word);
  REQUIRE(at != std::string::npos);
  return std::stoi(text.substr(at + word.size()));
}

}  // namespace

namespace {

/// Checks that the degrees in a framework's lines are those of its plan.
void check_megatron(const Json& own, const std::string& text) {
  CHECK(number_behind(text, "--tensor-model-parallel-size ") == own["tensor"]);
  CHECK(number_behind(text, "--pipeline-model-parallel-size ") == own["pipeline"]);
  CHECK(number_behind(text, "--micro-batch-size ") == own["rows"]);
  CHECK(number_behind(text, "--global-batch-size ") == kBatch);
  CHECK(number_behind(text, "--num-layers ") == kLayers);
  CHECK(number_behind(text, "--ffn-hidden-size ") == kBetween);
  CHECK(number_behind(text, "--num-query-groups ") == 2);
  CHECK(number_behind(text, "--vocab-size ") == kTokens);
  CHECK((text.find("--sequence-parallel") != text.npos) == (own["tensor"] > 1));
  CHECK((text.find("--recompute-granularity full") != text.npos) == own["recomputes"]);
}

void check_torchtitan(const Json& own, const std::string& text) {
  CHECK(number_behind(text, "data_parallel_replicate_degree=") == own["replicas"]);
  CHECK(number_behind(text, "data_parallel_shard_degree=") == own["shards"]);
  CHECK(number_behind(text, "tensor_parallel_degree=") == own["tensor"]);
  CHECK(number_behind(text, "pipeline_parallel_degree=") == own["pipeline"]);
  CHECK((text.find("FullAC.Config()") != text.npos) == own["recomputes"]);
}

void check_deepspeed(const Json& own, const std::string& text) {
  const Json config = Json::parse(text.substr(0, text.find('#')));
  CHECK(config["train_batch_size"] == kBatch);
  CHECK(config["train_micro_batch_size_per_gpu"] == own["rows"]);
  CHECK(config["gradient_accumulation_steps"] == own["micro_batches"]);
}

void check_maxtext(const Json& own, const std::string& text) {
  int devices = 1;
  for (const char* axis : {"data", "fsdp", "tensor"})
    devices *= number_behind(text, std::string("ici_") + axis + "_parallelism: ");
  CHECK(devices == kDevices);  // of a host
  CHECK(number_behind(text, "ici_tensor_parallelism: ") == own["tensor"]);
  for (const char* axis : {"data", "fsdp"})
    CHECK(number_behind(text, std::string("dcn_") + axis + "_parallelism: ") == 1);
}

}  // namespace

TEST_CASE("plans for frameworks use all devices and rows, and their files say so") {
  const ConfigFolder folder("frameworks_test_llama");
  const std::pair<const char*, void (*)(const Json&, const std::string&)> frameworks[] = {
      {"megatron", check_megatron},
      {"torchtitan", check_torchtitan},
      {"deepspeed", check_deepspeed},
      {"maxtext", check_maxtext}};
  for (const auto& [name, check] : frameworks) {
    CAPTURE(name);
    const Json json = json_for(folder.path(), name);
    const Json& own = json["for"];
    CAPTURE(own.dump());
    CHECK(own["method"] == name);
    const int data = own["replicas"].get<int>() * own["shards"].get<int>(), tensor = own["tensor"],
              pipeline = own["pipeline"];
    CHECK(data * tensor * pipeline == kDevices);
    CHECK(own["stages"].size() == static_cast<std::size_t>(pipeline));
    CHECK(own["rows"].get<int>() * own["micro_batches"].get<int>() * data == kBatch);
    CHECK(own["bound_seconds"].get<double>() > 0);
    CHECK(own["seconds"].get<double>() >= own["bound_seconds"].get<double>());
    CHECK(own["ratio"].get<double>() >= 0.98);  // the plan of all plans is within its gap
    CHECK(own["memory_bytes"].get<double>() <= json["device_bytes"].get<double>());
    check(own, joined(own["lines"]));
  }
}

namespace {

plan::PlanFlags flags_of(const std::string& model, std::int64_t batch) {
  plan::PlanFlags flags;
  flags.name = model, flags.cluster = "dgx-a100";
  flags.batch = batch, flags.precision = "bf16_mixed", flags.solver_seconds = 10;
  return flags;
}

/// A method of these degrees in one stage.
PipeshardParallel method_of(const plan::Degrees& degrees, const Cluster& cluster,
                            bool has_experts) {
  PipeshardParallel method{.num_micro_batches = degrees.micro_batches, .layers = ManualLayers{}};
  method.stages = UniformStages{degrees.pipeline};
  const auto meshes = plan::meshes_of(cluster, degrees, has_experts);
  method.mesh_shape = meshes.shape, method.axis_uses = meshes.axis_uses;
  method.solver_seconds = 10;
  return method;
}

/// Checks the best plan of Megatron-LM's grid against all its equal stages.
void check_against_grid(const plan::PlanFlags& flags, const Cluster& cluster) {
  const plan::PlannedModel model = plan::model_of(flags);
  const plan::FrameworkPlan best =
      plan::best_of_grid(plan::find_framework("megatron"), {flags, model, cluster},
                         [](Method method) { return method; });
  REQUIRE(best.result.planned);
  const int devices = cluster.num_devices();
  double least = kInfinity;
  int points = 0;
  for (const char* remat : {"none", "all"})
    for (const int tensor : {1, 2})  // of two key heads
      for (int data = 1; data * tensor <= devices; data *= 2)
        for (int number = 1; number * data <= flags.batch; number *= 2) {
          const plan::Degrees degrees{.shards = data,
                                      .tensor = tensor,
                                      .pipeline = devices / data / tensor,
                                      .shard_use = AxisUse::zero1,
                                      .micro_batches = number};
          if (degrees.pipeline > model.decoder->layers) continue;
          const CompiledStep planned =
              plan_only(model.step_with(remat), method_of(degrees, cluster, false), cluster);
          least = std::min(least, planned.plan.cost.objective_seconds);
          ++points;
        }
  MESSAGE(points, " points, the best of ", least, " s; found ",
          best.result.planned->plan.cost.objective_seconds, " s");
  CHECK(points > 10);
  CHECK(best.result.planned->plan.cost.objective_seconds <= 1.005 * least);
}

/// The spec of a parameter of a plan in one stage.
std::string spec_of(const CompiledStep& planned, const std::string& name) {
  const StagePlan& stage = planned.plan.stages.at(0);
  for (const Input& input : stage.graph.inputs)
    if (input.name == name) return to_string(stage.plan.specs[input.value]);
  return "none";
}

}  // namespace

TEST_CASE("no degrees of the grid take less than the plan for a framework") {
  const std::vector<std::int64_t> all_layers = {2, 3, 4, 5, 6}, all_batches = {8, 16, 24, 32, 64};
  const std::vector<int> all_hosts = {1, 2};
  for (const std::int64_t layers : sampled(std::vector<std::int64_t>{4}, all_layers))
    for (const std::int64_t batch : sampled(std::vector<std::int64_t>{16}, all_batches))
      for (const int hosts : sampled(std::vector<int>{1}, all_hosts)) {
        CAPTURE(layers);
        CAPTURE(batch);
        CAPTURE(hosts);
        const ConfigFolder folder("frameworks_test_grid", {{"num_hidden_layers", layers}});
        check_against_grid(flags_of(folder.path(), batch), Cluster::find("dgx-a100", hosts));
      }
}

TEST_CASE("experts are split where Megatron-LM splits them, and tokens come and go by all_to_all") {
  const ConfigFolder folder("frameworks_test_experts", {{"model_type", "mixtral"},
                                                        {"num_local_experts", 4},
                                                        {"num_experts_per_tok", 2},
                                                        {"num_hidden_layers", 1}});
  const plan::PlanFlags flags = flags_of(folder.path(), 16);
  const Cluster cluster = plan::cluster_of(flags);
  const plan::Degrees degrees{
      .shards = 4, .experts = 2, .tensor = 2, .shard_use = AxisUse::zero1, .micro_batches = 2};
  const CompiledStep planned =
      plan_only(plan::model_of(flags).step, method_of(degrees, cluster, true), cluster);
  // Axes: 0 of the batch, 1 of the batch and experts, 2 of tensors.
  CHECK(spec_of(planned, "blocks.0.feed_forward.up.bf16") == "S0@1 S2@2");
  CHECK(spec_of(planned, "blocks.0.feed_forward.down.bf16") == "S0@1 S1@2");
  CHECK(spec_of(planned, "blocks.0.attention.query.kernel.bf16") == "S1@2");
  int sent = 0;
  for (const PlannedReshard& reshard : planned.plan.stages[0].plan.reshards)
    for (const ReshardStep& step : reshard.path.steps)
      sent += step.kind == CollectiveKind::all_to_all ? 1 : 0;
  CHECK(sent >= 4);
}

TEST_CASE("context parallelism splits tokens of everything but keys and values") {
  const ConfigFolder folder("frameworks_test_context", {{"num_hidden_layers", 1}});
  const plan::PlanFlags flags = flags_of(folder.path(), 4);
  const Cluster cluster = plan::cluster_of(flags);
  const plan::Degrees degrees{
      .shards = 2, .context = 4, .shard_use = AxisUse::zero1, .micro_batches = 2};
  const CompiledStep planned =
      plan_only(plan::model_of(flags).step, method_of(degrees, cluster, false), cluster);
  const StagePlan& stage = planned.plan.stages.at(0);
  for (std::size_t n = 0; n < stage.graph.nodes.size(); ++n) {
    const Node& node = stage.graph.nodes[n];
    if (node.op->work != Work::heavy) continue;
    CAPTURE(n);
    CHECK(intra_op::devices_used(stage.plan.strategies[n], stage.plan.mesh) == kDevices);
  }
  CHECK(spec_of(planned, "blocks.0.attention.query.kernel.bf16") == "R");
}

TEST_CASE("what another value of a degree takes is told, and not less than the best") {
  const ConfigFolder folder("frameworks_test_others");
  const Json own = json_for(folder.path(), "megatron")["for"];
  CAPTURE(own.dump());
  REQUIRE(!own["others"].empty());
  for (const Json& other : own["others"]) {
    CHECK((other["guessed"] || other["seconds"] >= own["seconds"]));
    CHECK(other["choice"] != "pipeline " + own["pipeline"].dump());
  }
}

TEST_CASE("planned DeepSeek and BERT have the parameters of transformers") {
  // Counts of AutoModelForCausalLM and BertForMaskedLM of transformers 5.24.
  constexpr std::int64_t kDeepSeek3 = 177760, kDeepSeek2 = 186532, kBert = 3308;
  const auto count = [](const std::string& folder) {
    plan::PlanFlags flags = flags_of(folder, 8);
    flags.precision = "as_written";
    return parameter_count(plan::model_of(flags).step.trace(1));
  };
  Json deepseek = kDeepSeek;
  CHECK(count(ConfigFolder("frameworks_test_deepseek", deepseek).path()) == kDeepSeek3);
  deepseek["model_type"] = "deepseek_v2", deepseek["q_lora_rank"] = nullptr;
  CHECK(count(ConfigFolder("frameworks_test_deepseek", deepseek).path()) == kDeepSeek2);
  CHECK(count(ALPA_SOURCE_DIR "/tests/golden/pretrained/bert") == kBert);
}

TEST_CASE("state and gradients of Megatron-LM's plans take its bytes of a parameter") {
  // 2 of bf16, 4 of the gradient in f32, and 12 of the optimizer over data-parallel devices.
  const ProgramOutput output =
      run_program(ALPA_TOOL, {"plan", "gpt", "350M", "--cluster", "dgx-a100", "--batch", "64",
                              "--precision", "bf16_mixed", "--micro-batches", "8", "--for",
                              "megatron", "--time-limit", "2", "--json"});
  CAPTURE(output.text);
  REQUIRE(output.status == 0);
  const Json own = Json::parse(output.text)["for"];
  constexpr double kParametersOfLayer = 12.0 * 1024 * 1024 + 13 * 1024;
  constexpr double kOthers = (51200.0 + 1024) * 1024 + 2 * 1024 + 51200;  // tables, norm, head.bias
  double all = 0;
  for (int part = 0; part < own["pipeline"]; ++part) {  // a device's stages have the same memory
    const Json& memory = own["stages"][part]["memory"];
    all += memory["state"].get<double>() + memory["accumulators"].get<double>();
  }
  const double tensor = own["tensor"], data = own["shards"].get<int>() * own["context"].get<int>();
  const double parameters = (24 * kParametersOfLayer + kOthers) / tensor;
  // A table that the first and the last stage read is counted once here, twice there.
  const double twice = own["pipeline"] > 1 ? 51200.0 * 1024 / tensor : 0;
  const double bytes = 6 + 12 / data;
  CHECK(all >= 0.98 * parameters * bytes);
  CHECK(all <= 1.02 * (parameters + twice) * bytes);
}

TEST_CASE("variants of Llama are in Megatron-LM's lines, and refused where a model lacks them") {
  const auto plan = [](const std::string& family, const std::string& framework) {
    return plan_for(ALPA_SOURCE_DIR "/tests/golden/pretrained/" + family, framework);
  };
  const ProgramOutput qwen3 = plan("qwen3-window", "megatron");
  CAPTURE(qwen3.text);
  CHECK(qwen3.status == 0);
  CHECK(qwen3.text.find("--kv-channels 12 ") != qwen3.text.npos);
  CHECK(qwen3.text.find("--qk-layernorm --window-size 4,0 --window-attn-skip-freq \"[0,1,1]\"") !=
        qwen3.text.npos);
  const auto refusal = [&](const std::string& family, const std::string& framework) {
    const ProgramOutput output = plan(family, framework);
    CHECK(output.status == 2);
    return output.text.substr(output.text.rfind(" has ") + 1);
  };
  const ProgramOutput mixtral = plan("mixtral", "megatron");
  CAPTURE(mixtral.text);
  CHECK(mixtral.status == 0);
  CHECK(mixtral.text.find("--num-experts 4 --moe-router-topk 2 --moe-ffn-hidden-size 20 ") !=
        mixtral.text.npos);
  CHECK(refusal("mixtral", "maxtext") == "has experts\n");
  CHECK(refusal("mixtral", "torchtitan") == "has experts\n");
  CHECK(refusal("gemma2", "megatron") == "has soft caps\n");
  const ConfigFolder deepseek("frameworks_test_deepseek", kDeepSeek);
  const ProgramOutput latent = plan_for(deepseek.path(), "megatron");
  CHECK(latent.text == "alpa: --for megatron: frameworks_test_deepseek has latent attention\n");
  CHECK(refusal("qwen3-window", "torchtitan") == "has windows of attention\n");
}

TEST_CASE("--for names its frameworks, and the models that they do not train") {
  const auto mistake = [](const std::string& model, const std::string& framework,
                          std::vector<std::string> more = {}) {
    const ProgramOutput output = plan_for(model, framework, std::move(more));
    CHECK(output.status == 2);
    return output.text;
  };
  CHECK(mistake("llama", "horovod", {}) ==
        "alpa: --for is 'horovod'; the frameworks are megatron, torchtitan, deepspeed, maxtext\n");
  const std::string bert = mistake("bert", "megatron", {});
  CHECK(bert.find("bert needs a size") != bert.npos);
  const ConfigFolder folder("frameworks_test_mistakes");
  CHECK(mistake(folder.path(), "maxtext", {"--precision", "f16_mixed"}) ==
        "alpa: --for maxtext: --precision is f16_mixed, but the framework trains in bf16 or f32\n");
  CHECK(mistake(folder.path(), "megatron", {"--optimizer", "lamb"}) ==
        "alpa: --for megatron: --optimizer is lamb, but Megatron-LM has adam and sgd\n");
  CHECK(mistake(folder.path(), "megatron", {"--sequence", "256"}) ==
        "alpa: --sequence is 256, but frameworks_test_mistakes/config.json has 128 positions; give "
        "at most as many\n");
}

}  // namespace frameworks_test
