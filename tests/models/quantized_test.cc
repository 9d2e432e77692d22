// Quantised kernels (QLoRA): what steps compute from blocks, their bytes, and their files.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include "alpa/models/gguf.h"
#include "alpa/models/hugging_face.h"
#include "src/train/gguf_file.h"
#include "support/difference.h"
#include "support/error_text.h"
#include "support/golden.h"
#include "support/program.h"
#include "support/temporary_file.h"

namespace quantized_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

const models::DecoderOptions kOptions{.kind = models::DecoderKind::llama,
                                      .layers = 2,
                                      .hidden = 64,
                                      .heads = 4,
                                      .key_heads = 2,
                                      .sequence = 32,
                                      .vocabulary = 260,
                                      .feed_forward = 96,
                                      .head_bias = false,
                                      .tied_head = false};
/// Bytes of a block of Q8_0, Q4_0 and Q4_1, which the file's matrices have in turns.
constexpr const char* kTypes[] = {"Q8_0", "Q4_0", "Q4_1"};
const Lora kLora{.targets = {"*.attention.*", "*.down"}, .rank = 4, .alpha = 8};

BatchData batch_of(std::int64_t step) {
  std::vector<std::int32_t> tokens, labels;
  for (std::int64_t i = 0; i < 4 * 16; ++i) {
    tokens.push_back(static_cast<std::int32_t>((i * i + 3 * step * i) % kOptions.vocabulary));
    labels.push_back((tokens.back() * 7 + 1) % static_cast<std::int32_t>(kOptions.vocabulary));
  }
  return {{"tokens", Array(tokens, {4, 16})}, {"labels", Array(labels, {4, 16})}};
}

LossAndMetrics loss_of(const Batch& b) {
  return models::Decoder(kOptions).loss(b["tokens"], b["labels"]);
}

/// A random Llama whose kernels are blocks of all types; its tokens are bytes.
class Model {
 public:
  Model() : file_("quantized_test.gguf", "") {
    const TemporaryFile exact("quantized_test_f32.gguf", "");
    const Executable step = parallelize(evaluation_step(inputs_of(batch_of(0)), loss_of), Serial{},
                                        Cluster::local(1, "cpu"));
    models::Pretrained model;
    model.decoder = kOptions;
    models::save_gguf(step.init(3), exact.path(), model, models::GgufType::f32);
    const GgufFile read(exact.path());
    std::vector<GgufPart> parts;
    std::size_t next = 0;
    for (const GgufTensor& tensor : read.tensors()) {
      const bool kernel = tensor.shape.size() == 2 && tensor.name != "token_embd.weight";
      const GgufElement& type = kernel ? *gguf_type(kTypes[next++ % 3]) : *tensor.type;
      parts.push_back({tensor.name, &type, tensor.shape, gguf_encoded(tensor.read(), type)});
      if (kernel) block_bytes_ += static_cast<std::int64_t>(parts.back().bytes.size());
    }
    write_gguf(file_.path(), read.metadata(), parts);
  }
  const std::string& path() const { return file_.path(); }
  TensorFile file() const { return TensorFile(path()); }
  std::vector<Quantized> stored() const { return models::stored_quantization(file(), kOptions); }
  std::int64_t block_bytes() const { return block_bytes_; }  ///< of all kernels

  Executable trained(bool quantized, const Method& method, int devices) const {
    const StepOptions options{.lora = kLora,
                              .quantized = quantized ? stored() : std::vector<Quantized>{}};
    return parallelize(training_step(inputs_of(batch_of(0)), loss_of,
                                     optim::AdamW{.learning_rate = 1e-2}, options),
                       method, Cluster::local(devices, "cpu"));
  }
  TrainState loaded(const Executable& executable) const {
    TrainState state = executable.init(0);
    models::load_hugging_face(state, file(), kOptions);
    return state;
  }

 private:
  TemporaryFile file_;
  std::int64_t block_bytes_ = 0;
};

