#pragma once
/// Text as numbers: tokenizers, files of tokens, and batches of windows of them.
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "alpa/data/dataset.h"
#pragma GCC visibility push(default)

namespace alpa {

/// Text to tokens and back. Copies share their tables; safe to use from several threads.
class Tokenizer {
 public:
  /// A token per byte: 256 of them, any text and no file.
  static Tokenizer of_bytes();
  /// Byte-pair encoding as GPT-2's (Sennrich et al. 2016; Radford et al. 2019), from its files
  /// vocab.json and merges.txt. Throws Error naming file and mistake.
  static Tokenizer gpt2(const std::string& vocabulary_path, const std::string& merges_path);
  /// A tokenizer.json of Hugging Face's `tokenizers`: byte pairs with its patterns of words and the
  /// normal form NFC, those of SentencePiece, or BERT's word pieces (Devlin et al. 2018). It has
  /// added tokens, and tokens around a text. Text that comes back from word pieces has single
  /// spaces between words. Throws Error naming file, place and mistake, also for what alpa lacks.
  static Tokenizer hugging_face(const std::string& path);
  /// Reads the folder's tokenizer.json, else SentencePiece's tokenizer.model (Kudo & Richardson
  /// 2018: byte pairs, or a unigram model), else its vocab.json and merges.txt; or a GGUF
  /// file. Throws Error if it has none, and as the functions above.
  static Tokenizer of_folder(const std::string& folder);

  /// One more than the largest token.
  std::int64_t vocabulary() const;
  /// Any bytes; those that are no UTF-8 are words of their own. Throws Error naming the pattern of
  /// words if a match of it takes millions of steps. Added tokens of a tokenizer.json, and control
  /// symbols of SentencePiece, are found in the text, "<|eot_id|>" for instance; special tokens of
  /// other files are not.
  std::vector<std::int32_t> encode(std::string_view text) const;
  /// As `encode`, between the tokens that a tokenizer.json puts around a text, "<|begin_of_text|>"
  /// for instance.
  std::vector<std::int32_t> encode_whole(std::string_view text) const;
  /// The bytes that tokens stand for; a single token may be a part of a character (`valid_utf8`).
  /// If they begin a text, a space is left out that the tokenizer puts before it. Throws Error
  /// naming a token outside the vocabulary.
  std::string decode(std::span<const std::int32_t> tokens, bool begins = true) const;
  /// The token of exactly this text, e.g. "<|endoftext|>".
  std::optional<std::int32_t> find(std::string_view text) const;

