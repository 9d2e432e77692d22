// Formats that are read from files alone: safetensors, and the files of tokenizers.
#include <alpa/data/text.h>
#include <alpa/models/pretrained.h>
#include <alpa/train/safetensors.h>

#include <stdexcept>

#include "fuzz/harness.h"
#include "src/train/gguf_file.h"
#include "support/temporary_file.h"

namespace alpa::fuzz {
namespace {

using testing::TemporaryFile;

const std::string kMerges = "#version: 0.2\na b\nab c\n\xc4\xa0 a\n";

/// Code point `c` below 2^11 in UTF-8.
std::string utf8(int c) {
  if (c < 128) return {static_cast<char>(c)};
  return {static_cast<char>(0xc0 | c >> 6), static_cast<char>(0x80 | (c & 63))};
}

/// The letter that stands for a byte in GPT-2's vocabulary, as JSON writes it.
std::string letter(int byte, int& unprintable) {
  const bool printable =
      (byte > 32 && byte < 127) || (byte > 160 && byte < 173) || (byte > 173 && byte < 256);
  if (byte == '"' || byte == '\\') return {'\\', static_cast<char>(byte)};
  return utf8(printable ? byte : 256 + unprintable++);
}

std::string vocabulary() {
  std::string text = "{";
  int unprintable = 0;
  for (int byte = 0; byte < 256; ++byte)
    text += "\"" + letter(byte, unprintable) + "\": " + std::to_string(byte) + ", ";
  return text + R"("ab": 256, "abc": 257, "<|endoftext|>": 258, ")" + "\xc4\xa0" + R"(a": 259})";
}

void check_round_trip(const Tokenizer& tokenizer) {
  const std::string text = "abc ab, a\n\xff\xc4\xa0 2";
  std::vector<std::int32_t> tokens;
  if (!accepts([&] { tokens = tokenizer.encode(text); })) return;  // a byte has no token
  if (tokenizer.decode(tokens) != text)
    throw std::logic_error("a text that its tokens do not give back");
}

/// Reads both files, one of which is the input.
void read_tokenizer(const std::string& vocabulary_text, const std::string& merges_text) {
  const TemporaryFile vocabulary_file("fuzz_vocab.json", vocabulary_text);
  const TemporaryFile merges_file("fuzz_merges.txt", merges_text);
  std::optional<Tokenizer> tokenizer;
  if (accepts([&] { tokenizer = Tokenizer::gpt2(vocabulary_file.path(), merges_file.path()); }))
    check_round_trip(*tokenizer);
}

/// The file with all tensors of `file`, written again.
std::string written(const TensorFile& file) {
  std::map<std::string, Array> tensors;
  for (const std::string& name : file.names()) tensors.emplace(name, file[name]);
  const TemporaryFile copy("fuzz_copy.safetensors", "");
  write_safetensors(copy.path(), tensors, file.metadata());
  return copy.content();
}

}  // namespace

int fuzz_safetensors(const std::uint8_t* data, std::size_t size) {
  const TemporaryFile file("fuzz.safetensors", input_text(data, size));
  std::string printed;
  if (!accepts([&] { printed = written(TensorFile(file.path())); })) return 0;
  const TemporaryFile again("fuzz_again.safetensors", printed);
  expect_same(printed, written(TensorFile(again.path())));
  return 0;
}

std::vector<std::string> safetensors_seeds() {
  const Array a(std::vector<float>{1, 2, 3, 4, 5, 6}, {2, 3}), b(std::vector<std::int32_t>{7}, {});
  const TemporaryFile file("fuzz_seed.safetensors", "");
  write_safetensors(file.path(), {{"a", a}, {"layer.0.b", b}, {"c", a.cast(bf16)}},
                    {{"format", "pt"}});
  const std::string header =
      R"({"x":{"dtype":"I64","shape":[1],"data_offsets":[0,8]},"y":{"dtype":"BOOL","shape":[2],"data_offsets":[8,10]}})";
  return {file.content(), std::string(1, static_cast<char>(header.size())) + std::string(7, '\0') +
                              header + '\1' + std::string(8, '\0') + '\1'};
}

int fuzz_gguf(const std::uint8_t* data, std::size_t size) {
  const TemporaryFile file("fuzz.gguf", input_text(data, size));
  accepts([&] { written(TensorFile(file.path())); });
  accepts([&] { models::read_pretrained(file.path()); });
  std::optional<Tokenizer> tokenizer;
  if (accepts([&] { tokenizer = Tokenizer::of_folder(file.path()); })) check_round_trip(*tokenizer);
  return 0;
}

std::vector<std::string> gguf_seeds() {
  const nlohmann::ordered_json metadata = {
      {"general.architecture", "llama"},
      {"general.alignment", 32U},
      {"llama.block_count", 2U},
      {"llama.context_length", 64U},
      {"llama.embedding_length", 8U},
      {"llama.feed_forward_length", 12U},
      {"llama.attention.head_count", 2U},
      {"llama.rope.freq_base", 1e4},
      {"tokenizer.ggml.model", "gpt2"},
      {"tokenizer.ggml.pre", "smollm"},
      {"tokenizer.ggml.add_bos_token", true},
      {"tokenizer.ggml.bos_token_id", 3U},
      {"tokenizer.ggml.tokens", {"a", "b", "ab", "<s>"}},
      {"tokenizer.ggml.token_type", {1, 1, 1, 3}},
      {"tokenizer.ggml.merges", nlohmann::ordered_json::array({"a b"})}};
  const auto part = [](const char* name, const char* type, const Shape& shape) {
    const GgufElement& element = *gguf_type(type);
    const Array ones(std::vector<float>(static_cast<std::size_t>(num_elements(shape)), 1), shape);
    return GgufPart{name, &element, shape, gguf_encoded(ones, element)};
  };
  const TemporaryFile file("fuzz_seed.gguf", "");
  write_gguf(file.path(), metadata,
             {part("token_embd.weight", "F32", {4, 8}), part("blk.0.attn_q.weight", "F16", {8, 8}),
              part("blk.0.ffn_gate_exps.weight", "Q8_0", {2, 3, 32}),
              part("rope_freqs.weight", "F32", {2})});
  return {file.content()};
}

int fuzz_vocabulary(const std::uint8_t* data, std::size_t size) {
  read_tokenizer(input_text(data, size), kMerges);
  return 0;
}

std::vector<std::string> vocabulary_seeds() { return {vocabulary()}; }

int fuzz_merges(const std::uint8_t* data, std::size_t size) {
  read_tokenizer(vocabulary(), input_text(data, size));
  return 0;
}

std::vector<std::string> merges_seeds() { return {kMerges, "a b\n"}; }

int fuzz_chat_template(const std::uint8_t* data, std::size_t size) {
  const std::vector<ChatMessage> messages = {{"system", "Be brief."}, {"user", "a\n\xc3\xb6"}};
  ChatText first;
  const auto render = [&] {
    return ChatTemplate::parse(input_text(data, size), "t").render(messages, true);
  };
  if (!accepts([&] { first = render(); })) return 0;
  expect_same(first.text, render().text);
  if (valid_utf8(first.text) != first.text) throw std::logic_error("a text that is not UTF-8");
  for (const auto& [begin, end] : first.generated)
    if (begin > end || end > first.text.size()) throw std::logic_error("a mark beyond the text");
  return 0;
}

std::vector<std::string> chat_template_seeds() {
  return {
      "{% for m in messages if m.role != 'x' %}{{ '<|' + m['role'] + '|>\\n' ~ m.content | trim }}"
      "{% generation %}{{ loop.index0 }}{% endgeneration %}{% else %}none{% endfor %}",
      "{%- macro f(a, b=[1, (2,)]) -%}{{ a[::-1] }}{{ b | tojson(indent=2) }}{%- endmacro %}\n"
      "  {%- set ns = namespace(x={'a': 1.5}) %}{% set ns.x = f('q', b=ns.x) ~ 7 // 2 %}{{ ns.x }}",
      "{# c #}{% set t | upper %}a{% endset %}{{ t if t is string and not 1 in [2] else none }}"
      "{{ messages | map(attribute='content') | join(', ') | replace('b', 'c') | indent }}",
      "{{ messages | selectattr('role', 'equalto', 'user') | list }}{{ 'a,b'.split(',', 1)[0] }}"
      "{{ {'b': 1, 'a': -2} | dictsort }}{{ range(3) | sort(reverse=true) | first | string }}"};
}

int fuzz_json_lines(const std::uint8_t* data, std::size_t size) {
  static const JsonLinesOptions options{
      .end = 0,
      .chat = ChatTemplate::parse("{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
                                  "{% if add_generation_prompt %}<assistant>{% endif %}",
                                  "chat")};
  const TemporaryFile file("fuzz_lines.jsonl", input_text(data, size));
  accepts([&] {
    for (const TextExample& example : read_json_lines(file.path(), Tokenizer::of_bytes(), options))
      if (example.tokens.size() != example.learnt.size())
        throw std::logic_error("tokens that are neither learnt nor not");
  });
  return 0;
}

std::vector<std::string> json_lines_seeds() {
  return {"{\"text\": \"a b\"}\n\n{\"prompt\": \"a\", \"completion\": \"b\", \"id\": 1}\r\n",
          "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", "
          "\"content\": [{\"type\": \"text\", \"text\": \"b\"}]}]}"};
}

int fuzz_tokenizer(const std::uint8_t* data, std::size_t size) {
  const TemporaryFile file("fuzz_tokenizer.json", input_text(data, size));
  std::optional<Tokenizer> tokenizer;
  if (!accepts([&] { tokenizer = Tokenizer::hugging_face(file.path()); })) return 0;
  check_round_trip(*tokenizer);
  tokenizer->encode_whole("x");
  return 0;
}

std::vector<std::string> tokenizer_seeds() {
  const std::string model = R"({"type": "BPE", "ignore_merges": true, "vocab": )" + vocabulary() +
                            R"(, "merges": [["a", "b"], "ab c"]})";
  const std::string around =
      R"({"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "s"}}, {"Sequence": {}}],)"
      R"( "special_tokens": {"s": {"ids": [258]}}})";
  const std::string split =
      R"json({"type": "Split", "behavior": "Isolated", "pattern": {"Regex": "\\w(?=a)|\\p{L}+"}})json";
  return {R"({"model": )" + model +
              R"(, "normalizer": {"type": "NFC"}, "pre_tokenizer": {"type": "Sequence", )" +
              R"("pretokenizers": [)" + split + R"(, {"type": "ByteLevel", "use_regex": false}]}})",
          R"({"model": )" + model +
              R"(, "pre_tokenizer": {"type": "ByteLevel"}, "added_tokens": )"
              R"([{"id": 300, "content": "c a", "normalized": true}], "post_processor": )" +
              around + "}"};
}

int fuzz_text(const std::uint8_t* data, std::size_t size) {
  static const TemporaryFile vocabulary_file("fuzz_text_vocab.json", vocabulary());
  static const TemporaryFile merges_file("fuzz_text_merges.txt", kMerges);
  static const Tokenizer tokenizers[] = {
      Tokenizer::of_bytes(), Tokenizer::gpt2(vocabulary_file.path(), merges_file.path())};
  const std::string text = input_text(data, size);
  const TemporaryFile file("fuzz_text.txt", text);
  accepts([&] {
    for (const Tokenizer& tokenizer : tokenizers)
      expect_same(text, tokenizer.decode(tokenizer.encode(text)));
    const Tokens tokens = Tokens::of_text(file.path(), tokenizers[1]);
    if (tokens.size() > 4) token_batches(tokens, 1, 4, 1);
  });
  return 0;
}

std::vector<std::string> text_seeds() {
  return {"abc ab's a  b, 12 \xc3\xa9\n", "\xe4\xb8\xad ab\tabcabc   ",
          std::string("\0\xff ab", 5)};
}

}  // namespace alpa::fuzz
