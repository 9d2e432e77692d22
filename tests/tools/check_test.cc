// alpa check: whether runs of other frameworks fit a cluster, and which degrees exclude each other.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "support/error_text.h"
#include "support/program.h"
#include "support/temporary_file.h"
#include "tools/given_run.h"

namespace check_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

/// A script with lists, variables and comments, as Megatron-LM's examples are.
const std::string kScript = R"(#!/bin/bash
# trains a small Llama
TP_SIZE=2
export LAYERS=8
LAYOUT="Et*3|t*5L"
MODEL_ARGS=(
    --num-layers $LAYERS --hidden-size 256
    --ffn-hidden-size 512  # of the MLP
    --num-attention-heads 4 --group-query-attention --num-query-groups 2
    --seq-length ${LENGTH:-128} --max-position-embeddings=128
    --swiglu --normalization RMSNorm --position-embedding-type rope
    --untie-embeddings-and-output-weights --disable-bias-linear
)
TRAINING_ARGS=("--micro-batch-size 2" --global-batch-size 64 --bf16 --lr 1e-4)
torchrun --nproc_per_node 8 pretrain_gpt.py ${MODEL_ARGS[@]} \
    ${TRAINING_ARGS[@]} --tensor-model-parallel-size ${TP_SIZE} --sequence-parallel \
    --pipeline-model-parallel-size 2 --pipeline-model-parallel-layout "$LAYOUT" \
    --use-distributed-optimizer --vocab-size 1000
)";

ProgramOutput check(const std::string& script, const std::string& hosts = "1") {
  const TemporaryFile file("check_test.sh", script);
  return run_program(ALPA_TOOL, {"check", file.path(), "--cluster", "dgx-a100", "--hosts", hosts,
                                 "--time-limit", "2"});
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

plan::GivenRun read(const std::string& text, const std::string& name = "run.sh",
                    const std::string& model = "") {
  static const Cluster cluster = Cluster::named("dgx-a100", 2);
  return plan::read_run({text, name, model, "", 0, 0, cluster});
}

std::string refusal(const std::string& text, const std::string& name = "run.sh") {
  return error_of([&] { read(text, name); });
}

}  // namespace

TEST_CASE("scripts are read with their variables, lists and comments") {
  const plan::GivenRun command = read(kScript);
  CHECK(command.decoder.kind == models::DecoderKind::llama);
  CHECK(command.decoder.layers == 8);
  CHECK(command.decoder.feed_forward == 512);
  CHECK(command.decoder.key_heads == 2);
  CHECK(command.decoder.vocabulary == 1024);  // a multiple of 128 rows on each of two devices
  CHECK(!command.decoder.tied_head);
  CHECK(command.sequence == 128);
  CHECK(command.rows == 2);
  CHECK(command.batch == 64);
  CHECK(command.tensor == 2);
  CHECK(command.layers == std::vector<int>{3, 5});
  CHECK(command.sequence_parallel);
  CHECK(command.shard_use == AxisUse::zero1);
  CHECK(command.remat == "none");
  CHECK(command.precision == "bf16_mixed");
}

TEST_CASE("layouts are read with repeated parts") {
  const auto layers = [](const std::string& layout) {
    return read(replaced(kScript, "Et*3|t*5L", layout)).layers;
  };
  CHECK(layers("Ett|tttttt,L") == std::vector<int>{2, 6});
  CHECK(layers("Et|(tt|)*2tttL") == std::vector<int>{1, 2, 2, 3});  // two on each device
}

TEST_CASE("a command that fits is priced beside the best of its grid") {
  const ProgramOutput output = check(kScript);
  CAPTURE(output.text);
  CHECK(output.status == 0);
  for (const char* line :
       {"model       Llama of 8 layers, 256 wide, 4 heads\n",
        "degrees     data 2 x tensor 2 x pipeline 2; 16 micro-batches of 2 rows; nothing "
        "recomputed\n",
        "verdict     fits\n"})
    CHECK(output.text.find(line) != output.text.npos);
  CHECK(output.text.find("planned") != output.text.npos);
}

