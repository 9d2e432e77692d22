// GGUF files (tests/golden/gguf/make.py), which llama.cpp writes and reads.
#include <alpa/models/gguf.h>
#include <alpa/models/hugging_face.h>
#include <doctest/doctest.h>

#include <cmath>

#include "src/base/file.h"
#include "src/base/json.h"
#include "src/train/gguf_file.h"
#include "support/difference.h"
#include "support/golden.h"
#include "support/program.h"
#include "support/temporary_file.h"

namespace gguf_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

using Json = nlohmann::ordered_json;
using Words = std::vector<std::string>;

std::string file_of(const std::string& name) { return golden_path("gguf/" + name); }

ProgramOutput gpt(const Words& words) { return run_program(ALPA_PROGRAMS "/alpa-gpt", words); }

/// Writes the logits of a prompt to `out`, and returns what is printed.
std::string print_text(const std::string& model, const std::string& prompt,
                       const std::string& out) {
  const ProgramOutput output = gpt({"--load", model, "--prompt", prompt, "--generate", "12",
                                    "--temperature", "0", "--logits", out});
  CHECK(output.status == 0);
  return output.text;
}

/// Largest difference of the logits, as a share of the largest one.
double distance(const std::string& found_path, const std::string& expected_path) {
  const TensorFile found(found_path), expected(expected_path);
  CHECK(largest_distance(found["tokens"], expected["tokens"]) == 0);
  const Array& logits = expected["logits"];
  return largest_distance(found["logits"], logits) /
         largest_distance(logits,
                          Array(std::vector<float>(static_cast<std::size_t>(logits.elements())),
                                logits.shape()));
}

/// A file of Llama's with one more block of metadata; null removes a key.
class Changed {
 public:
  explicit Changed(const Json& changes) : file_("gguf_test_changed.gguf", "") {
    const GgufFile llama(file_of("llama.gguf"));
    Json metadata = Json::object();
    for (const auto& [key, value] : llama.metadata().items()) metadata[key] = value;
    for (const auto& [key, value] : changes.items())
      if (value.is_null())
        metadata.erase(key);
      else
        metadata[key] = value;
    std::vector<GgufPart> parts;
    for (const GgufTensor& tensor : llama.tensors())
      parts.push_back(
          {tensor.name, tensor.type, tensor.shape, gguf_encoded(tensor.read(), *tensor.type)});
    write_gguf(file_.path(), metadata, parts);
  }
  const std::string& path() const { return file_.path(); }
  /// The mistake of the model, and of the tokenizer, without the file's name.
  std::string of_model() const {
    return rest(error_of([&] { models::read_pretrained(path()); }));
  }
  std::string of_tokenizer() const {
    return rest(error_of([&] { Tokenizer::of_folder(path()); }));
  }

 private:
  std::string rest(const std::string& error) const {
    REQUIRE(error.starts_with(path()));
    return error.substr(path().size());
  }
  TemporaryFile file_;
};

/// The mistake of a file's bytes, without its name.
std::string mistake(const std::string& bytes) {
  const TemporaryFile file("gguf_test_bytes.gguf", bytes);
  const std::string error = error_of([&] { models::read_pretrained(file.path()); });
  REQUIRE(error.starts_with(file.path() + ": "));
  return error.substr(file.path().size() + 2);
}

}  // namespace

TEST_CASE("every element type is read as ggml's own package reads it") {
  const TensorFile types(file_of("types.gguf")), expected(file_of("types.safetensors"));
  CHECK(types.names() == expected.names());
  for (const std::string& name : types.names()) {
    CAPTURE(name);
    CHECK(types[name].to_doubles() == expected[name].to_doubles());
  }
}

TEST_CASE("models of llama.cpp's converter compute what transformers computes") {
  const TemporaryFile out("gguf_test.safetensors", "");
  // Rows of Llama's heads are in another order there; its frequencies are a tensor.
  const std::string text = print_text(file_of("llama.gguf"), "A plan", out.path());
  const auto expected = parse_json(golden_text("pretrained/llama/expected.json"), "expected.json");
  CHECK(text == "generated   " + expected.at("generated").get<std::string>() + "\n");
  CHECK(distance(out.path(), golden_path("pretrained/llama/expected.safetensors")) < 1e-5);
  // 1 is added to Gemma's norms there.
  print_text(file_of("gemma2.gguf"), "A plan of all", out.path());
  CHECK(distance(out.path(), file_of("gemma2.safetensors")) < 1e-5);
}

TEST_CASE("models of folders are the same behind a GGUF file, with their tokenizers") {
  const TemporaryFile file("gguf_test_saved.gguf", ""), out("gguf_test.safetensors", "");
  for (const auto& [model, prompt] : {std::pair<std::string, std::string>("gpt2", "A plan"),
                                      {"llama", "A plan"},
                                      {"mixtral", "A plan of extraordinary length"}}) {
    CAPTURE(model);
    const std::string folder = golden_path("pretrained/" + model);
    const ProgramOutput saved = gpt({"--load", folder, "--steps", "0", "--method", "serial",
                                     "--quiet", "--save", file.path(), "--save-type", "f32"});
    CAPTURE(saved.text);
    CHECK(saved.status == 0);
    const auto expected =
        parse_json(golden_text("pretrained/" + model + "/expected.json"), "expected.json");
    CHECK(print_text(file.path(), prompt, out.path()) ==
          "generated   " + expected.at("generated").get<std::string>() + "\n");
    CHECK(distance(out.path(), folder + "/expected.safetensors") < 1e-5);
  }
}