struct Plan {
  const char* name;
  Method method;
  int devices;
};
std::vector<Plan> plans() {
  return {{"one device", Serial{}, 1},
          {"shard on 4", ShardParallel{}, 4},
          {"data on 2", DataParallel{}, 2},
          {"two stages", PipeshardParallel{.num_micro_batches = 2, .stages = UniformStages{2}}, 2}};
}

/// Losses of ten steps, each before its update.
std::vector<double> losses(const Executable& executable, TrainState& state) {
  std::vector<double> losses;
  for (std::int64_t step = 0; step < 10; ++step)
    losses.push_back(executable.run(state, batch_of(step)).loss());
  return losses;
}

}  // namespace

TEST_CASE("ten steps of adapters are those of the model that the blocks hold, under every plan") {
  const Model model;
  const Executable plain = model.trained(false, Serial{}, 1);
  TrainState exact = model.loaded(plain);
  const std::vector<double> expected = losses(plain, exact);
  const Array trained = exact["blocks.0.attention.query.lora_b"].to_host();
  CHECK(largest_distance(trained, Array(std::vector<float>(trained.elements()), trained.shape())) >
        0.01);
  for (const Plan& plan : plans()) {
    CAPTURE(std::string(plan.name));
    const Executable train = model.trained(true, plan.method, plan.devices);
    TrainState state = model.loaded(train);
    const std::vector<double> found = losses(train, state);
    for (std::size_t i = 0; i < found.size(); ++i)
      CHECK(found[i] == doctest::Approx(expected[i]).epsilon(1e-5));
    for (const DistributedArray& parameter : exact.parameters()) {
      if (!parameter.name().ends_with(".lora_b")) continue;
      CAPTURE(parameter.name());
      CHECK(largest_distance(state[parameter.name()].to_host(), parameter.to_host()) < 1e-4);
    }
    CHECK(train.measured_bytes(state) == train.memory_bytes());
  }
}

TEST_CASE("a state has the file's blocks, and the plan counts their bytes") {
  const Model model;
  const Executable plain = model.trained(false, Serial{}, 1),
                   train = model.trained(true, Serial{}, 1);
  const TrainState state = model.loaded(train), exact = model.loaded(plain);
  std::int64_t kernels = 0, elements = 0;
  for (const DistributedArray& parameter : state.parameters()) {
    if (!parameter.name().ends_with(".kernel")) continue;
    CAPTURE(parameter.name());
    CHECK(parameter.type().dtype == u8);
    kernels += parameter.to_host().bytes();
    elements += exact[parameter.name()].type().elements();
  }
  CHECK(kernels == model.block_bytes());
  CHECK(elements > 4 * kernels / 3);
  // Nothing of a f32 kernel is left: the peaks differ by more than nine tenths of the state's.
  CHECK(plain.memory_bytes() - train.memory_bytes() > 0.9 * double(4 * elements - kernels));
  const TensorFile file = model.file();
  CHECK(state["blocks.1.feed_forward.down.kernel"].to_host().bytes() ==
        file.blocks("model.layers.1.mlp.down_proj.weight").bytes());
  // Rows of queries are in another order in the file, and so are their blocks.
  const std::string query = "model.layers.0.self_attn.q_proj.weight";
  const TemporaryFile written("quantized_test.safetensors", "");
  models::save_hugging_face(state, written.path(), kOptions);
  for (const std::string& name : {query, std::string("lm_head.weight")})
    CHECK(TensorFile(written.path())[name].to_doubles() == file[name].to_doubles());
}