TEST_CASE("a command that does not fit says what it needs") {
  std::string large = replaced(kScript, "--hidden-size 256", "--hidden-size 16384");
  large = replaced(large, "--ffn-hidden-size 512", "--ffn-hidden-size 131072");
  large = replaced(large, "--num-attention-heads 4", "--num-attention-heads 128");
  const ProgramOutput output = check(large);
  CAPTURE(output.text);
  CHECK(output.status == 1);
  CHECK(output.text.find("verdict     does not fit") != output.text.npos);
}

TEST_CASE("degrees that exclude each other are mistakes, all of them") {
  std::string script = replaced(kScript, "TP_SIZE=2", "TP_SIZE=4");
  script = replaced(script, "--global-batch-size 64", "--global-batch-size 63");
  const ProgramOutput output = check(script);
  CHECK(output.status == 1);
  for (const char* line : {"mistake     tensor 4 does not divide the 2 query groups\n",
                           "mistake     global batch 63 is no multiple of micro-batch 2 x data 1\n",
                           "verdict     cannot run\n"})
    CHECK(output.text.find(line) != output.text.npos);
  const std::string odd = check(replaced(kScript, "TP_SIZE=2", "TP_SIZE=3")).text;
  CHECK(odd.find("8 devices are no multiple of tensor 3 x pipeline 2 = 6") != odd.npos);
}

TEST_CASE("what is not priced is named, and missing or wrong values are refused") {
  CHECK(read(kScript + " --num-experts 8").unpriced == std::vector<std::string>{"--num-experts 8"});
  CHECK(read(kScript + " --num-experts 1").unpriced.empty());
  CHECK(refusal(replaced(kScript, "--vocab-size 1000", "")) == "run.sh: --vocab-size is missing");
  CHECK(refusal(replaced(kScript, "LAYERS=8", "LAYERS=eight")) ==
        "run.sh: --num-layers is 'eight'; give a whole number from 1 to 2147483648");
  CHECK(refusal("echo hello") == "run.sh: has no flag of Megatron-LM's, as --num-layers");
  const ProgramOutput output = check(kScript + " --num-experts 8");
  CHECK(output.status == 1);
  for (const char* words : {"warning     experts without all-to-all: --moe-token-dispatcher-type",
                            "verdict     unknown: --num-experts 8 is not priced\n"})
    CHECK(output.text.find(words) != output.text.npos);
}

TEST_CASE("a branch of a script whose condition is false is not read") {
  const auto remat = [](const std::string& condition) {
    return read("MODE=off\n" + kScript + "\nif " + condition +
                "; then\n  ARGS=\"--recompute-granularity full\"\nfi\n")
        .remat;
  };
  CHECK(remat("[ \"${MODE}\" = \"on\" ]") == "none");
  CHECK(remat("[[ $MODE != off ]]") == "none");
  CHECK(remat("[ \"$MODE\" == \"off\" ]") == "all");
  CHECK(remat("[ -n \"$UNKNOWN\" ]") == "all");  // both branches are read
  CHECK(read(kScript + "\nA=1\nif [ $A -eq 2 ]; then\n--zero-stage 3\nelse\n--zero-stage 2\nfi\n")
            .shard_use == AxisUse::zero2);
}

TEST_CASE("context degrees split the devices and the tokens") {
  const ProgramOutput output = check(kScript + " --context-parallel-size 2");
  CAPTURE(output.text);
  CHECK(output.text.find("data 1 x context 2 x tensor 2 x pipeline 2") != output.text.npos);
  CHECK(output.text.find("verdict     fits\n") != output.text.npos);
  const std::string odd = check(kScript + " --context-parallel-size 3").text;
  CHECK(odd.find("mistake     context 3 does not divide 128 tokens\n") != odd.npos);
  CHECK(odd.find("no multiple of context 3 x tensor 2 x pipeline 2 = 12\n") != odd.npos);
}