TEST_CASE("what is loaded from llama.cpp's converter is written as it was") {
  const models::Pretrained model = models::read_pretrained(file_of("llama.gguf"));
  const TrainingStep step = prediction_step({{"tokens", {i32, {1, 4}}}}, [&](const Batch& b) {
    return models::Decoder(model.decoder)(b["tokens"]);
  });
  TrainState state = parallelize(step, Serial{}, Cluster::local(1)).init(0);
  models::load_hugging_face(state, TensorFile(model.weights), model.decoder);
  const TemporaryFile saved("gguf_test_saved.gguf", "");
  models::save_gguf(state, saved.path(), model, models::GgufType::f32);
  const GgufFile given(file_of("llama.gguf")), written(saved.path());
  CHECK(given.tensors().size() == written.tensors().size());
  for (const GgufTensor& tensor : given.tensors()) {
    CAPTURE(tensor.name);
    const GgufTensor* const again = written.find(tensor.name);
    REQUIRE(again != nullptr);
    CHECK(tensor.shape == again->shape);
    CHECK(largest_distance(tensor.read(), again->read()) < 1e-6);
  }
  for (const auto& [key, value] : written.metadata().items())
    if (key != "general.file_type") {
      CAPTURE(key);
      CHECK(given.metadata().at(key) == value);
    }
}

TEST_CASE("Q8_0 keeps elements to 1/254 of the largest of their 32, and halves' rounding") {
  std::vector<float> elements;
  for (int i = 0; i < 64; ++i)
    elements.push_back(std::sin(static_cast<float>(i)) * (i < 32 ? 1 : 100));
  const GgufElement& type = *gguf_type("Q8_0");
  const TemporaryFile file("gguf_test_q8.gguf", "");
  const Array given(elements, {2, 32});
  write_gguf(file.path(), {{"general.architecture", "none"}},
             {{"x", &type, given.shape(), gguf_encoded(given, type)}});
  const std::vector<double> read = TensorFile(file.path())["x"].to_doubles();
  for (std::size_t i = 0; i < elements.size(); ++i) {
    const double largest = i < 32 ? 1 : 100;
    CHECK(std::abs(read[i] - elements[i]) < largest * (1.0 / 254 + 1.0 / 2048));
  }
}

TEST_CASE("a file of another decoder, or of no decoder, is refused by key") {
  CHECK(Changed(Json{{"general.architecture", "bert"}}).of_model() ==
        ": bert.block_count is missing");
  CHECK(Changed(Json{{"general.architecture", nullptr}}).of_model() ==
        ": general.architecture is missing");
  CHECK(Changed(Json{{"llama.attention.head_count", 3U}}).of_model() ==
        ", as config.json: num_key_value_heads: found 2, expected a divisor of the 3 heads");
  CHECK(Changed(Json{{"llama.rope.freq_base", 2.0}}).of_model() ==
        ": tensor \"rope_freqs.weight\": its factors are not of Llama 3.1's scaling, which alone "
        "alpa has");
}

TEST_CASE("other tokenizers are refused, saying what to give instead") {
  CHECK(Changed(Json{{"tokenizer.ggml.model", "t5"}}).of_tokenizer() ==
        ": tokenizer.ggml.model: found \"t5\", expected \"gpt2\" or \"llama\"; give --tokenizer "
        "a folder with tokenizer.json");
  CHECK(Changed(Json{{"tokenizer.ggml.pre", "other"}})
            .of_tokenizer()
            .starts_with(": tokenizer.ggml.pre: found \"other\", expected one of gpt-2, "));
  CHECK(Changed(Json{{"tokenizer.ggml.token_type", {1, 2}}}).of_tokenizer() ==
        ": tokenizer.ggml.token_type: has 2 types of 304 tokens");
  CHECK(Changed(Json{{"tokenizer.ggml.bos_token_id", 304U}}).of_tokenizer() ==
        ": tokenizer.ggml.bos_token_id: found 304, expected a whole number from 0 to 303");
}

TEST_CASE("damaged files are refused, naming the byte") {
  const std::string whole = read_file(file_of("types.gguf"), {"", 1 << 20});
  CHECK(mistake("GGML") == "at byte 4: is no GGUF file: it begins with \"GGML\"");
  CHECK(mistake("GGUF") ==
        "at byte 4: the file is truncated: the version takes 4 bytes, 0 are "
        "left");
  std::string old = whole;
  old[4] = 1;
  CHECK(mistake(old) ==
        "at byte 8: has version 1, but 2 and 3 are read, little endian; convert it anew");
  std::string cut = whole.substr(0, whole.size() - 40);
  CHECK(mistake(cut).find("are not in the file") != std::string::npos);
  CHECK(mistake(whole.substr(0, 60)).find("the file is truncated: ") != std::string::npos);
}

TEST_CASE("a decoder that GGUF cannot hold is refused before the training") {
  const std::string gemma = golden_path("pretrained/gemma3"),
                    llama = golden_path("pretrained/llama");
  CHECK(error_of([&] {
          models::check_save_gguf("x.gguf", models::read_pretrained(gemma));
        }).starts_with("GGUF cannot hold this decoder: its scale of the scores would become "));
  CHECK(gpt({"--load", llama, "--steps", "1", "--save", "x.safetensors", "--save-type", "f16"})
            .text == "alpa-gpt: --save-type has no effect without --save FILE.gguf\n");
  const std::string path = file_of("llama.gguf");
  CHECK(error_of([&] { models::check_save_gguf(path, models::read_pretrained(path)); }) ==
        excerpt(path) + ": is the file that the model was read from; give another one");
  CHECK(gpt({"--load", path, "--hidden", "8"}).text.find("whose metadata decides it") !=
        std::string::npos);
}

}  // namespace gguf_test