TEST_CASE("loading quantises to the nearest numbers of each type") {
  // Numbers from -7 to 8: in steps of 1 with four bits, of 8 / 127 with eight.
  std::vector<float> weights;
  for (int i = 0; i < 32; ++i)
    weights.push_back(static_cast<float>(i % 16 - 7) + (i == 20 ? 0.3F : 0));
  const TemporaryFile file("quantized_test_layer.safetensors", "");
  write_safetensors(file.path(), {{"kernel", Array(weights, {32, 1})}});
  const auto loaded = [&](Quantization type) {
    const Executable step = parallelize(
        evaluation_step({{"x", {f32, {1, 32}}}},
                        [](const Batch& b) {
                          const static nn::Dense layer(1, {.bias = false, .name = "layer"});
                          return LossAndMetrics(mean(layer(b["x"])));
                        },
                        {.quantized = {{"layer", type}}}),
        Serial{}, Cluster::local(1, "cpu"));
    TrainState state = step.init(0);
    load_weights(state, file.path(), {{"layer.kernel", {"kernel"}}});
    const TemporaryFile saved("quantized_test_saved.safetensors", "");
    save_weights(state, saved.path());
    return TensorFile(saved.path())["layer.kernel"].to_doubles();
  };
  for (const Quantization type : {Quantization::q8_0, Quantization::q4_0, Quantization::q4_1}) {
    const std::vector<double> found = loaded(type);
    for (std::size_t i = 0; i < found.size(); ++i) {
      CAPTURE(i);
      const double exact =
          type == Quantization::q8_0 ? weights[i] : static_cast<double>(i % 16) - 7;
      CHECK(std::abs(found[i] - exact) <= (type == Quantization::q8_0 ? 0.5 * 8 / 127 + 4e-3 : 0));
    }
  }
}

TEST_CASE("programs continue and evaluate a quantised model as what its blocks hold") {
  const Model model;
  const auto alpa = [](std::vector<std::string> words) {
    const ProgramOutput output = run_program(ALPA_PROGRAMS "/alpa-gpt", words);
    CAPTURE(output.text);
    CHECK(output.status == 0);
    return output.text;
  };
  const std::vector<std::string> words{"--load",     model.path(), "--tokenizer",   "bytes",
                                       "--prompt",   "A plan",     "--temperature", "0",
                                       "--generate", "8"};
  std::vector<std::string> quantised = words;
  quantised.insert(quantised.end(), {"--quantize", "stored"});
  CHECK(alpa(quantised) == alpa(words));
}

TEST_CASE("mistakes with quantised kernels are told") {
  const Model model;
  const auto trace = [](const StepOptions& options) {
    return error_of(
        [&] { training_step(inputs_of(batch_of(0)), loss_of, optim::Sgd{}, options).trace(1); });
  };
  CHECK(trace({.quantized = {{"*.attn.*"}}}) ==
        "quantized: pattern \"*.attn.*\" fits the name of no Dense layer with a multiple of 32 "
        "inputs; names are like \"blocks.0.attention.query\", and * stands for any text");
  const Executable train = model.trained(true, Serial{}, 1);
  TrainState state = model.loaded(train);
  CHECK(error_of([&] { merge_adapters(state, kLora); }) ==
        "merge_adapters: \"blocks.0.attention.query.kernel\" is quantised, and cannot hold what an "
        "adapter adds; save the adapters (save_peft), and load them into a step without "
        "StepOptions::quantized");
  const std::string folder = golden_path("pretrained/llama");
  CHECK(error_of([&] {
          models::stored_quantization(TensorFile(folder + "/model.safetensors.index.json"),
                                      models::read_pretrained(folder).decoder);
        }).ends_with(": has no kernels in blocks of Q8_0, Q4_0 or Q4_1"));
  const auto mistake = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"--load", model.path(), "--quantize", "stored", "--tokenizer",
                                 "bytes", "--data", ALPA_SOURCE_DIR "/README.md", "--steps", "1"});
    const ProgramOutput output = run_program(ALPA_PROGRAMS "/alpa-gpt", words);
    CHECK(output.status == 2);
    return output.text;
  };
  CHECK(mistake({}) ==
        "alpa-gpt: --quantize stored: quantised kernels are not trained; give --lora or --adapter, "
        "too\n");
  CHECK(mistake({"--lora", "4", "--save", "never.safetensors"}) ==
        "alpa-gpt: --quantize stored: quantised kernels can't hold what is trained; give "
        "--save-adapter instead of --save or --save-folder\n");
}

}  // namespace quantized_test