TEST_CASE("gradients of other types and whole residuals are counted") {
  const auto held = [](const std::string& script) {
    const std::string text = check(script).text;
    CAPTURE(text);
    const std::size_t at = text.find("held        ");
    return at == text.npos ? std::string() : text.substr(at, text.find('\n', at) - at);
  };
  // 4 layers x 2 in flight x 4 bytes of 2 rows x 128 tokens x 256 features, of two devices.
  CHECK(held(kScript).find("1.00 MiB less than that") != std::string::npos);
  CHECK(held(kScript).find(", inputs of products are gathered again") != std::string::npos);
  const std::string f16 =
      replaced(replaced(kScript, "--bf16", "--fp16"), "--use-distributed-optimizer", "");
  CHECK(held(f16).find("gradients and their sums take 1.5 times") != std::string::npos);
  // Sums of 2 bytes and a f32 copy of the shard: 0.5 + 1 / 2 of 4 bytes on two devices.
  CHECK(held(replaced(kScript, "--bf16", "--fp16")).find("take 1 times") != std::string::npos);
  // 4 layers x 2 in flight x 10 bytes of 2 rows x 128 tokens x 256 features, half of it split.
  const std::string whole = held(replaced(kScript, "--sequence-parallel", ""));
  CHECK(whole.find("2.50 MiB more than that") != std::string::npos);
  CHECK(whole.find(", norms and residuals are whole") != std::string::npos);
}

TEST_CASE("tables take the place of layers where Megatron-DeepSpeed says so") {
  const std::string script = replaced(kScript, "--pipeline-model-parallel-layout \"$LAYOUT\"",
                                      "--pp-partition-method 'type:transformer|embedding'");
  CHECK(read(replaced(script, "LAYERS=8", "LAYERS=10")).layers == std::vector<int>{5, 5});
  const std::string four =
      replaced(script, "--pipeline-model-parallel-size 2", "--pipeline-model-parallel-size 5");
  CHECK(read(four).layers == std::vector<int>{1, 2, 2, 2, 1});
}

TEST_CASE("arithmetic of shell scripts is done") {
  const auto tensor = [](const std::string& value) {
    return read(replaced(kScript, "TP_SIZE=2", "N=4\nTP_SIZE=" + value)).tensor;
  };
  CHECK(tensor("$((8/N))") == 2);
  CHECK(tensor("$(( (${N} + 4) / 2 * 1 ))") == 4);
  CHECK(tensor("$(($N % 3))") == 1);
  CHECK(refusal(replaced(kScript, "TP_SIZE=2", "TP_SIZE=$((1/0))"))
            .starts_with("run.sh: --tensor-model-parallel-size is '$((1/0))'"));
}

namespace {

const std::string kToml = R"(# a preset
[model]
name = "llama3"
flavor = "8B"  # of three
[training]
local_batch_size = 4
seq_len = 8192
[parallelism]
data_parallel_shard_degree = -1
tensor_parallel_degree = 2
pipeline_parallel_degree = 2
pipeline_parallel_schedule = "1F1B"
[activation_checkpoint]
mode = 'full'
[compile]
components = ["model",
              "loss"]
)";

const std::string kRecipe = R"(
def base() -> Trainer.Config:
    """A "small" run."""
    return Trainer.Config(
        model_spec=model_registry("8B"),
        training=TrainingConfig(local_batch_size=2, seq_len=4096),
        parallelism=ParallelismConfig(
            tensor_parallel_degree=2,  # of a host
            pipeline_parallel_degree=2,
            module_fqns_per_model_part=[["tok_embeddings", "layers.0"], ["layers.1", "norm"]],
        ),
        activation_checkpoint=None,
    )
)";

const std::string kYaml = R"(base_config: "base.yml"
per_device_batch_size: 0.5  # of a device
max_target_length: 4096
model_name: 'llama2-70b'
dcn_fsdp_parallelism: 2
ici_fsdp_parallelism: 2
ici_tensor_parallelism: 4
gradient_accumulation_steps: 3
remat_policy: full
logical_axis_rules: [ ['a', ['b']],
                      ['c', []] ]
)";

const std::string kNemo = R"(trainer:
  num_nodes: 2
  devices: 8
  precision: bf16
model:
  micro_batch_size: 1
  global_batch_size: 64
  tensor_model_parallel_size: 4
  pipeline_model_parallel_size: 2
  context_parallel_size: 2
  virtual_pipeline_model_parallel_size: 2
  encoder_seq_length: 2048
  num_layers: 8
  hidden_size: 1024
  ffn_hidden_size: ${multiply:4, ${.hidden_size}}  # 4 * hidden_size
  num_attention_heads: 16
  kv_channels: null
  vocab_size: 1000
  mcore_gpt: False
  megatron_amp_O2: True
  optim:
    name: distributed_fused_adam
    betas:
    - 0.9
    - 0.95
)";

