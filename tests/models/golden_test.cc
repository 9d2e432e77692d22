// Five small models against PyTorch and JAX: tests/golden/models/make.py.
#include <doctest/doctest.h>

#include "alpa/models/bert.h"
#include "alpa/models/hugging_face.h"
#include "alpa/models/moe.h"
#include "alpa/models/wide_resnet.h"
#include "models/common/decoder_flags.h"
#include "models/common/training.h"
#include "src/ir/recorder.h"
#include "support/difference.h"
#include "support/error_text.h"
#include "support/golden.h"
#include "support/temporary_file.h"

namespace golden_test {

using namespace alpa;
using namespace models;
using namespace programs;
using namespace alpa::testing;

namespace {

constexpr std::int64_t kBatch = 6, kSequence = 5, kVocabulary = 13;
constexpr double kTolerance = 1e-5;

struct Forward {
  Value logits, loss;
};

/// A model, and how its file names the parameters.
struct Model {
  std::string name;
  std::vector<BatchInput> inputs;
  std::function<Forward(const Batch&)> forward;
  std::function<LossAndMetrics(const Batch&)> loss;  ///< its own function
  Optimizer optimizer;
  WeightMap map = {};  ///< empty: their own names
};

TensorFile file_of(const std::string& name) {
  return TensorFile(golden_path("models/" + name + ".safetensors"));
}

/// Replaces every parameter by its gradient, and returns the logits.
TrainingStep gradient_step(const Model& model) {
  return custom_step(model.inputs, [model](Builder& g, const Batch& b) {
    const auto [logits, loss] = model.forward(b);
    recorder(g).order_parameters({loss});
    output("logits", logits);
    const Values gradients = mean_gradients(loss, g.parameters());
    g.metric("loss", mean_over_micro_batches("loss", loss));
    g.set_region(Region::apply);
    for (std::size_t i = 0; i < gradients.size(); ++i) g.update(g.parameters()[i], gradients[i]);
  });
}

WeightMap prefixed(const std::string& prefix, WeightMap map) {
  for (WeightName& name : map)
    for (std::string& tensor : name.tensors) tensor = prefix + tensor;
  return map;
}

/// A model under one method.
class Check {
 public:
  Check(const Model& model, const Method& method, const Cluster& cluster)
      : model_(model),
        method_(method),
        cluster_(cluster),
        start_(file_of(model.name)),
        steps_(file_of(model.name + ".steps")) {
    for (const BatchInput& input : model.inputs) batch_.emplace(input.name, steps_[input.name]);
  }

  void run() const {
    const Executable train =
        parallelize(training_step(model_.inputs, model_.loss, model_.optimizer), method_, cluster_);
    check_gradients();
    TrainState state = started(train);
    const std::vector<double> losses = steps_["losses"].to_doubles();
    for (double loss : losses) {
      const StepResult result = train.run(state, batch_);
      CHECK(result.loss() == doctest::Approx(loss).epsilon(kTolerance));
      if (steps_.contains("balance") && loss == losses[0])
        CHECK(largest_distance({result.metrics["balance"]}, steps_["balance"].to_doubles()) <
              kTolerance);
    }
    check_state(train, state, "after.");
  }

 private:
  TrainState started(const Executable& executable) const {
    TrainState state = executable.init(0);
    load_weights(state, start_, model_.map);
    return state;
  }

  void check_gradients() const {
    const Executable executable = parallelize(gradient_step(model_), method_, cluster_);
    TrainState state = started(executable);
    const StepResult result = executable.run(state, batch_);
    CHECK(result.loss() == doctest::Approx(steps_["loss"].to_doubles()[0]).epsilon(kTolerance));
    CHECK(largest_difference(result.outputs["logits"].to_doubles(), steps_["logits"].to_doubles(),
                             0) < kTolerance);
    check_state(executable, state, "gradient.");
  }

