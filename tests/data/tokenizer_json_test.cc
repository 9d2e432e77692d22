// tokenizer.json: against Hugging Face's tokenizers (scripts/compare_transformers), and mistakes.
#include <doctest/doctest.h>

#include <filesystem>

#include "alpa/data/text.h"
#include "src/base/file.h"
#include "src/base/json.h"
#include "support/error_text.h"
#include "support/golden.h"
#include "support/temporary_file.h"

namespace tokenizer_json_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

using Json = nlohmann::json;
using Ids = std::vector<std::int32_t>;

constexpr const char* kName = "tokenizer_json_test.json";

std::string folder_of(const std::string& model) { return golden_path("pretrained/" + model); }

Json tokenizer_of(const std::string& model) {
  return parse_json(golden_text("pretrained/" + model + "/tokenizer.json"), model);
}

/// The tokenizer of a changed file.
Tokenizer read(const Json& json) {
  const TemporaryFile file(kName, json.dump());
  return Tokenizer::hugging_face(file.path());
}

/// The mistake of Llama's file after a change, without the file's name.
template <class Change>
std::string mistake(Change change) {
  Json json = tokenizer_of("llama");
  change(json);
  const std::string error = error_of([&] { read(json); }), start = std::string(kName) + ": ";
  REQUIRE(error.starts_with(start));
  return error.substr(start.size());
}

/// The same after the value at `pointer` became another.
std::string mistake_at(const std::string& pointer, const Json& value) {
  return mistake([&](Json& json) { json.at(Json::json_pointer(pointer)) = value; });
}

}  // namespace

TEST_CASE("texts become the tokens of Hugging Face's tokenizers, and come back from them") {
  for (const char* model : {"gpt2", "llama"}) {
    CAPTURE(model);
    const Tokenizer tokenizer = Tokenizer::of_folder(folder_of(model));
    const std::string text = golden_text("pretrained/" + std::string(model) + "/expected.json");
    const Json expected = parse_json(text, model);
    CHECK(expected.at("texts").size() == 14);
    for (const Json& row : expected.at("texts")) {
      const auto given = row.at("text").get<std::string>();
      CAPTURE(given);
      const Ids whole = tokenizer.encode_whole(given), tokens = tokenizer.encode(given);
      CHECK(whole == row.at("tokens").get<Ids>());
      CHECK(tokenizer.decode(tokens) == given);
      const std::string start = model == std::string("llama") ? "<|start|>" : "";
      CHECK(tokenizer.decode(whole) == start + given);
    }
  }
}

TEST_CASE("merges are texts or pairs, and an added token may be found after the others") {
  Json json = tokenizer_of("gpt2");
  const Tokenizer texts = read(json);
  CHECK(json.at("/model/merges/0"_json_pointer).is_string());
  for (Json& merge : json.at("model").at("merges")) {
    const auto both = merge.get<std::string>();
    merge = {both.substr(0, both.find(' ')), both.substr(both.find(' ') + 1)};
  }
  const std::string text = "the planner's  devices, <|end|>\n";
  CHECK(read(json).encode(text) == texts.encode(text));
  json.at("model").erase("type");  // as in GPT-2's own file
  CHECK(read(json).encode(text) == texts.encode(text));
  // The second of two that overlap begins first, but normalised ones are found in what is left.
  Json& added = json.at("added_tokens");
  for (const auto& [content, normalized] : {std::pair("xab", true), std::pair("abc", false)}) {
    Json row = added.at(0);
    row.at("id") = 400 + static_cast<int>(added.size());
    row.at("content") = content, row.at("normalized") = normalized;
    added.push_back(row);
  }
  const Tokenizer both = read(json);
  CHECK(both.vocabulary() == 405);
  CHECK(both.encode("xabc") == Ids{both.find("x").value(), 404});
  CHECK(both.encode("xab") == Ids{403});
}

TEST_CASE("a template may put tokens before and behind a text") {
  Json json = tokenizer_of("llama");
  Json& single = json.at("/post_processor/processors/1/single"_json_pointer);
  single.push_back(single.at(0));
  const Tokenizer tokenizer = read(json);
  CHECK(tokenizer.decode(tokenizer.encode_whole("a plan")) == "<|start|>a plan<|start|>");
  CHECK(tokenizer.decode(tokenizer.encode_whole("")) == "<|start|><|start|>");
  CHECK(tokenizer.encode("") == Ids{});
}

