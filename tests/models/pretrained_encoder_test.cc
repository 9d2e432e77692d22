// Folders of BERT, ViT and ResNet of Hugging Face's transformers (scripts/compare_transformers).
#include <alpa/train/safetensors.h>
#include <doctest/doctest.h>

#include <filesystem>
#include <random>
#include <sstream>

#include "alpa/models/decoder_sizes.h"
#include "alpa/models/pretrained_encoder.h"
#include "src/base/file.h"
#include "src/base/json.h"
#include "support/difference.h"
#include "support/error_text.h"
#include "support/golden.h"
#include "support/program.h"
#include "support/temporary_file.h"
#include "support/temporary_folder.h"

namespace pretrained_encoder_test {

using namespace alpa;
using namespace alpa::testing;
namespace fs = std::filesystem;

namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

/// A fixture and the program of its model.
struct Fixture {
  std::string name, program;
};
const Fixture kBert{"bert", "alpa-bert"}, kClasses{"bert-classes", "alpa-bert"},
    kVit{"vit", "alpa-vit"}, kResNet{"resnet", "alpa-wide-resnet"},
    kBasic{"resnet-basic", "alpa-wide-resnet"};

std::string folder_of(const Fixture& fixture) { return golden_path("pretrained/" + fixture.name); }

ProgramOutput run(const Fixture& fixture, Words words, const std::string& folder = "") {
  words.insert(words.begin(), {"--load", folder.empty() ? folder_of(fixture) : folder});
  return run_program(ALPA_PROGRAMS "/" + fixture.program, words);
}

/// How far the program's logits of the fixture's examples are from transformers', as a share of the
/// largest one.
double distance(const Fixture& fixture, const std::string& folder, const Words& more = {}) {
  const TemporaryFile out("pretrained_encoder_test.safetensors", "");
  Words words{"--examples", folder_of(fixture) + "/examples.safetensors", "--logits", out.path()};
  words.insert(words.end(), more.begin(), more.end());
  const ProgramOutput output = run(fixture, words, folder);
  CAPTURE(output.text);
  REQUIRE(output.status == 0);
  const TensorFile expected(folder_of(fixture) + "/expected.safetensors");
  const std::vector<double> logits = expected["logits"].to_doubles(), none(logits.size());
  return largest_distance(TensorFile(out.path())["logits"].to_doubles(), logits) /
         largest_distance(logits, none);
}

/// Words that train on made data, on so many devices.
Words training(const Fixture& fixture, const std::string& steps, const Words& more) {
  Words words{"--data",  "made",    "--backend", "cpu",    "--batch", "4",
              "--quiet", "--steps", steps,       "--seed", "3"};
  if (fixture.name.starts_with("bert")) words.insert(words.end(), {"--sequence", "8"});
  if (fixture.name.starts_with("resnet")) words.insert(words.end(), {"--image", "19"});
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// A copy of a fixture's folder that a test may change.
class Copy {
 public:
  explicit Copy(const Fixture& fixture)
      : fixture_(fixture), folder_("pretrained_encoder_test_" + fixture.name) {
    fs::copy(folder_of(fixture), folder_.path(), fs::copy_options::recursive);
  }
  const std::string& path() const { return folder_.path(); }
  std::string path(const std::string& file) const { return path() + "/" + file; }
  Json config() const {
    return parse_json(read_file(path("config.json"), {"", 1 << 20}), "config.json");
  }
  void set(const std::string& key, const Json& value) const {
    Json json = config();
    json[key] = value;
    write_file(path("config.json"), json.dump());
  }
  models::PretrainedEncoder read() const { return models::read_pretrained_encoder(path()); }
  /// What is wrong with config.json after the member became another one.
  std::string mistake_with(const std::string& key, const Json& value) const {
    const Json before = config();
    set(key, value);
    const std::string text = error_of([&] { read(); }), start = path("config.json") + ": ";
    write_file(path("config.json"), before.dump());
    REQUIRE(text.starts_with(start));
    return text.substr(start.size());
  }
  /// Changes the tensors of the file.
  template <class Change>
  void change_weights(Change&& change) const {
    std::map<std::string, Array> tensors;
    {
      const TensorFile file(path("model.safetensors"));
      for (const std::string& name : file.names()) tensors.emplace(name, file[name].cast(f32));
    }
    change(tensors);
    write_safetensors(path("model.safetensors"), tensors);
  }
  /// The last line that the program prints instead of working, without its name.
  std::string mistake(const Words& words) const {
    const ProgramOutput output = run(fixture_, words, path());
    CAPTURE(output.text);
    CHECK(output.status == 2);
    const std::string start = fixture_.program + ": ";
    const std::size_t at = output.text.find(start);
    REQUIRE(at != output.text.npos);
    CHECK(output.text.find('\n', at) == output.text.size() - 1);
    return output.text.substr(at + start.size(), output.text.size() - 1 - at - start.size());
  }
  std::string mistake_in_training() const {
    return mistake(training(fixture_, "1", {"--devices", "1"}));
  }

 private:
  Fixture fixture_;
  TemporaryFolder folder_;
};

/// Whether two files hold the same tensors, bit for bit, but for counts of batches.
void check_same(const std::string& one, const std::string& other) {
  const TensorFile a(one), b(other);
  std::vector<std::string> names = a.names();
  std::erase_if(names, [](const std::string& name) { return name.ends_with("_tracked"); });
  CHECK(names == b.names());
  for (const std::string& name : names) {
    CAPTURE(name);
    CHECK(a.type(name) == b.type(name));
    CHECK(to_string(a[name]) == to_string(b[name]));
  }
}

}  // namespace

TEST_CASE("a folder's encoder computes transformers' logits") {
  for (const Fixture& fixture : {kBert, kClasses, kVit, kResNet, kBasic}) {
    CAPTURE(fixture.name);
    CHECK(distance(fixture, folder_of(fixture)) < 1e-5);
    const double half = distance(fixture, folder_of(fixture), {"--dtype", "bf16"});
    CHECK(half > 1e-4);
    CHECK(half < 0.05);
  }
}

TEST_CASE("encoders of folders train the same on devices and in stages, and are saved as read") {
  for (const Fixture& fixture : {kBert, kVit, kResNet, kBasic}) {
    CAPTURE(fixture.name);
    const TemporaryFolder saved("pretrained_encoder_test_saved");
    const ProgramOutput read =
        run(fixture, training(fixture, "0", {"--devices", "2", "--save-folder", saved.path()}));
    CAPTURE(read.text);
    REQUIRE(read.status == 0);
    check_same(folder_of(fixture) + "/model.safetensors", saved.path() + "/model.safetensors");
    CHECK(parse_json(read_file(saved.path() + "/config.json", {"", 1 << 20}), "saved") ==
          parse_json(golden_text("pretrained/" + fixture.name + "/config.json"), "fixture"));
    const auto losses = [&](const Words& plan) {
      const TemporaryFile log("pretrained_encoder_test.csv", "");
      Words words = training(fixture, "3", plan);
      words.insert(words.end(), {"--log", log.path(), "--micro-batches", "2"});
      const ProgramOutput output = run(fixture, words);
      CAPTURE(output.text);
      REQUIRE(output.status == 0);
      std::vector<double> losses;
      std::istringstream lines(log.content());
      for (std::string line; std::getline(lines, line);)
        if (std::isdigit(line[0])) losses.push_back(std::stod(line.substr(line.find(',') + 1)));
      REQUIRE(losses.size() == 3);
      return losses;
    };
    const std::vector<double> one = losses({"--devices", "1"});
    CHECK(one[2] != one[0]);
    for (const Words& plan : {Words{"--devices", "2", "--method", "shard"},
                              Words{"--devices", "2", "--method", "pipeline", "--stages", "2"}}) {
      const std::vector<double> other = losses(plan);
      for (std::size_t step = 0; step < 3; ++step)
        CHECK(other[step] == doctest::Approx(one[step]).epsilon(1e-4));
    }
  }
}

TEST_CASE("logits after training are those of the trained weights") {
  const TemporaryFolder saved("pretrained_encoder_test_trained");
  const Words train = training(kVit, "2", {"--devices", "1", "--save-folder", saved.path()});
  const double trained = distance(kVit, "", train);
  CHECK(trained > 1e-3);
  CHECK(distance(kVit, saved.path()) == doctest::Approx(trained).epsilon(1e-5));
}

TEST_CASE("BERT with a head of classes, or with none, is loaded and saved whole") {
  for (const std::string kind : {"BertForSequenceClassification", "BertModel"}) {
    CAPTURE(kind);
    const Copy copy(kClasses);
    copy.set("architectures", {kind});
    if (kind == "BertModel")
      copy.change_weights([](auto& tensors) {
        tensors.erase("classifier.weight"), tensors.erase("classifier.bias");
      });
    const models::PretrainedEncoder folder = copy.read();
    const models::Bert bert(std::get<models::BertOptions>(folder.model));
    const Executable executable =
        parallelize(prediction_step({{"tokens", {i32, {2, 5}}}},
                                    [&](const Batch& b) { return bert(b["tokens"]); }),
                    Serial{}, Cluster::local(1));
    TrainState state = executable.init(0);
    models::load_hugging_face(state, TensorFile(folder.weights), folder.model);
    CHECK(executable.run(state, {{"tokens", Array(std::vector<std::int32_t>(10, 3), {2, 5})}})
              .outputs["prediction"]
              .shape() == (kind == "BertModel" ? Shape{2, 5, 12} : Shape{2, 3}));
    const TemporaryFolder saved("pretrained_encoder_test_saved");
    models::save_pretrained(state, saved.path(), folder);
    // BertModel has no prefix where it was read with one.
    const TensorFile before(folder.weights), after(saved.path() + "/model.safetensors");
    CHECK(before.names().size() == after.names().size());
    for (const std::string& name : before.names()) {
      CAPTURE(name);
      const std::string own = kind == "BertModel" ? name.substr(5) : name;
      REQUIRE(after.contains(own));
      CHECK(to_string(before[name].cast(f32)) == to_string(after[own]));
    }
    CHECK(error_of([&] { models::save_pretrained(state, copy.path(), folder); }) ==
          copy.path() + ": is the folder that the model was read from; give another one");
  }
}

TEST_CASE("BERT's first files are read: other names of norms, no prefix, a head beside the table") {
  const Copy copy(kBert);
  copy.change_weights([](auto& tensors) {
    std::map<std::string, Array> older;
    for (const auto& [name, array] : tensors) {
      std::string now = name.starts_with("bert.") ? name.substr(5) : name;
      if (const auto at = now.find("LayerNorm."); at != now.npos)
        now = now.substr(0, at + 10) + (now.ends_with("bias") ? "beta" : "gamma");
      older.emplace(now, array);
    }
    older.emplace("cls.predictions.decoder.weight", older.at("embeddings.word_embeddings.weight"));
    tensors = std::move(older);
  });
  CHECK(distance(kBert, copy.path()) < 1e-5);
  copy.change_weights([](auto& tensors) {
    tensors.at("cls.predictions.decoder.weight").template mutable_elements_as<float>()[0] += 1;
  });
  CHECK(copy.mistake_in_training() ==
        copy.path("model.safetensors") +
            ": tensor \"cls.predictions.decoder.weight\" is not "
            "\"embeddings.word_embeddings.weight\", but BERT's head is the table of its embedding");
}

TEST_CASE("configurations of other encoders are refused by key") {
  const Copy bert(kBert), vit(kVit), resnet(kResNet);
  CHECK(bert.mistake_with("model_type", "roberta") ==
        "model_type: found \"roberta\", expected \"bert\", \"vit\" or \"resnet\"");
  CHECK(bert.mistake_with("architectures", {"BertForPreTraining"}) ==
        "architectures: found a list, expected [\"BertForMaskedLM\"] or [\"BertModel\"] or "
        "[\"BertForSequenceClassification\"]");
  CHECK(bert.mistake_with("hidden_act", "relu") ==
        "hidden_act: found \"relu\", expected \"gelu\" or \"gelu_new\" or \"gelu_pytorch_tanh\"");
  CHECK(bert.mistake_with("position_embedding_type", "relative_key") ==
        "position_embedding_type: found \"relative_key\", expected \"absolute\"");
  CHECK(bert.mistake_with("is_decoder", true) == "is_decoder: found true, expected false");
  CHECK(bert.mistake_with("add_cross_attention", true) ==
        "add_cross_attention: found true, expected false");
  CHECK(bert.mistake_with("tie_word_embeddings", false) ==
        "tie_word_embeddings: found false, expected true");
  CHECK(bert.mistake_with("num_attention_heads", 5) ==
        "num_attention_heads: found 5, expected a divisor of the width 12");
  CHECK(bert.mistake_with("layer_norm_eps", 0) ==
        "layer_norm_eps: found 0, expected a number above 0");
  CHECK(vit.mistake_with("patch_size", 5) ==
        "patch_size: found 5, expected a divisor of image_size, 12");
  CHECK(vit.mistake_with("qkv_bias", 1) == "qkv_bias: found 1, expected true or false");
  CHECK(vit.mistake_with("id2label", Json::object()) ==
        "id2label: found an object, expected a name for each label");
  CHECK(resnet.mistake_with("hidden_act", "gelu") ==
        "hidden_act: found \"gelu\", expected \"relu\"");
  CHECK(resnet.mistake_with("layer_type", "inverted") ==
        "layer_type: found \"inverted\", expected \"basic\" or \"bottleneck\"");
  CHECK(resnet.mistake_with("hidden_sizes", {16, 48}) ==
        "hidden_sizes: found a list, expected [16, 32], 4 times embedding_size and doubled from "
        "stage to stage");
  const std::string depths =
      fmt::format("depths: found a list, expected 1 to 8 numbers from 1, together at most {}",
                  models::kMostBlocks);
  CHECK(resnet.mistake_with("depths", {1, 0}) == depths);
  CHECK(resnet.mistake_with("depths", {models::kMostBlocks, 1}) == depths);
}

TEST_CASE("mutated configurations of encoders are read, or refused in a line") {
  const TemporaryFolder folder("pretrained_encoder_test_mutated");
  std::mt19937 random(5);
  const auto below = [&](std::size_t most) { return static_cast<std::size_t>(random() % most); };
  int read = 0, refused = 0;
  for (const Fixture& fixture : {kBert, kClasses, kVit, kResNet, kBasic}) {
    const Copy copy(fixture);
    const std::string path = copy.path("config.json"),
                      config = golden_text("pretrained/" + fixture.name + "/config.json");
    for (int i = 0; i < 250; ++i) {
      std::string text = config;
      for (std::size_t change = 0; change <= below(3); ++change) {
        const std::size_t at = below(text.size());
        const std::size_t digit = text.find_first_of("0123456789", at);
        if (below(2) == 0 && digit != text.npos)
          text[digit] = "0123456789-.e"[below(13)];
        else if (below(3) == 0)
          text.erase(at, 1 + below(8));
        else
          text[at] = "0123456789[]{}\"':,tfn"[below(22)];
      }
      write_file(path, text);
      CAPTURE(text);
      try {
        const WeightMap names = models::hugging_face_names(copy.read().model);
        CHECK(!names.empty());
        ++read;
      } catch (const Error& error) {
        const std::string mistake = error.what();
        CHECK(mistake.starts_with(path + ": "));
        CHECK(mistake.find('\n') == mistake.npos);
        ++refused;
      }
    }
  }
  CHECK(read > 200);
  CHECK(refused > 200);
}

TEST_CASE("folders that do not fit are refused before any work") {
  const Copy bert(kBert), classes(kClasses), vit(kVit), resnet(kResNet);
  const std::string file = "model.safetensors";
  bert.set("num_hidden_layers", 1);
  CHECK(bert.mistake_in_training() ==
        bert.path(file) +
            ": has tensor \"bert.encoder.layer.1.attention.output.LayerNorm.bias\", "
            "which the model of config.json lacks");
  resnet.set("depths", {1, 1});
  CHECK(resnet.mistake_in_training().starts_with(
      resnet.path(file) + ": has tensor \"resnet.encoder.stages.1.layers.1."));
  vit.set("id2label", {{"0", "a"}, {"1", "b"}});
  CHECK(
      vit.mistake_in_training() ==
      "weight map: parameter \"head.kernel\": is f32[12, 2], but tensor \"classifier.weight\" of " +
          vit.path(file) + " is f32[5, 12], to be transposed");
  vit.set("patch_size", 6);
  CHECK(vit.mistake_in_training() ==
        "weight map: parameter \"embedding.positions\": is f32[1, 5, 12], but tensor "
        "\"vit.embeddings.position_embeddings\" of " +
            vit.path(file) + " is f32[1, 10, 12]");
  CHECK(classes.mistake_in_training() ==
        "--load " + classes.path() +
            ": is no BertForMaskedLM, so it is not trained to find hidden tokens; give --examples "
            "and --logits alone");
}

TEST_CASE("flags beside a folder of an encoder are checked") {
  const Copy bert(kBert), vit(kVit);
  const std::string decided = " has no effect beside --load ",
                    why = ", whose config.json decides it";
  CHECK(bert.mistake({"--vocabulary", "40"}) == "--vocabulary" + decided + bert.path() + why);
  CHECK(vit.mistake({"--image", "12"}) == "--image" + decided + vit.path() + why);
  CHECK(bert.mistake({"--logits", "x"}) == "--logits has no effect without --examples");
  CHECK(bert.mistake({"--examples", "x"}) == "--examples has no effect without --logits");
  CHECK(bert.mistake({"--steps", "1", "--mask-token", "40"}) ==
        "--mask-token is 40, but there are 40 tokens");
  CHECK(bert.mistake({"--sequence", "17"}) == "--sequence is 17, but " + bert.path() +
                                                  "/config.json has 16 positions; give at most as "
                                                  "many");
  CHECK(bert.mistake({"--save-folder", bert.path()}) ==
        bert.path() + ": is the folder that the model was read from; give another one");
  const ProgramOutput other = run(kVit, {}, bert.path());
  CHECK(other.text == "alpa-vit: --load " + bert.path() +
                          ": holds another model; alpa-bert loads folders of BERT, alpa-vit of "
                          "ViT, alpa-wide-resnet of ResNet\n");
  const ProgramOutput alone = run_program(ALPA_PROGRAMS "/alpa-vit", {"--examples", "x"});
  CHECK(alone.text == "alpa-vit: --examples has no effect without --load\n");
}

TEST_CASE("examples that the model cannot read are refused") {
  const Copy bert(kBert), vit(kVit);
  const TemporaryFile file("pretrained_encoder_test_in.safetensors", "");
  const auto mistake = [&](const Copy& copy, const std::map<std::string, Array>& tensors) {
    write_safetensors(file.path(), tensors);
    return copy.mistake({"--examples", file.path(), "--logits", "never.safetensors"});
  };
  const Array tokens(std::vector<std::int32_t>{1, 40}, {1, 2});
  CHECK(mistake(bert, {{"input_ids", tokens}}) ==
        file.path() +
            ": has tensor \"input_ids\", but the model reads tokens, key_mask, "
            "token_types");
  CHECK(mistake(bert, {{"key_mask", tokens}}).find("\"tokens\"") != std::string::npos);
  CHECK(mistake(bert, {{"tokens", tokens}}).find("40") != std::string::npos);
  CHECK(mistake(bert, {{"tokens", Array(TensorType{i32, {1, 17}})}}) ==
        "models::Bert: tokens are i32[1, 17]; they must be [B, T] with T at most 16");
  CHECK(mistake(vit, {{"images", Array(TensorType{f32, {1, 8, 8, 3}})}}) ==
        "Vit: has positions of images of 12 rows and columns, but images are f32[1, 8, 8, 3]");
}

}  // namespace pretrained_encoder_test