const std::string kJson = R"({
  "train_batch_size": 64, "train_micro_batch_size_per_gpu": "auto",
  "gradient_accumulation_steps": "auto", "bf16": {"enabled": true},
  "zero_optimization": {"stage": 3, "offload_param": {"device": "none"}}
})";

/// A command of DeepSpeed that names the file `path`.
std::string launched(const std::string& path) {
  return "deepspeed --num_gpus 8 --num_nodes=2 train.py --deepspeed " + path +
         " --per_device_train_batch_size 2 --gradient_accumulation_steps 2 "
         "--gradient_checkpointing True --max_seq_length 1024";
}

}  // namespace

TEST_CASE("torchtitan's TOML is read, of old and new releases") {
  const plan::GivenRun run = read(kToml, "run.toml");
  CHECK(run.decoder.hidden == 4096);
  CHECK(run.sequence == 8192);
  CHECK(run.shards == -1);
  CHECK(run.tensor == 2);
  CHECK(run.rows == 1);  // of four, with stages
  CHECK(run.micro_batches == 4);
  CHECK(run.remat == "all");
  CHECK(run.precision == "bf16_mixed");
  std::string old = replaced(kToml, "[parallelism]\n", "");
  old = replaced(old, "local_batch_size", "batch_size");
  old = replaced(old, "pipeline_parallel_degree", "context_parallel_degree");
  const plan::GivenRun before = read(old, "run.toml");
  CHECK(before.tensor == 2);
  CHECK(before.rows == 4);
  CHECK(before.context == 2);
}

TEST_CASE("torchtitan's recipes are read, each in its function") {
  const plan::GivenRun run = read(kRecipe, "run.py");
  CHECK(run.sequence == 4096);
  CHECK(run.pipeline == 2);
  CHECK(run.layers == std::vector<int>{1, 1});
  CHECK(run.remat == "none");
  const std::string changed = kRecipe +
                              "\ndef large():\n    config = base()\n"
                              "    config.training.seq_len = 8192\n    return config\n";
  CHECK(refusal(changed, "run.py") ==
        "run.py: it has several functions; give one as --recipe: \"base\", \"large\"");
  const Cluster cluster = Cluster::named("dgx-a100");
  const plan::GivenRun large = plan::read_run({changed, "run.py", "", "large", 0, 0, cluster});
  CHECK(large.sequence == 8192);
  CHECK(large.tensor == 2);
}

TEST_CASE("MaxText's YAML is read, and its commands win over it") {
  const plan::GivenRun run = read(kYaml, "run.yml");
  CHECK(run.decoder.key_heads == 8);
  CHECK(run.replicas == 1);
  CHECK(run.shards == 4);
  CHECK(run.tensor == 4);
  CHECK(run.batch == 24);  // half a row of 16 devices, three times
  CHECK(run.micro_batches == 3);
  const TemporaryFile file("check_test.yml", kYaml);
  const plan::GivenRun words =
      read("python3 train.py " + file.path() + " per_device_batch_size=2 ici_fsdp_parallelism=-1");
  CHECK(words.batch == 96);
  CHECK(words.shards == 4);
}

TEST_CASE("NeMo's YAML is read as flags of Megatron-LM") {
  const plan::GivenRun run = read(kNemo, "run.yaml");
  CHECK(run.decoder.feed_forward == 4096);
  CHECK(run.tensor == 4);
  CHECK(run.virtual_stages == 2);
  CHECK(run.devices == 16);
  CHECK(run.shard_use == AxisUse::zero1);
  CHECK(run.gradients_held == 0.5);
  CHECK(run.precision == "bf16_mixed");
  REQUIRE(run.warnings.size() == 1);
  CHECK(run.warnings[0].starts_with("context parallelism is switched off silently"));
  CHECK(run.context == 1);
  CHECK(read(replaced(kNemo, "mcore_gpt: False", "mcore_gpt: True"), "run.yaml").context == 2);
}

