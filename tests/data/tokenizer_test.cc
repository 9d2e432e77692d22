// Tokenizers against Hugging Face's (tests/golden/bpe/make.py) and by hand.
#include <doctest/doctest.h>

#include "alpa/data/text.h"
#include "src/base/file.h"
#include "src/base/json.h"
#include "src/data/words.h"
#include "support/error_text.h"
#include "support/golden.h"
#include "support/temporary_file.h"

namespace tokenizer_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

using Ids = std::vector<std::int32_t>;

using Words = std::vector<std::string>;

Words words(std::string_view text, const std::vector<std::string>& regexes) {
  std::vector<WordPattern> patterns;
  for (const std::string& regex : regexes) patterns.emplace_back(regex);
  Words result;
  for_each_word(text, patterns, [&](std::string_view word) { result.emplace_back(word); });
  return result;
}

/// The code point's UTF-8.
std::string utf8(unsigned point) {
  if (point < 0x80) return {static_cast<char>(point)};
  return {static_cast<char>(0xC0 | point >> 6), static_cast<char>(0x80 | (point & 0x3F))};
}

/// GPT-2's first 256 tokens, then `merged`: bytes that print, then the others as U+0100 and on.
std::string small_vocabulary(const std::vector<std::string>& merged) {
  std::vector<std::string> tokens;
  for (unsigned byte = 0; byte < 256; ++byte)
    if ((byte > 32 && byte < 127) || (byte > 160 && byte != 173)) tokens.push_back(utf8(byte));
  for (unsigned point = 256; tokens.size() < 256; ++point) tokens.push_back(utf8(point));
  tokens.insert(tokens.end(), merged.begin(), merged.end());
  nlohmann::json json;
  for (std::size_t i = 0; i < tokens.size(); ++i) json[tokens[i]] = i;
  return json.dump();
}

}  // namespace

TEST_CASE("bytes are tokens, and tokens are bytes") {
  const Tokenizer bytes = Tokenizer::of_bytes();
  CHECK(bytes.vocabulary() == 256);
  CHECK(bytes.encode("Hi\n\xff") == Ids{72, 105, 10, 255});
  CHECK(bytes.decode(Ids{72, 105, 10, 255}) == "Hi\n\xff");
  CHECK(bytes.find("H") == 72);
  CHECK(!bytes.find("Hi"));
  CHECK(error_of([&] { bytes.decode(Ids{256}); }) == "decode: token 256 of a vocabulary of 256");
}

TEST_CASE("text is cut into words as GPT-2's pattern does") {
  const auto gpt2 = [](std::string_view text) { return words(text, {std::string(kGpt2Words)}); };
  CHECK(gpt2("Hello world, it's 42!") == Words{"Hello", " world", ",", " it", "'s", " 42", "!"});
  CHECK(gpt2("we'll they've I'd 'Tis") ==
        Words{"we", "'ll", " they", "'ve", " I", "'d", " '", "Tis"});
  CHECK(gpt2("a  b\n\nc ") == Words{"a", " ", " b", "\n", "\n", "c", " "});
  CHECK(gpt2("  \t x") == Words{"  \t", " x"});
  CHECK(gpt2("caf\u00e9 \u00bd") == Words{"caf\u00e9", " \u00bd"});
  CHECK(gpt2("a\u00a0 b") == Words{"a", "\u00a0", " b"});
  CHECK(gpt2(" \u180e") == Words{" \u180e"});  // a space for PCRE2, not for Unicode
}

TEST_CASE("words of patterns in use are those of Hugging Face's tokenizers") {
  const nlohmann::json examples = parse_json(golden_text("bpe/encoded.json"), "encoded.json");
  const nlohmann::json rows = parse_json(golden_text("bpe/words.json"), "words.json");
  CHECK(rows.size() == 7);
  for (const nlohmann::json& row : rows) {
    CAPTURE(row.at("name").get<std::string>());
    REQUIRE(row.at("words").size() == examples.size());
    for (std::size_t i = 0; i < examples.size(); ++i)
      CHECK(words(examples[i].at("text").get<std::string>(), row.at("patterns").get<Words>()) ==
            row.at("words")[i].get<Words>());
  }
}

TEST_CASE("a contraction in another case, and numbers that come first, are words") {
  const std::vector<std::string> llama3 = {R"((?i:'s|'t|'re)|[^\r\n\p{L}\p{N}]?\p{L}+|\s+)"};
  CHECK(words("it'\u017f o'Re'x", llama3) == Words{"it", "'\u017f", " o", "'Re", "'x"});
  CHECK(words("it's  12 a", {R"(\p{N})", std::string(kGpt2Words)}) ==
        Words{"it", "'s", "  ", "1", "2", " a"});
}