TEST_CASE("what is not UTF-8 is encoded byte by byte, and shown as U+FFFD") {
  const Tokenizer tokenizer = Tokenizer::of_folder(folder_of("llama"));
  const std::string text = "a\xff\xe4\xb8 b\xf0\x9f\x98";
  CHECK(tokenizer.decode(tokenizer.encode(text)) == text);
  const std::string mark = "\xef\xbf\xbd";
  CHECK(valid_utf8(text) == "a" + mark + mark + " b" + mark);
  CHECK(valid_utf8("\xe4\xb8\xad\xf0\x9f\x98\x80 z") == "\xe4\xb8\xad\xf0\x9f\x98\x80 z");
  CHECK(valid_utf8("\xed\xa0\x80\xc0\xaf\xf4\x90") ==
        mark + mark + mark + mark + mark + mark + mark);
  CHECK(valid_utf8("\xe0\x80\xf4\x8f\xbf") == mark + mark + mark);
}

TEST_CASE("a folder must have the files of a tokenizer") {
  CHECK(error_of([] { Tokenizer::of_folder("/nowhere"); }) ==
        "/nowhere: has neither tokenizer.json, nor tokenizer.model, nor vocab.json with "
        "merges.txt");
  const Tokenizer pairs = Tokenizer::of_folder(golden_path("bpe"));
  CHECK(pairs.encode_whole("the plan") == pairs.encode("the plan"));
}

TEST_CASE("the normal form NFC is taken between added tokens that are found before it") {
  Json json = tokenizer_of("llama");
  const Tokenizer plain = read(json);
  json["normalizer"] = {{"type", "NFC"}};
  const Tokenizer composing = read(json);
  const std::pair<std::string, std::string> forms[] = {
      {"the plan", "the plan"},
      {"cafe\u0301\ne\u0301", "caf\u00e9\n\u00e9"},
      {"\u212b", "\u00c5"},                                    // a sign that is a letter
      {"\u1112\u1161\u11ab \u0041", "\ud55c A"},               // Hangul
      {"q\u0307\u0323", "q\u0323\u0307"},                      // marks in order of their class
      {"\u0958", "\u0915\u093c"},                              // excluded from composition
      {"e\xff\u0301 e\u0301\xff", "e\xff\u0301 \u00e9\xff"}};  // bytes that are no UTF-8
  for (const auto& [text, form] : forms) {
    CAPTURE(text);
    CHECK(composing.encode(text) == plain.encode(form));
    CHECK(composing.decode(composing.encode(text)) == form);
  }
  const Ids start = {plain.find("<|start|>").value()};
  CHECK(composing.encode("<|start|>\u0301") != start);
  CHECK(composing.decode(composing.encode("<|start|>\u0301")) == "<|start|>\u0301");
}

TEST_CASE("words may be those of any pattern, or of several") {
  Json json = tokenizer_of("llama");
  Json& parts = json.at("/pre_tokenizer/pretokenizers"_json_pointer);
  parts.at(0).at("pattern").at("Regex") = "h|e";
  Json whole = json;
  whole.at("pre_tokenizer") = {{"type", "ByteLevel"}, {"use_regex", false}};
  REQUIRE(read(whole).encode("he").size() == 1);
  const Tokenizer halves = read(json);
  CHECK(halves.encode("he").size() == 2);
  const Json digits = {{"type", "Digits"}, {"individual_digits", false}};
  parts.insert(parts.begin(), digits);
  parts.back()["use_regex"] = true;
  const Tokenizer all = read(json);
  CHECK(all.decode(all.encode("the 123 plan")) == "the 123 plan");
}

TEST_CASE("a byte without a token is refused where a text has it") {
  Json json = tokenizer_of("llama");
  json.at("model").at("vocab").erase("~");
  const Tokenizer tokenizer = read(json);
  CHECK(tokenizer.decode(tokenizer.encode("A plan")) == "A plan");
  CHECK(error_of([&] { tokenizer.encode("A ~"); }) ==
        "encode: '~': the tokenizer has no token for byte 126");
}

