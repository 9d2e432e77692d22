// BERT's tokenizer.json: against Hugging Face's tokenizers (tests/golden/wordpiece/make.py).
#include <doctest/doctest.h>

#include "alpa/data/text.h"
#include "src/base/file.h"
#include "src/base/json.h"
#include "support/error_text.h"
#include "support/golden.h"
#include "support/temporary_file.h"

namespace word_pieces_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

using Json = nlohmann::json;
using Ids = std::vector<std::int32_t>;

constexpr const char* kName = "word_pieces_test.json";

Json file() { return parse_json(golden_text("wordpiece/tokenizer.json"), "wordpiece"); }

Tokenizer read(const Json& json) {
  const TemporaryFile file(kName, json.dump());
  return Tokenizer::hugging_face(file.path());
}

/// The mistake of the file with another value at `pointer`, without the file's name.
std::string mistake_at(const std::string& pointer, const Json& value) {
  Json json = file();
  json[Json::json_pointer(pointer)] = value;
  const std::string error = error_of([&] { read(json); }), start = std::string(kName) + ": ";
  REQUIRE(error.starts_with(start));
  return error.substr(start.size());
}

}  // namespace

TEST_CASE("texts become the word pieces of Hugging Face's tokenizers, and come back from them") {
  const Json rows = parse_json(golden_text("wordpiece/encoded.json"), "encoded");
  CHECK(rows.size() == 300);
  std::map<std::string, Tokenizer> tokenizers;
  for (const Json& row : rows) {
    const std::string form = row.at("form").dump();
    if (!tokenizers.contains(form)) {
      Json json = file();
      json.at("normalizer").update(row.at("form"));
      tokenizers.emplace(form, read(json));
    }
    const Tokenizer& tokenizer = tokenizers.at(form);
    CAPTURE(form);
    CAPTURE(row.at("text").dump());
    const Ids tokens = tokenizer.encode_whole(row.at("text").get<std::string>());
    CHECK(tokens == row.at("tokens").get<Ids>());
    CHECK(tokenizer.decode(tokens) == row.at("back").get<std::string>());
  }
  CHECK(tokenizers.size() == 5);
}

TEST_CASE("the tokens of BERT's first files are put around a text, too") {
  Json json = file();
  json["post_processor"] = {
      {"type", "BertProcessing"}, {"sep", {"[SEP]", 3}}, {"cls", {"[CLS]", 2}}};
  const Tokenizer tokenizer = read(json);
  CHECK(tokenizer.encode_whole("") == Ids{2, 3});
  CHECK(tokenizer.encode("") == Ids{});
  CHECK(tokenizer.find("[MASK]") == 4);
  CHECK(tokenizer.decode(tokenizer.encode("A plan"), false) == " a plan");
}

TEST_CASE("bytes that are no UTF-8 are not seen") {
  const Tokenizer tokenizer = read(file());
  CHECK(tokenizer.encode("pl\xff"
                         "an") == tokenizer.encode("plan"));
}

TEST_CASE("what alpa lacks of word pieces is refused") {
  CHECK(mistake_at("/model/unk_token", "?!") ==
        "model.unk_token: found \"?!\", expected a token of model.vocab");
  CHECK(
      mistake_at("/normalizer/type", "NFKC") ==
      "normalizer.type: found \"NFKC\", expected \"BertNormalizer\" or \"NFC\", or no normalizer");
  CHECK(mistake_at("/pre_tokenizer/type", "Whitespace") ==
        "pre_tokenizer: expected a \"BertPreTokenizer\" beside WordPiece");
  CHECK(mistake_at("/decoder/type", "ByteLevel") ==
        "decoder.type: found \"ByteLevel\", expected \"WordPiece\"");
  CHECK(mistake_at("/model/max_input_chars_per_word", 0) ==
        "model.max_input_chars_per_word: found 0, expected a whole number from 1 to 1048576");
  CHECK(mistake_at("/post_processor", {{"type", "BertProcessing"}, {"cls", {"[CLS]"}}}) ==
        "post_processor.cls: expected a text and a number");
}

}  // namespace word_pieces_test