TEST_CASE("patterns that are wrong, read otherwise by Oniguruma, or slow are refused") {
  const auto error = [](const std::string& regex) {
    return error_of([&] { const WordPattern pattern(regex); });
  };
  CHECK(error("(a") == "'(a' is no regular expression: missing closing parenthesis");
  CHECK(error("[a[b]]") == "alpa reads no classes within a class");
  CHECK(error("[\\w&&[^a]]") == "alpa reads no classes within a class");
  CHECK(error("\\h+") == "alpa reads no \\h");
  CHECK(error("[\\W]") == "alpa reads no \\W within a class");
  CHECK(error_of([] { words(std::string(40, 'a'), {"(a+)+[bc]"}); }) ==
        "encode: the pattern '(a+)+[bc]' of words: match limit exceeded behind "
        "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'; simplify the pattern");
}

TEST_CASE("pairs are merged by rank, the leftmost first") {
  const TemporaryFile vocabulary(
      "small_vocab.json",
      small_vocabulary({"he", "ll", "hell", "hello", "\xc4\xa0w", "aa", "<|endoftext|>"}));
  const TemporaryFile merges("small_merges.txt",
                             "#version: 0.2\nh e\nl l\nhe ll\nhell o\n\xc4\xa0 w\na a\n");
  const Tokenizer bpe = Tokenizer::gpt2(vocabulary.path(), merges.path());
  CHECK(bpe.vocabulary() == 263);
  CHECK(bpe.encode("\n ") == Ids{198, 220});  // as in GPT-2's own vocabulary
  CHECK(bpe.encode("hello") == Ids{259});
  CHECK(bpe.encode("shell world") == Ids{82, 258, 260, 78, 81, 75, 67});
  CHECK(bpe.encode("aaaaa") == Ids{261, 261, 64});
  CHECK(bpe.find("<|endoftext|>") == 262);
  CHECK(bpe.find(" w") == 260);
  CHECK(bpe.decode(Ids{259, 260, 262}) == "hello w<|endoftext|>");
}

TEST_CASE("texts of many scripts are encoded as by Hugging Face's tokenizers") {
  const Tokenizer bpe =
      Tokenizer::gpt2(golden_path("bpe/vocab.json"), golden_path("bpe/merges.txt"));
  const nlohmann::json examples = parse_json(golden_text("bpe/encoded.json"), "encoded.json");
  CHECK(examples.size() == 12);
  for (const nlohmann::json& example : examples) {
    const std::string text = example.at("text").get<std::string>();
    CAPTURE(text);
    const Ids tokens = bpe.encode(text);
    CHECK(tokens == example.at("tokens").get<Ids>());
    CHECK(bpe.decode(tokens) == text);
  }
}

TEST_CASE("a word of a million letters is encoded in an instant") {
  const Tokenizer bpe =
      Tokenizer::gpt2(golden_path("bpe/vocab.json"), golden_path("bpe/merges.txt"));
  const std::string word(1'000'000, 'e');
  CHECK(bpe.decode(bpe.encode(word)) == word);
}

TEST_CASE("files that are no byte-pair encoding are refused") {
  const auto error = [&](const std::string& vocabulary, const std::string& text) {
    const TemporaryFile v("bad_vocab.json", vocabulary), m("bad_merges.txt", text);
    return error_of([&] { Tokenizer::gpt2(v.path(), m.path()); });
  };
  CHECK(error("[]", "") == "bad_vocab.json: is not a vocabulary: expected {\"token\": 0, …}");
  CHECK(error(R"({"a": -1})", "") ==
        "bad_vocab.json: token \"a\" has number -1; expected a whole one from 0 to 1048575");
  CHECK(error(R"({"a": 7, "b": 7})", "") ==
        R"(bad_vocab.json: "a" and "b" have the same number 7)");
  const std::string good = small_vocabulary({"he"});
  CHECK(error(good, "#version: 0.2\nh e x\n") ==
        "bad_merges.txt: line 2 is 'h e x'; expected two parts of a token");
  CHECK(error(good, "h e\nhe y\n") ==
        "bad_merges.txt: line 2: 'hey' is not in the vocabulary bad_vocab.json");
}

}  // namespace tokenizer_test
