#pragma once
/// Weights of decoders in GGUF files: their names and layouts there, and those of Hugging Face's
/// transformers.
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "src/train/gguf_file.h"

namespace alpa {

/// A tensor under the name and in the layout of transformers.
struct GgufWeight {
  std::string name;
  TensorType type;
  std::function<Array()> read;
  /// The type of a quantised kernel whose blocks these are, and its content (`TensorFile::blocks`).
  std::optional<TensorType> blocks_type = {};
  std::function<Array()> blocks = {};
};

/// The file's tensors. Of architectures that alpa does not know, and tensors that transformers
/// lack, names and layouts are the file's own. They read `file`. Throws Error naming a tensor whose
/// rows are not those of the heads that the metadata have.
std::vector<GgufWeight> gguf_weights(const GgufFile& file);

/// Sizes and variants of a model that the layouts of its tensors depend on.
struct GgufModel {
  std::string architecture;               ///< "llama", as `general.architecture` has it
  std::int64_t heads = 1, key_heads = 1;  ///< of attention
};

/// How a tensor is stored otherwise than transformers has it.
enum class GgufLayout : std::uint8_t {
  plain,
  queries,     ///< rows of a head are pairs (i, i + D/2), one behind the other
  keys,        ///< the same of keys
  from_one,    ///< 1 is added: a norm that scales by 1 + its parameter
  transposed,  ///< [out, in], not [in, out]
  experts,     ///< all in one tensor, not a tensor each
};

/// A tensor's place in a file.
struct GgufTarget {
  std::string name;
  GgufLayout layout = GgufLayout::plain;
};

/// The place of a tensor of transformers; of experts, of the first one's.
GgufTarget gguf_target(const GgufModel& model, const std::string& weight);

/// A weight for writing: of all experts together, and transposed already. Vectors, routers and
/// positions are f32; others are `type`, or F16 where their rows are no whole blocks of it.
GgufPart gguf_part(const GgufTarget& target, const Array& weight, const GgufModel& model,
                   const GgufElement& type);

}  // namespace alpa
