#pragma once
/// Tokenizers of byte pairs in GGUF's metadata, and in tokenizer.json of Hugging Face's
/// `tokenizers`.
#include "src/train/gguf_file.h"

namespace alpa {

/// True if the file's tokenizer is "llama", SentencePiece's, which has no tokenizer.json.
bool has_sentence_pieces(const GgufFile& file);

/// The file's tokenizer as tokenizer.json has it. Throws Error naming file, key and mistake, also
/// if it is none of byte pairs, or cuts words in a way that alpa does not know.
nlohmann::json tokenizer_of(const GgufFile& file);

/// Metadata of a tokenizer.json, with as many tokens as the model has. Throws Error naming `origin`
/// if it holds no byte pairs, more tokens than that, or patterns of words that GGUF has no name
/// for.
nlohmann::ordered_json gguf_tokenizer(const nlohmann::json& tokenizer, const std::string& origin,
                                      std::int64_t vocabulary);

}  // namespace alpa