TEST_CASE("other tokenizers, and what alpa lacks, are refused") {
  CHECK(mistake_at("/model/type", "Unigram") ==
        "model.type: found \"Unigram\", expected \"BPE\" or \"WordPiece\"");
  CHECK(mistake_at("/model/byte_fallback", true) ==
        "pre_tokenizer.type: found \"Sequence\", expected \"Metaspace\" or \"Split\" beside "
        "byte_fallback");
  CHECK(mistake_at("/model/end_of_word_suffix", "</w>") ==
        "model.end_of_word_suffix: found \"</w>\", expected none; alpa has nothing else");
  CHECK(mistake_at("/model/dropout", 0.1) == "model.dropout: found 0.1, expected 0");
  CHECK(mistake_at("/normalizer", {{"type", "NFKC"}}) ==
        "normalizer.type: found \"NFKC\", expected \"NFC\", or no normalizer");
  CHECK(mistake_at("/decoder/type", "Fuse") ==
        "decoder.type: found \"Fuse\", expected \"ByteLevel\"");
  CHECK(mistake_at("/pre_tokenizer", nullptr) ==
        "pre_tokenizer: found null, expected ByteLevel, or a Sequence that ends in it");
  CHECK(mistake_at("/pre_tokenizer/type", "Metaspace") ==
        "pre_tokenizer.type: found \"Metaspace\", expected \"ByteLevel\" or \"Sequence\"");
  CHECK(mistake_at("/pre_tokenizer/pretokenizers/0/pattern/Regex", "\\w+)") ==
        "pre_tokenizer.pretokenizers[0].pattern.Regex: '\\w+)' is no regular expression: unmatched "
        "closing parenthesis");
  CHECK(mistake_at("/pre_tokenizer/pretokenizers/0/type", "Punctuation") ==
        "pre_tokenizer.pretokenizers[0].type: found \"Punctuation\", expected \"Split\" or "
        "\"Digits\" before \"ByteLevel\"");
  CHECK(mistake_at("/pre_tokenizer/pretokenizers", Json::array()) ==
        "pre_tokenizer.pretokenizers: is empty; expected ByteLevel at its end");
  CHECK(mistake_at("/pre_tokenizer/pretokenizers/0/behavior", "Removed") ==
        "pre_tokenizer.pretokenizers[0].behavior: found \"Removed\", expected \"Isolated\"");
  CHECK(mistake_at("/pre_tokenizer/pretokenizers/1/add_prefix_space", true) ==
        "pre_tokenizer.pretokenizers[1].add_prefix_space: found true, expected false; alpa has "
        "nothing else");
  CHECK(mistake_at("/pre_tokenizer/pretokenizers/1/type", "Digits") ==
        "pre_tokenizer.pretokenizers[1].type: found \"Digits\", expected \"ByteLevel\"");
  CHECK(mistake_at("/added_tokens/0/single_word", true) ==
        "added_tokens[0].single_word: found true, expected false; alpa has nothing else");
  CHECK(mistake_at("/post_processor/processors/1/type", "RobertaProcessing") ==
        "post_processor.processors[1].type: found \"RobertaProcessing\", expected \"ByteLevel\", "
        "\"TemplateProcessing\", \"BertProcessing\" or \"Sequence\"");
}

TEST_CASE("damaged tokenizers are refused, naming the place") {
  CHECK(error_of([] { Tokenizer::hugging_face("/nowhere/tokenizer.json"); }) ==
        "/nowhere/tokenizer.json: cannot be read: No such file or directory");
  const TemporaryFile cut(kName, "{\"model\": ");
  CHECK(error_of([&] { Tokenizer::hugging_face(cut.path()); }) ==
        std::string(kName) +
            ": line 1, column 11: not valid JSON; check for a missing comma, quote or bracket "
            "just before");
  CHECK(mistake([](Json& json) { json.erase("model"); }) == "model is missing");
  CHECK(mistake([](Json& json) { json.at("model").erase("vocab"); }) == "model.vocab is missing");
  CHECK(mistake_at("/model/vocab", Json::array()) ==
        "model.vocab: is not a vocabulary: expected {\"token\": 0, …}");
  CHECK(mistake_at("/model/vocab/!", -1) ==
        "model.vocab: token \"!\" has number -1; expected a whole one from 0 to 1048575");
  CHECK(mistake_at("/model/merges/3", "a b c") ==
        "model.merges[3]: found \"a b c\", expected two parts of a token, \"a b\" or [\"a\", "
        "\"b\"]");
  CHECK(mistake_at("/model/merges/3", Json::array({"a"})) ==
        "model.merges[3]: expected two parts of a token, \"a b\" or [\"a\", \"b\"]");
  CHECK(mistake_at("/model/merges/3", Json::array({"zzz", "b"})) ==
        "model.merges[3]: 'zzz' is not in the vocabulary model.vocab");
  CHECK(mistake_at("/added_tokens/0/id", 0) == "\"!\" and \"<|start|>\" have the same number 0");
  CHECK(mistake_at("/added_tokens/0/content", "") ==
        "added_tokens[0].content: found \"\", expected a text of at least one byte");
  CHECK(mistake_at("/added_tokens/0/id", -1) ==
        "added_tokens[0].id: found -1, expected a whole number from 0 to 1048575");
  CHECK(mistake_at("/post_processor/processors/1/special_tokens", Json::object()) ==
        "post_processor.processors[1].special_tokens.<|start|> is missing");
  CHECK(mistake_at("/post_processor/processors/1/special_tokens/<|start|>/ids/0", 304) ==
        "post_processor.processors[1].special_tokens.<|start|>.ids[0]: found 304, expected a whole "
        "number from 0 to 303");
  CHECK(mistake_at("/post_processor/processors/1/single", Json::array()) ==
        "post_processor.processors[1].single: found a list, expected a Sequence");
}

}  // namespace tokenizer_json_test