 private:
  struct Impl;
  explicit Tokenizer(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

/// `text` with U+FFFD in place of every longest beginning of a character, and of every byte that
/// begins none: what Unicode recommends, and Python's `errors="replace"` gives.
std::string valid_utf8(std::string_view text);

/// How a file stores tokens: unsigned, little-endian, nothing else in the file.
enum class TokenWidth : std::uint8_t { bytes_1 = 1, bytes_2 = 2, bytes_4 = 4 };

/// A sequence of tokens, in memory or in a mapped file. Copies and parts share it.
class Tokens {
 public:
  explicit Tokens(std::vector<std::int32_t> tokens);
  /// The file's tokens where the kernel maps them: only what is read takes memory. Throws Error if
  /// the file can't be read or does not hold whole tokens.
  static Tokens of_file(const std::string& path, TokenWidth width = TokenWidth::bytes_2);
  /// A text file as `encode_whole` has it; at most 4 GiB, gzip'd or not.
  static Tokens of_text(const std::string& path, const Tokenizer& tokenizer);

  std::int64_t size() const { return end_ - begin_; }  ///< number of tokens
  /// Throws Error if the token does not fit into 31 bits.
  std::int32_t operator[](std::int64_t i) const;
  /// Tokens begin to end - 1, e.g. for training or validation. Throws Error unless 0 <= begin <=
  /// end <= size().
  Tokens part(std::int64_t begin, std::int64_t end) const;
  /// A hash of how they are stored: of all, or of 64 MiB of more, in blocks that are spread evenly.
  std::uint64_t hash() const;
  /// Writes a file for `of_file`. Throws Error if a token does not fit the width, or the file can't
  /// be written.
  void write(const std::string& path, TokenWidth width = TokenWidth::bytes_2) const;

 private:
  struct Source;
  Tokens() = default;
  std::shared_ptr<const Source> source_;
  std::int64_t begin_ = 0, end_ = 0;
};

/// Batches of "tokens" and "labels", i32 [batch, length]: windows of consecutive tokens, and for
/// each token the next one. Window i begins at token i · `stride`, by default at the end of the one
/// before; the last tokens that fill no window are left out. With a seed, the order of windows is a
/// function of (seed, epoch), whatever the devices. Throws Error if there is no window.
Batches token_batches(const Tokens& tokens, std::int64_t batch, std::int64_t length,
                      std::optional<std::uint64_t> seed = {}, BatchOptions options = {},
                      std::int64_t stride = 0);

/// A message of a conversation.
struct ChatMessage {
  std::string role;     ///< "system", "user", "assistant" or "tool", as the template has them
  std::string content;  ///< any text; the template may take white space away from its ends
};

/// A conversation as one text.
struct ChatText {
  std::string text;  ///< UTF-8, with the special tokens that the template writes
  /// Bytes of it, from first to second - 1, that the template marks as the assistant's, in order:
  /// what {% generation %} holds. Empty for templates without such marks.
  std::vector<std::pair<std::size_t, std::size_t>> generated;
};

/// Messages to the text a model has learnt from, by a Jinja template of Hugging Face's folders. It
/// gives what transformers' `apply_chat_template` gives, without tools and documents. alpa runs the
/// part of Jinja that such templates use, and refuses others. Copies share their template; safe to
/// use from several threads.
class ChatTemplate {
 public:
  /// A template's text; messages of errors call it `path`. `tokens` are further variables, of
  /// name and text, such as "bos_token" and "<s>". Throws Error naming line, column and mistake.
  static ChatTemplate parse(const std::string& text, const std::string& path,
                            const std::map<std::string, std::string>& tokens = {});
  /// Reads the folder's chat_template.jinja, else "chat_template" in its tokenizer_config.json: a
  /// text, or the one named "default" of a list. Tokens are those of tokenizer_config.json and
  /// special_tokens_map.json. Of a GGUF file, "tokenizer.chat_template" and its tokens. None if
  /// there is no template. Throws Error as `parse`, and
  /// naming the file if it can't be read.
  static std::optional<ChatTemplate> find(const std::string& folder);
  /// As `find`. Throws Error if the folder has no template.
  static ChatTemplate of_folder(const std::string& folder);

  /// The text of a conversation; with `add_generation_prompt`, it ends where the assistant's answer
  /// begins. Bytes that are no UTF-8 become U+FFFD. Throws Error if the template refuses the
  /// messages, uses what alpa lacks, or takes too many steps or too much text: naming line and
  /// column of the template.
  ChatText render(std::span<const ChatMessage> messages, bool add_generation_prompt = false) const;

 private:
  struct Impl;
  explicit ChatTemplate(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

/// Tokens of a document or conversation, and which of them are learnt.
struct TextExample {
  std::vector<std::int32_t> tokens;  ///< in order
  /// True for tokens whose prediction the loss counts, false for those of prompts. Empty: all
  /// count.
  std::vector<bool> learnt = {};
};

/// How `read_json_lines` makes examples.
struct JsonLinesOptions {
  std::optional<std::int32_t> end = {};   ///< token behind texts and completions; empty: none
  std::optional<ChatTemplate> chat = {};  ///< writes messages; empty: lines have none
};

/// Examples of a file of JSON lines, at most 4 GiB, gzip'd or not. A line is an object with one of
///   {"text": …}                      all of it is learnt
///   {"prompt": …, "completion": …}   the completion is learnt, the end too
///   {"messages": [{"role": …, "content": …}, …]}   replies of role "assistant" are learnt
/// If the template writes earlier messages in another way once others follow, as some leave out the
/// reasoning of earlier replies, each reply is an example behind what comes before it. Other
/// members are ignored, and so are empty lines. Throws Error naming file, line, place and mistake.
std::vector<TextExample> read_json_lines(const std::string& path, const Tokenizer& tokenizer,
                                         const JsonLinesOptions& options = {});

/// Batches of documents in rows of `length` tokens: "tokens", "labels", "segments" and "positions",
/// i32 [batch, length]. A document of n tokens is n - 1 of them, each with the next one as label,
/// or -1 if that is not learnt; longer ones are cut. Each goes into the first row with room for it.
/// The rest of a row is padding, of label -1 and segment 0. Documents of a row have segments 1,
/// 2, …. With a seed, the order of rows is a function of (seed, epoch). Throws Error if nothing is
/// to be learnt, `length` is below 1, or `drop_last` leaves no batch.
Batches packed_batches(const std::vector<TextExample>& documents, std::int64_t batch,
                       std::int64_t length, std::optional<std::uint64_t> seed = {},
                       BatchOptions options = {});

/// As `packed_batches`, in rows of several `lengths`: a step per length follows the plan of the
/// longest, with `TrainingStep::counts_with_first`. All rows of a batch have one length. Documents
/// are packed by the length they need, the longest first. Each goes into the first row with room
/// for it, else into a new row of the shortest length that holds it. Rows of padding alone, fewer
/// than a batch of each length, make all batches whole, so nothing is left out. With a seed, the
/// order of batches and of their rows is a function of (seed, epoch); without one, longer rows come
/// first. `drop_last` and `order` have no effect. Throws Error as `packed_batches`, if `lengths` is
/// empty, or if the documents are fewer than a batch.
Batches bucketed_batches(const std::vector<TextExample>& documents, std::int64_t batch,
                         const std::vector<std::int64_t>& lengths,
                         std::optional<std::uint64_t> seed = {}, BatchOptions options = {});

}  // namespace alpa
#pragma GCC visibility pop