  /// Compares all parameters with the tensors of this prefix.
  void check_state(const Executable& executable, const TrainState& state,
                   const std::string& prefix) const {
    TrainState expected = executable.init(0);
    const WeightMap& map = model_.map;
    REQUIRE(map.size() == state.parameters().size());
    load_weights(expected, steps_, prefixed(prefix, map));
    for (const WeightName& name : map) {
      CAPTURE(prefix);
      CAPTURE(name.parameter);
      CHECK(largest_difference(state[name.parameter].to_host().to_doubles(),
                               expected[name.parameter].to_host().to_doubles(), 0.01) < kTolerance);
    }
  }

  const Model& model_;
  Method method_;
  Cluster cluster_;
  TensorFile start_, steps_;
  std::map<std::string, Array> batch_;
};

void check(const Model& model) {
  CAPTURE(model.name);
  Check(model, Serial{}, Cluster::local(1)).run();
  Check(model, ShardParallel{}, Cluster::local(3)).run();
}

/// A model from tokens to labels of tokens.
template <class Network>
Model on_tokens(const std::string& name, const Network& network, const Optimizer& optimizer) {
  const TensorType type{i32, {kBatch, kSequence}};
  const auto forward = [network](const Batch& b) -> Forward {
    const Value logits = network(b["tokens"]);
    return {logits, nn::cross_entropy(logits, b["labels"], {.ignored_label = -1})};
  };
  return {.name = name,
          .inputs = {{"tokens", type}, {"labels", type}},
          .forward = forward,
          .loss = [network](const Batch& b) { return network.loss(b["tokens"], b["labels"]); },
          .optimizer = optimizer};
}

/// A layer of a model and of a file. `linear`: kernel and bias, else scale and bias.
struct LayerNames {
  std::string layer, tensor;
  bool linear = true;
};

/// BertForMaskedLM, without types of tokens.
WeightMap bert_names(std::int64_t layers) {
  WeightMap map{{"tokens.table", {"bert.embeddings.word_embeddings.weight"}},
                {"positions.table", {"bert.embeddings.position_embeddings.weight"}},
                {"head.bias", {"cls.predictions.bias"}}};
  const auto add = [&](const LayerNames& name) {
    map.push_back({name.layer + (name.linear ? ".kernel" : ".scale"),
                   {name.tensor + ".weight"},
                   name.linear});
    map.push_back({name.layer + ".bias", {name.tensor + ".bias"}});
  };
  add({"embedding_norm", "bert.embeddings.LayerNorm", false});
  for (std::int64_t i = 0; i < layers; ++i)
    for (const LayerNames& name : {LayerNames{"attention.query", "attention.self.query"},
                                   {"attention.key", "attention.self.key"},
                                   {"attention.value", "attention.self.value"},
                                   {"attention.projection", "attention.output.dense"},
                                   {"attention_norm", "attention.output.LayerNorm", false},
                                   {"feed_forward.up", "intermediate.dense"},
                                   {"feed_forward.down", "output.dense"},
                                   {"feed_forward_norm", "output.LayerNorm", false}})
      add({fmt::format("encoder.blocks.{}.{}", i, name.layer),
           fmt::format("bert.encoder.layer.{}.{}", i, name.tensor), name.linear});
  add({"transform", "cls.predictions.transform.dense"});
  add({"transform_norm", "cls.predictions.transform.LayerNorm", false});
  return map;
}

/// Layers under the names of tests/golden/models/make.py, which numbers them.
WeightMap numbered_names(const std::vector<LayerNames>& layers) {
  WeightMap map;
  for (const LayerNames& name : layers)
    for (const char* parameter : {name.linear ? ".kernel" : ".scale", ".bias"})
      map.push_back({name.layer + parameter, {name.tensor + parameter}});
  return map;
}

/// The decoder with experts of make.py.
WeightMap moe_names() {
  WeightMap map = numbered_names({{"blocks.0.attention.query", "dense0"},
                                  {"blocks.0.attention.key", "dense1"},
                                  {"blocks.0.attention.value", "dense2"},
                                  {"blocks.0.attention.projection", "dense3"},
                                  {"blocks.0.feed_forward.up", "dense4"},
                                  {"blocks.0.feed_forward.down", "dense5"},
                                  {"blocks.1.attention.query", "dense6"},
                                  {"blocks.1.attention.key", "dense7"},
                                  {"blocks.1.attention.value", "dense8"},
                                  {"blocks.1.attention.projection", "dense9"},
                                  {"blocks.0.attention_norm", "layer_norm0", false},
                                  {"blocks.0.feed_forward_norm", "layer_norm1", false},
                                  {"blocks.1.attention_norm", "layer_norm2", false},
                                  {"blocks.1.feed_forward_norm", "layer_norm3", false},
                                  {"norm", "layer_norm4", false}});
  map.push_back({"tokens.table", {"embedding0.table"}});
  map.push_back({"positions.table", {"embedding1.table"}});
  map.push_back({"head.bias", {"head0.bias"}});
  for (const char* part : {"gate", "up", "down"})
    map.push_back({fmt::format("blocks.1.experts.{}", part), {fmt::format("moe0.{}", part)}});
  return map;
}

/// The residual network of make.py, in the order of its layers.
WeightMap resnet_names() {
  WeightMap map = numbered_names({{"head", "dense0"}});
  int number = 0;
  for (const char* layer :
       {"stem", "groups.0.blocks.0.project", "groups.0.blocks.0.reduce", "groups.0.blocks.0.middle",
        "groups.0.blocks.0.expand", "groups.1.blocks.0.project", "groups.1.blocks.0.reduce",
        "groups.1.blocks.0.middle", "groups.1.blocks.0.expand", "groups.1.blocks.1.reduce",
        "groups.1.blocks.1.middle", "groups.1.blocks.1.expand"}) {
    map.push_back({fmt::format("{}.conv.kernel", layer), {fmt::format("conv2d{}.kernel", number)}});
    for (const char* parameter : {"scale", "bias"})
      map.push_back({fmt::format("{}.norm.{}", layer, parameter),
                     {fmt::format("batch_norm{}.{}", number, parameter)}});
    ++number;
  }
  return map;
}

const DecoderOptions kGpt2{.layers = 2,
                           .hidden = 12,
                           .heads = 3,
                           .sequence = kSequence,
                           .vocabulary = kVocabulary,
                           .head_bias = false};
const DecoderOptions kLlama{.kind = DecoderKind::llama,
                            .layers = 2,
                            .hidden = 16,
                            .heads = 4,
                            .key_heads = 2,
                            .sequence = kSequence,
                            .vocabulary = kVocabulary,
                            .feed_forward = 20,
                            .tied_head = false,
                            .norm_epsilon = 1e-5,
                            .rotary_base = 500};

const Optimizer kAdam = optim::Adam{.learning_rate = 0.01, .epsilon = 1e-3};

}  // namespace

TEST_CASE("a GPT is Hugging Face's GPT-2: logits, loss, gradients, three steps of Adam") {
  Model model = on_tokens("gpt2", Decoder(kGpt2), kAdam);
  model.map = hugging_face_names(kGpt2);
  check(model);
}

TEST_CASE("a Llama with grouped queries is Hugging Face's: so are three steps of AdamW") {
  const optim::AdamW adamw{.learning_rate = 0.01, .epsilon = 1e-3, .weight_decay = 0.1};
  Model model = on_tokens("llama", Decoder(kLlama), adamw);
  model.map = hugging_face_names(kLlama);
  check(model);
}

TEST_CASE("BERT is Hugging Face's, with ignored labels and Nesterov's steps") {
  const Bert bert({.encoder = {.layers = 2, .hidden = 12, .heads = 3},
                   .sequence = kSequence,
                   .vocabulary = kVocabulary});
  const optim::Sgd sgd{.learning_rate = 0.05, .momentum = 0.9, .nesterov = true};
  Model model = on_tokens("bert", bert, sgd);
  model.map = bert_names(2);
  check(model);
}

TEST_CASE("a decoder with experts is that of a program in JAX, places and balance included") {
  constexpr double kBalance = 0.1;
  const MoeDecoder decoder({.layers = 2,
                            .hidden = 8,
                            .heads = 2,
                            .experts = 3,
                            .sequence = kSequence,
                            .vocabulary = kVocabulary,
                            .factor = 2,
                            .group = 10,
                            .balance_weight = kBalance});
  const TensorType type{i32, {kBatch, kSequence}};
  check({.name = "moe",
         .inputs = {{"tokens", type}, {"labels", type}},
         .forward = [decoder](const Batch& b) -> Forward {
           const auto [logits, balance] = decoder(b["tokens"]);
           return {logits, nn::cross_entropy(logits, b["labels"]) + balance * kBalance};
         },
         .loss = [decoder](const Batch& b) { return decoder.loss(b["tokens"], b["labels"]); },
         .optimizer = kAdam,
         .map = moe_names()});
}

TEST_CASE("a residual network of three blocks is PyTorch's, running statistics included") {
  const nn::Sequential network = wide_resnet({.blocks = {1, 2},
                                              .channels = 4,
                                              .width = 2,
                                              .classes = 5,
                                              .small_images = true,
                                              .pooled_stem = false});
  const auto forward = [network](const Batch& b) -> Forward {
    const Value logits = network(b["x"]);
    return {logits, nn::cross_entropy(logits, b["y"])};
  };
  check({.name = "resnet",
         .inputs = {{"x", {f32, {6, 8, 7, 3}}}, {"y", {i32, {6}}}},
         .forward = forward,
         .loss = [forward](const Batch& b) -> LossAndMetrics { return forward(b).loss; },
         .optimizer = optim::Sgd{.learning_rate = 0.05, .momentum = 0.9},
         .map = resnet_names()});
}

namespace {

Executable predictor(const DecoderOptions& options, int devices = 1) {
  const TrainingStep step = prediction_step(
      {{"tokens", {i32, {kBatch, kSequence}}}},
      [decoder = Decoder(options)](const Batch& b) { return decoder(b["tokens"]); });
  return parallelize(step, ShardParallel{}, Cluster::local(devices));
}

/// All tensors of a file, without a prefix of their names.
std::map<std::string, Array> tensors_of(const TensorFile& file, const std::string& prefix = "") {
  std::map<std::string, Array> tensors;
  for (const std::string& name : file.names())
    tensors.emplace(name.starts_with(prefix) ? name.substr(prefix.size()) : name, file[name]);
  return tensors;
}

std::string load_error(const DecoderOptions& options, const std::string& path) {
  TrainState state = predictor(options).init(0);
  return error_of([&] { load_hugging_face(state, TensorFile(path), options); });
}

/// `kGpt2` or `kLlama` with changes.
template <class Change>
DecoderOptions with(DecoderOptions options, Change change) {
  change(options);
  return options;
}

}  // namespace

TEST_CASE("Hugging Face's files load, with and without prefix, and are written as they were") {
  const TemporaryFile written("exported.safetensors", ""), bare("bare.safetensors", "");
  for (const auto& [name, prefix, options] :
       {std::tuple("gpt2", "transformer.", kGpt2), std::tuple("llama", "model.", kLlama)}) {
    const TensorFile file = file_of(name), steps = file_of(name + std::string(".steps"));
    std::map<std::string, Array> tensors = tensors_of(file, prefix);
    tensors.emplace("h.0.attn.bias", Array(TensorType{f32, {5, 5}}));  // of old files: a mask
    write_safetensors(bare.path(), tensors);
    for (const TensorFile& given : {file, TensorFile(bare.path())}) {
      const Executable executable = predictor(options, 2);
      TrainState state = executable.init(0);
      load_hugging_face(state, given, options);
      const Array logits =
          executable.run(state, {{"tokens", steps["tokens"]}}).outputs["prediction"];
      CHECK(largest_difference(logits.to_doubles(), steps["logits"].to_doubles(), 0) < kTolerance);
      save_hugging_face(state, written.path(), options);
      const TensorFile exported(written.path());
      CHECK(exported.metadata() == file.metadata());
      REQUIRE(exported.names() == file.names());
      for (const std::string& tensor : file.names())
        CHECK(largest_distance(exported[tensor], file[tensor]) == 0);
    }
  }
}

TEST_CASE("files of other decoders are refused, naming the tensor") {
  const std::string gpt2 = golden_path("models/gpt2.safetensors"),
                    llama = golden_path("models/llama.safetensors");
  CHECK(load_error(with(kGpt2, [](auto& o) { o.vocabulary = 14; }), gpt2) ==
        "weight map: parameter \"tokens.table\": is f32[14, 12], but tensor "
        "\"transformer.wte.weight\" of " +
            gpt2 + " is f32[13, 12]");
  CHECK(load_error(with(kGpt2, [](auto& o) { o.layers = 1; }), gpt2) ==
        gpt2 +
            ": has tensor \"transformer.h.1.attn.c_attn.bias\", but the decoder has 1 layers; "
            "give it all of the file's");
  CHECK(load_error(with(kLlama, [](auto& o) { o.layers = 3; }), llama)
            .starts_with(llama + ": has no tensor \"model.layers.2.input_layernorm.weight\""));
  CHECK(load_error(with(kLlama, [](auto& o) { o.tied_head = true; }), llama) ==
        llama +
            ": tensor \"lm_head.weight\" is not \"model.embed_tokens.weight\", so the decoder "
            "needs a head of its own");
  CHECK(load_error(with(kGpt2, [](auto& o) { o.head_bias = true; }), gpt2) ==
        "Hugging Face's GPT-2 has its embedding's table as head, without a bias: leave out the "
        "decoder's bias");
}

TEST_CASE("alpa-gpt's --load gives the decoder the head of the file, and its weights") {
  Flags flags;
  flags.kind = "llama", flags.load = golden_path("models/llama.safetensors");
  flags.layers = 2, flags.hidden = 16, flags.heads = 4, flags.key_heads = 2;
  flags.feed_forward = 20, flags.vocabulary = kVocabulary, flags.sequence = kSequence;
  const DecoderOptions options = options_of(flags);
  CHECK(!options.tied_head);
  flags.kind = "gpt";
  CHECK((options_of(flags).tied_head && !options_of(flags).head_bias));
  flags.load = "";
  CHECK(options_of(flags).head_bias);
  flags.positions = 4;
  CHECK(error_of([&] { options_of(flags); }) ==
        "--positions is 4, fewer than the 5 of --sequence; give at least as many");
  flags.kind = "llama", flags.head = "tied_bias";
  CHECK(error_of([&] { options_of(flags); }) ==
        "--head is 'tied_bias', but --kind llama has no bias; take tied or own");

  flags.load = "", flags.head = "auto", flags.positions = 0, flags.model = "7B";
  CHECK(!options_of(flags).tied_head);
  flags.kind = "gpt";
  CHECK(error_of([&] { options_of(flags); }) == "--model 7B is a size of --kind llama, not of gpt");

  Task task = language_task(flags, {[decoder = Decoder(options)](const Batch& b) {
                              return decoder.loss(b["tokens"], b["labels"]);
                            }});
  const TensorFile file = file_of("llama");
  task.load = [&](TrainState& state) { load_hugging_face(state, file, options); };
  const Executable executable =
      parallelize(training_step(task.inputs, task.model, kAdam), Serial{}, Cluster::local(1));
  const Run run = train(task, executable, 0, 0);
  CHECK(largest_distance(run.state["tokens.table"].to_host(), file["model.embed_tokens.weight"]) ==
        0);
}

}  // namespace golden_test
