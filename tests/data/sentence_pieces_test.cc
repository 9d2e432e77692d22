// SentencePiece's tokenizer.model: against its own program, and against Hugging Face's tokenizers
// (tests/golden/sentencepiece/make.py).
#include <doctest/doctest.h>

#include <filesystem>

#include "alpa/data/text.h"
#include "src/base/file.h"
#include "src/base/json.h"
#include "src/train/gguf_file.h"
#include "support/error_text.h"
#include "support/golden.h"
#include "support/temporary_file.h"
#include "support/temporary_folder.h"

namespace sentence_pieces_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

using Json = nlohmann::json;
using Ids = std::vector<std::int32_t>;

std::string model(const std::string& name) { return golden_text("sentencepiece/" + name); }

Json rows(const char* name) { return parse_json(model("encoded.json"), "encoded").at(name); }

/// A folder with this tokenizer.model and tokenizer_config.json, if any.
Tokenizer read(const std::string& content, const std::string& config = "") {
  const TemporaryFolder folder("sentence_pieces_test_folder");
  std::filesystem::create_directories(folder.path());
  write_file(folder.path() + "/tokenizer.model", content);
  if (!config.empty()) write_file(folder.path() + "/tokenizer_config.json", config);
  return Tokenizer::of_folder(folder.path());
}

Tokenizer read_json(const Json& json) {
  const TemporaryFile file("sentence_pieces_test.json", json.dump());
  return Tokenizer::hugging_face(file.path());
}

/// The mistake of a model, without the file's name.
std::string mistake(const std::string& content) {
  const std::string error = error_of([&] { read(content); }), end = "tokenizer.model: ";
  REQUIRE(error.find(end) != error.npos);
  return error.substr(error.find(end) + end.size());
}

/// Field `number` of a message: bytes, or a small whole number.
std::string field(int number, const std::string& bytes) {
  std::string key(1, static_cast<char>((number & 0xF) << 3 | 2));
  if (number > 15) key[0] = static_cast<char>(key[0] | 0x80), key += static_cast<char>(number >> 4);
  return key + static_cast<char>(bytes.size()) + bytes;
}
std::string field(int number, char value) {
  std::string text = field(number, std::string());
  text[0] = static_cast<char>(text[0] & ~7), text.back() = value;
  return text;
}

const std::string kPiece = field(1, field(1, "a"));

}  // namespace

TEST_CASE("texts become the tokens of SentencePiece, and come back from them") {
  for (const char* name : {"pairs", "unigram"}) {
    CAPTURE(name);
    const Tokenizer tokenizer = read(model(name + std::string(".model")));
    const Json expected = rows(name);
    CHECK(expected.size() == 132);
    for (const Json& row : expected) {
      CAPTURE(row.at("text").dump());
      const Ids tokens = tokenizer.encode(row.at("text").get<std::string>());
      CHECK(tokens == row.at("tokens").get<Ids>());
      std::string back = tokenizer.decode(tokens);
      for (std::size_t at = 0; (at = back.find("<unk>")) != back.npos;)  // of SentencePiece's form
        back.replace(at, 5, " \xe2\x81\x87 ");
      CHECK(back == row.at("back").get<std::string>());
    }
  }
}

TEST_CASE("the same pairs in tokenizer.json become the tokens of Hugging Face's tokenizers") {
  Json json = parse_json(model("tokenizer.json"), "tokenizer");
  const auto check = [&](const Json& expected) {
    const Tokenizer tokenizer = read_json(json);
    for (const Json& row : expected) {
      CAPTURE(row.at("text").dump());
      const auto text = row.at("text").get<std::string>();
      CHECK(tokenizer.encode_whole(text) == row.at("tokens").get<Ids>());
      if (text.find("\u2581") == text.npos)  // which comes back as a space
        CHECK(tokenizer.decode(tokenizer.encode("A plan: " + text)) == "A plan: " + text);
    }
  };
  check(rows("tokenizers"));
  json["normalizer"] = nullptr;
  json["pre_tokenizer"] = {{"type", "Metaspace"},
                           {"replacement", "\u2581"},
                           {"prepend_scheme", "first"},
                           {"split", false}};
  check(rows("first"));
}

