// alpa check: whether a command of Megatron-LM fits a cluster, and which of its degrees exclude
// each other.
#include <alpa/base/error.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "support/error_text.h"
#include "support/program.h"
#include "support/temporary_file.h"
#include "tools/megatron_command.h"

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

std::string refusal(const std::string& script) {
  return error_of([&] { plan::read_megatron(script, "run.sh", 0); });
}

}  // namespace

TEST_CASE("scripts are read with their variables, lists and comments") {
  const plan::MegatronCommand command = plan::read_megatron(kScript, "run.sh", 0);
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
  CHECK(command.distributed_optimizer);
  CHECK(!command.recomputes);
  CHECK(command.precision == "bf16_mixed");
}

TEST_CASE("layouts are read with repeated parts") {
  const auto layers = [](const std::string& layout) {
    return plan::read_megatron(replaced(kScript, "Et*3|t*5L", layout), "run.sh", 0).layers;
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

TEST_CASE("what is not priced is refused, by its flag") {
  CHECK(refusal(kScript + " --num-experts 8") == "run.sh: --num-experts 8 is not priced");
  CHECK(refusal(kScript + " --context-parallel-size 2") ==
        "run.sh: --context-parallel-size 2 is not priced");
  CHECK(refusal(replaced(kScript, "--vocab-size 1000", "")) == "run.sh: --vocab-size is missing");
  CHECK(refusal(replaced(kScript, "LAYERS=8", "LAYERS=eight")) ==
        "run.sh: --num-layers is 'eight'; give a whole number from 1 to 2147483648");
  CHECK(refusal("echo hello") == "run.sh: has no flag of Megatron-LM's, as --num-layers");
}

TEST_CASE("mutated scripts are read, or refused in a line") {
  std::mt19937 random(7);
  const auto below = [&](std::size_t most) { return static_cast<std::size_t>(random() % most); };
  int read = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string script = kScript;
    for (std::size_t change = 0; change <= below(4); ++change) {
      const std::size_t at = below(script.size()), count = 1 + below(12);
      if (below(3) == 0)
        script.erase(at, count);
      else if (below(2) == 0)
        script.insert(at, script.substr(below(script.size()), count));
      else
        script[at] = "0123456789*|()${}\"'\\=-tEL "[below(27)];
    }
    CAPTURE(script);
    try {
      const plan::MegatronCommand command = plan::read_megatron(script, "run.sh", 0);
      CHECK(command.rows >= 1);
      ++read;
    } catch (const Error& error) {
      const std::string text = error.what();
      CHECK(text.find('\n') == text.npos);
      CHECK(text.starts_with("run.sh: "));
    }
  }
  CHECK(read > 300);
}

}  // namespace check_test
