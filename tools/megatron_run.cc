// tools/megatron_run.cc — reads flags of Megatron-LM, and YAML that stands for them

#include <algorithm>
#include <array>
#include <charconv>
#include <numeric>

#include "tools/given_run.h"

namespace plan {

using namespace alpa;

namespace {

/// Flags that change what a step costs in ways that are not priced.
constexpr std::array kUnpricedFlags{
    "--num-experts",    "--num-moe-experts",       "--multi-latent-attention",
    "--mtp-num-layers", "--use-torch-fsdp2",       "--use-megatron-fsdp",
    "--window-size",    "--optimizer-cpu-offload", "--cpu-optimizer",
    "--cpu-offloading"};

/// Sections of NeMo's YAML and Megatron-LM's own whose keys are flags, and keys of other names.
constexpr const char* kSections[] = {"", "model", "language_model", "model_parallel"};
constexpr std::pair<const char*, const char*> kRenamed[] = {
    {"encoder_seq_length", "seq_length"},
    {"activations_checkpoint_granularity", "recompute_granularity"},
    {"activations_checkpoint_method", "recompute_method"},
    {"virtual_pipeline_model_parallel_size", "num_virtual_stages_per_pipeline_rank"}};

/// Parts of a layout, layers and ends of stages.
constexpr std::size_t kMostParts = std::size_t{1} << 16;

/// Layers of the stages of a layout such as "Et*3|(tt|)*2tL".
std::vector<int> layout_layers(const Settings& given, std::string layout) {
  std::erase(layout, ',');
  const auto repeat = [&](std::size_t begin, std::size_t end, std::size_t first, std::size_t last) {
    std::size_t stop = end;
    while (stop < layout.size() && std::isdigit(static_cast<unsigned char>(layout[stop]))) ++stop;
    int times = 0;
    std::from_chars(layout.data() + end, layout.data() + stop, times);
    const std::string part = layout.substr(first, last - first);
    if (times < 1 || part.size() * times > kMostParts || layout.size() > kMostParts)
      given.refuse("--pipeline-model-parallel-layout", "repeats a part by no number, or too often");
    std::string all;
    for (int i = 0; i < times; ++i) all += part;
    layout.replace(begin, stop - begin, all);
  };
  for (std::size_t open; (open = layout.find('(')) != std::string::npos;) {
    const std::size_t close = layout.find(")*", open);
    if (close == std::string::npos)
      given.refuse("--pipeline-model-parallel-layout", "has a parenthesis that no )*N closes");
    repeat(open, close + 2, open + 1, close);
  }
  for (std::size_t star; (star = layout.find('*')) != std::string::npos;) {
    if (star == 0) given.refuse("--pipeline-model-parallel-layout", "begins with *");
    repeat(star - 1, star + 1, star - 1, star);
  }
  std::vector<int> layers(1, 0);
  for (const char c : layout) {
    if (c == '|')
      layers.push_back(0);
    else if (c == 't')
      ++layers.back();
    else if (c != 'E' && c != 'L')
      given.refuse("--pipeline-model-parallel-layout", "has parts other than E, t and L");
  }
  return layers;
}

/// `run` takes what is priced otherwise.
models::DecoderOptions flagged_decoder(const Settings& given, int tensor, std::int64_t vocabulary,
                                       GivenRun& run) {
  const bool gated = given.has("--swiglu");
  const bool rotary =
      given.has("--use-rotary-position-embeddings") ||
      given.text("--position-embedding-type", "learned_absolute") != "learned_absolute";
  const std::string norm = given.text("--normalization");
  if (gated && norm != "RMSNorm" && norm != "rmsnorm")
    run.warnings.emplace_back("LayerNorm beside --swiglu is priced as RMSNorm");
  if (gated != rotary)
    run.warnings.push_back(fmt::format("{} positions are priced as {} ones, as {} has them",
                                       rotary ? "rotary" : "learned", gated ? "rotary" : "learned",
                                       gated ? "Llama" : "GPT"));
  models::DecoderOptions o{
      .kind = gated ? models::DecoderKind::llama : models::DecoderKind::gpt,
      .layers = given.whole("--num-layers"),
      .hidden = given.whole("--hidden-size"),
      .heads = given.whole("--num-attention-heads"),
      .sequence = given.whole("--max-position-embeddings", given.whole("--seq-length")),
      .head_bias = false,
      .tied_head = !given.has("--untie-embeddings-and-output-weights"),
      .query_bias = given.has("--add-qkv-bias"),
      .rotary_base = static_cast<double>(given.whole("--rotary-base", 10000))};
  if (o.layers > models::kMostBlocks)
    given.refuse("--num-layers", fmt::format("is above {}", models::kMostBlocks));
  const std::int64_t usual = gated ? o.hidden * 8 / 3 / 64 * 64 : 4 * o.hidden;
  o.feed_forward = given.whole("--ffn-hidden-size", usual);
  if (given.has("--group-query-attention")) o.key_heads = given.whole("--num-query-groups");
  if (given.has("--num-key-value-heads")) o.key_heads = given.whole("--num-key-value-heads");
  if (given.has("--kv-channels")) {
    o.head_width = given.whole("--kv-channels");
    if (o.head_width * o.heads == o.hidden) o.head_width = 0;
  } else if (o.hidden % o.heads != 0) {
    given.refuse("--num-attention-heads",
                 "does not divide --hidden-size; give the width of heads as --kv-channels");
  }
  o.variant.head_norms = gated && given.has("--qk-layernorm");
  // Rows of the table are a multiple of this many on every device.
  const std::int64_t multiple = given.whole("--make-vocab-size-divisible-by", 128) * tensor;
  const char* size = given.has("--pad-vocab-size-to") ? "--pad-vocab-size-to" : "--vocab-size";
  const std::int64_t tokens =
      given.whole(size, vocabulary > 0 ? std::optional(vocabulary) : std::nullopt);
  o.vocabulary = (tokens + multiple - 1) / multiple * multiple;
  return o;
}

/// What is not priced, and what is ignored by the program that reads it.
void note_unpriced(const Settings& given, GivenRun& run) {
  const bool experts = given.has("--num-experts") && given.text("--num-experts") != "1";
  for (const char* flag : kUnpricedFlags)
    if (given.has(flag) && (experts || flag != std::string_view("--num-experts")))
      run.unpriced.push_back(fmt::format("{} {}", flag, given.text(flag)));
  if (experts && given.text("--moe-token-dispatcher-type", "allgather") == "allgather")
    run.warnings.emplace_back(
        "experts without all-to-all: --moe-token-dispatcher-type allgather sends every token to "
        "all devices; give alltoall");
  const std::int64_t context = given.whole("--context-parallel-size", 1, kMostDegree);
  if (context > 1 && given.text("--mcore-gpt") == "off")
    run.warnings.emplace_back(
        "context parallelism is switched off silently: the model without mcore_gpt has none, so "
        "every device keeps whole sequences");
  else
    run.context = static_cast<int>(context);
  const char* expert = "--expert-model-parallel-size";
  if (given.whole(expert, 1) > 1)
    run.unpriced.push_back(fmt::format("{} {}", expert, given.text(expert)));
  for (const char* flag : {"--fp8-format", "--fp4-format", "--fp8"})
    run.eight_bits |= given.has(flag);
  // Sums in the type of the parameters; their shard is f32 in the update (check.cc).
  if (given.has("--grad-reduce-in-bf16") ||
      (given.has("--fp16") && !given.has("--accumulate-allreduce-grads-in-fp32")))
    run.gradients_held = 0.5;
  // DeepSpeed's optimizer of bf16 holds gradients of both types.
  if (given.has("--deepspeed") && given.has("--bf16")) run.gradients_held = 1.5;
}

/// Stages, and their layers if a layout says them.
void read_layout(const Settings& given, GivenRun& run) {
  const auto layers = static_cast<std::int64_t>(run.decoder.layers);
  if (given.has("--pipeline-model-parallel-layout")) {
    run.layers = layout_layers(given, given.text("--pipeline-model-parallel-layout"));
    const auto stages = static_cast<std::int64_t>(run.layers.size());
    if (stages % run.pipeline != 0 || std::ranges::count(run.layers, 0) > 0 ||
        std::accumulate(run.layers.begin(), run.layers.end(), std::int64_t{0}) != layers)
      given.refuse("--pipeline-model-parallel-layout",
                   fmt::format("has {} stages for a degree of {}, or not each of {} layers once; "
                               "stages without layers are not planned",
                               stages, run.pipeline, layers));
    run.virtual_stages = static_cast<int>(stages / run.pipeline);
  } else if (given.text("--pp-partition-method").find("embed") != std::string::npos &&
             run.pipeline > 1 && (layers + 2) % run.pipeline == 0) {
    // Of Megatron-DeepSpeed: the first and the last table take the place of a layer.
    run.layers.assign(run.pipeline, static_cast<int>((layers + 2) / run.pipeline));
    --run.layers.front(), --run.layers.back();
  } else if (given.has("--num-layers-per-virtual-pipeline-stage")) {
    const std::int64_t each = given.whole("--num-layers-per-virtual-pipeline-stage");
    run.virtual_stages =
        static_cast<int>(std::max<std::int64_t>(1, layers / (each * run.pipeline)));
  } else if (given.has("--num-virtual-stages-per-pipeline-rank")) {
    run.virtual_stages =
        static_cast<int>(given.whole("--num-virtual-stages-per-pipeline-rank", 1, kMostDegree));
  }
}

/// What of the state the data-parallel devices share. DeepSpeed's optimizer of bf16 splits its
/// state without a stage of ZeRO.
AxisUse shard_use_of(const Settings& given) {
  const std::string stage = given.text("--zero-stage", "0");  // of Megatron-DeepSpeed
  if (stage == "3") return AxisUse::zero3;
  if (stage == "2") return AxisUse::zero2;
  const bool split = given.has("--use-distributed-optimizer") || stage == "1" ||
                     (given.has("--deepspeed") && given.has("--bf16"));
  return split ? AxisUse::zero1 : AxisUse::data;
}

/// A number that a variable of the caller may hold instead; 0: unknown.
std::int64_t plain_number(const Settings& given, const std::string& flag) {
  const std::string text = given.text(flag, "x");
  return text.size() < 7 && text.find_first_not_of("0123456789") == std::string::npos
             ? std::stoll(text)
             : 0;
}

}  // namespace

GivenRun megatron_run(const Settings& given, std::int64_t vocabulary) {
  require(given.has("--num-layers"), "{}: has no flag of Megatron-LM's, as --num-layers",
          excerpt(given.origin()));
  GivenRun run{
      .framework = "megatron",
      .sequence = given.whole("--seq-length"),
      .batch = given.has("--global-batch-size") ? given.whole("--global-batch-size") : 0,
      .rows = given.whole("--micro-batch-size", {}, kMostRows),
      .shard_use = shard_use_of(given),
      .tensor = static_cast<int>(given.whole("--tensor-model-parallel-size", 1, kMostDegree)),
      .pipeline = static_cast<int>(given.whole("--pipeline-model-parallel-size", 1, kMostDegree)),
      .sequence_parallel = given.has("--sequence-parallel"),
      .optimizer = given.text("--optimizer", "adam"),
      .devices = plain_number(given, "--nnodes") * plain_number(given, "--nproc_per_node")};
  const bool all = given.text("--recompute-granularity") == "full" ||
                   given.has("--checkpoint-activations") ||
                   given.has("--deepspeed-activation-checkpointing") ||
                   given.has("--activations-checkpoint-method");
  if (all) run.remat = "all";
  note_unpriced(given, run);
  run.decoder = flagged_decoder(given, run.tensor, vocabulary, run);
  if (given.has("--bf16")) run.precision = "bf16_mixed";
  if (given.has("--fp16")) run.precision = "f16_mixed";
  if (run.optimizer != "adam" && run.optimizer != "sgd")
    given.refuse("--optimizer", "is neither adam nor sgd");
  read_layout(given, run);
  return run;
}

Settings megatron_flags(const Settings& yaml) {
  Settings flags(yaml.origin());
  for (const std::string& key : yaml.keys()) {
    const std::size_t dot = key.rfind('.');
    const std::string section = dot == std::string::npos ? "" : key.substr(0, dot);
    std::string name = dot == std::string::npos ? key : key.substr(dot + 1);
    const std::string value = yaml.text(key);
    if (std::ranges::find(kSections, section) == std::end(kSections) || value.empty()) continue;
    for (const auto& [theirs, flag] : kRenamed)
      if (name == theirs) name = flag;
    std::ranges::replace(name, '_', '-');
    const bool off = value == "false" || value == "False";
    if (!off) flags.set("--" + name, value == "true" || value == "True" ? "" : value);
    if (name == "mcore-gpt" && off) flags.set("--mcore-gpt", "off");
    if (name == "share-embeddings-and-output-weights" && off)
      flags.set("--untie-embeddings-and-output-weights", "");
  }
  // 4 · hidden, as it is without the key.
  if (flags.text("--ffn-hidden-size").starts_with("${multiply:4")) flags.erase("--ffn-hidden-size");
  if (flags.text("--num-query-groups") == flags.text("--num-attention-heads"))
    flags.erase("--num-query-groups");
  if (flags.has("--num-query-groups")) flags.set("--group-query-attention", "");
  if (flags.text("--activation").ends_with("swiglu")) flags.set("--swiglu", "");
  const std::string optimizer = yaml.text("model.optim.name");
  if (optimizer.starts_with("distributed") || optimizer == "mcore_distributed_optim")
    flags.set("--use-distributed-optimizer", "");
  // Its buckets hold gradients in the parameters' type.
  if (optimizer == "distributed_fused_adam" && yaml.on("model.megatron_amp_O2"))
    flags.set("--grad-reduce-in-bf16", "");
  const std::string precision = yaml.text("trainer.precision");
  if (precision.starts_with("bf16")) flags.set("--bf16", "");
  if (precision.starts_with("16")) flags.set("--fp16", "");
  if (yaml.has("trainer.num_nodes")) flags.set("--nnodes", yaml.text("trainer.num_nodes"));
  if (yaml.has("trainer.devices")) flags.set("--nproc_per_node", yaml.text("trainer.devices"));
  return flags;
}

}  // namespace plan