TEST_CASE("added tokens take the white space beside them as in Hugging Face's tokenizers") {
  Json json = parse_json(model("tokenizer.json"), "tokenizer.json");
  struct Added {
    int id;
    const char* text;
    bool left, right;
  };
  for (const Added& added :
       {Added{3, "<|user|>", false, true}, {4, "<|end|>", true, true}, {480, "  ", false, false}}) {
    Json row = json.at("added_tokens").at(0);
    row.update({{"id", added.id},
                {"content", added.text},
                {"lstrip", added.left},
                {"rstrip", added.right}});
    json.at("added_tokens").push_back(row);
  }
  const Tokenizer tokenizer = read_json(json);
  for (const Json& row : rows("stripped")) {
    CAPTURE(row.at("text"));
    CHECK(tokenizer.encode_whole(row.at("text").get<std::string>()) == row.at("tokens").get<Ids>());
  }
}

TEST_CASE("tokens around a text are those of tokenizer_config.json, by default the first") {
  const std::string pairs = model("pairs.model");
  const Tokenizer plain = read(pairs);
  CHECK(plain.encode_whole("") == Ids{1});
  CHECK(plain.find("<s>") == 1);
  CHECK(read(pairs, R"({"add_bos_token": false, "add_eos_token": true})").encode_whole("") ==
        Ids{2});
  // Control symbols are found in a text, each part of which begins with a space of its own.
  Ids parts = plain.encode("a");
  parts.push_back(2);
  parts.insert(parts.end(), parts.begin(), parts.end() - 1);
  CHECK(plain.encode("a</s>a") == parts);
}

TEST_CASE("bytes that are no UTF-8 are kept where every byte has a token") {
  const Tokenizer tokenizer = read(model("pairs.model"));
  const std::string text = "a \xff\xc3 b";
  CHECK(tokenizer.decode(tokenizer.encode(text)) == text);
  CHECK(tokenizer.decode(tokenizer.encode("a plan"), false) == " a plan");
}

TEST_CASE("a GGUF file with pieces and scores has the same tokens") {
  const TemporaryFile file("sentence_pieces_test.gguf", "");
  const Json tokenizer = parse_json(model("tokenizer.json"), "tokenizer");
  const Json& vocabulary = tokenizer.at("model").at("vocab");
  std::vector<std::string> texts(vocabulary.size());
  for (const auto& [text, token] : vocabulary.items()) texts[token.get<std::size_t>()] = text;
  nlohmann::ordered_json types = nlohmann::ordered_json::array(), scores = types;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const bool byte = texts[i].starts_with("<0x");
    types.push_back(i == 0 ? 2 : i < 3 ? 3 : i < 5 ? 4 : byte ? 6 : 1);
    scores.push_back(-static_cast<double>(i));
  }
  write_gguf(file.path(),
             {{"tokenizer.ggml.model", "llama"},
              {"tokenizer.ggml.tokens", texts},
              {"tokenizer.ggml.scores", scores},
              {"tokenizer.ggml.token_type", types},
              {"tokenizer.ggml.bos_token_id", 1U}},
             {});
  const Tokenizer of_file = Tokenizer::of_folder(file.path()),
                  of_model = read(model("pairs.model"));
  for (const Json& row : rows("pairs")) {
    const auto text = row.at("text").get<std::string>();
    CHECK(of_file.encode_whole(text) == of_model.encode_whole(text));
  }
}

TEST_CASE("damaged models, and what alpa lacks, are refused") {
  CHECK(mistake("") == "has 0 pieces; expected 1 to 1048576");
  const std::string damaged = "is no model of SentencePiece, or is cut off; get the file again";
  CHECK(mistake("not a model") == damaged);
  const std::string pairs = model("pairs.model");
  CHECK(mistake(pairs.substr(0, pairs.size() - 9)) == damaged);
  CHECK(mistake(kPiece + kPiece + field(1, "")) == "piece 2 is empty");
  CHECK(mistake(kPiece + field(2, field(3, '\3'))) ==
        "trainer_spec.model_type: found 3, expected 1, unigram, or 2, byte pairs");
  CHECK(mistake(kPiece + field(2, field(24, '\1'))) ==
        "trainer_spec.treat_whitespace_as_suffix: found true, expected false; alpa has nothing "
        "else");
  CHECK(mistake(kPiece + field(3, field(5, '\0'))) ==
        "normalizer_spec.escape_whitespaces: found false, expected true; alpa has nothing else");
  CHECK(mistake(kPiece + field(3, field(2, "\x08"))) ==
        "normalizer_spec.precompiled_charsmap: is damaged; get the file again");
  CHECK(mistake(field(1, field(1, "a") + "\x15" + std::string("\0\0\x80\x7f", 4))) ==
        "piece 'a' has score inf; expected a number");
}

}  // namespace sentence_pieces_test