TEST_CASE("DeepSpeed's JSON is read, with what its launcher is given") {
  const TemporaryFile file("check_test.json", kJson);
  const plan::GivenRun run = read(launched(file.path()), "run.sh", "llama3 8B");
  CHECK(run.batch == 64);
  CHECK(run.rows == 2);
  CHECK(run.micro_batches == 2);
  CHECK(run.shard_use == AxisUse::zero3);
  CHECK(run.remat == "all");
  CHECK(run.devices == 16);
  CHECK(run.sequence == 1024);
  CHECK(run.unpriced.empty());
  CHECK(error_of([&] { read(launched(file.path())); }).find("give --model") != std::string::npos);
  const TemporaryFile moved("check_test.json", replaced(kJson, "\"none\"", "\"cpu\""));
  CHECK(read(launched(moved.path()), "run.sh", "llama3 8B").unpriced ==
        std::vector<std::string>{"zero_optimization.offload_param.device cpu"});
}

TEST_CASE("files are refused by key and line") {
  CHECK(refusal(replaced(kToml, "seq_len = 8192", "seq_len = long"), "run.toml") ==
        "run.toml: line 7: training.seq_len is 'long'; give a whole number from 1 to 2147483648");
  CHECK(refusal(replaced(kToml, "tensor_parallel_degree", "tensor_degree"), "run.toml") ==
        "run.toml: line 10: parallelism.tensor_degree 2 is not known here");
  CHECK(refusal(replaced(kToml, "[parallelism]", "[[parallelism]]"), "run.toml") ==
        "run.toml: line 8: a section is [name]; lists of tables are not read");
  CHECK(refusal(replaced(kYaml, "'llama2-70b'", "'llama9-1b'"), "run.yml") ==
        "run.yml: model llama9 1b is not known here; give its config.json as --model");
  CHECK(refusal(replaced(kNemo, "precision: bf16", "precision: *p"), "run.yaml") ==
        "run.yaml: line 4: '*p' is not read");
}

TEST_CASE("more tokens per second than the peak allows are a warning") {
  const TemporaryFile file("check_test.sh", kScript);
  const auto words = [&](const std::string& rate) {
    return run_program(ALPA_TOOL, {"check", file.path(), "--cluster", "dgx-a100", "--time-limit",
                                   "2", "--measured-tokens-per-second", rate})
        .text;
  };
  CHECK(words("1e12").find("times the peak of 8 devices") != std::string::npos);
  const std::string text = words("1000");
  CHECK(text.find("measured    1000 tokens/s, 0.") != text.npos);
  CHECK(text.find("times the peak") == text.npos);
}

TEST_CASE("mutated runs of all kinds are read, or refused in a line") {
  std::mt19937 random(7);
  const auto below = [&](std::size_t most) { return static_cast<std::size_t>(random() % most); };
  const std::pair<std::string, std::string> kinds[] = {
      {"run.sh", kScript}, {"run.toml", kToml}, {"run.py", kRecipe},
      {"run.yml", kYaml},  {"run.yaml", kNemo}, {"run.json", replaced(kJson, "\"auto\"", "2")}};
  int read_runs = 0;
  for (int i = 0; i < 3000; ++i) {
    const auto& [name, whole] = kinds[i % std::size(kinds)];
    std::string text = whole;
    for (std::size_t change = 0; change <= below(4); ++change) {
      const std::size_t at = below(text.size()), count = 1 + below(12);
      if (below(3) == 0)
        text.erase(at, count);
      else if (below(2) == 0)
        text.insert(at, text.substr(below(text.size()), count));
      else
        text[at] = "0123456789*|()[]{}${}\"'\\=:,#-tEL \n"[below(34)];
    }
    CAPTURE(name);
    CAPTURE(text);
    try {
      const Cluster cluster = Cluster::named("dgx-a100", 2);
      const plan::GivenRun run =
          plan::read_run({text, name, name == "run.json" ? "llama3 8B" : "", "", 64, 0, cluster});
      CHECK(run.tensor >= 1);
      ++read_runs;
    } catch (const Error& error) {
      const std::string words = error.what();
      CHECK(words.find('\n') == words.npos);
      CHECK(words.find(name) != words.npos);
    }
  }
  CHECK(read_runs > 300);
}

}  // namespace check_test
