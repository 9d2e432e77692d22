#pragma once
/// GGUF files (github.com/ggml-org/ggml, docs/gguf.md) of versions 2 and 3, little endian: metadata
/// by key, and tensors, mapped into memory. Names and layouts are the file's own.
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "src/base/mapped_file.h"
#include "src/train/gguf_types.h"

namespace alpa {

/// A tensor of a file.
struct GgufTensor {
  std::string name;
  const GgufElement* type = nullptr;
  Shape shape;                      ///< row-major: the format's extents in reverse
  const std::byte* data = nullptr;  ///< in the mapped file
  /// The elements, of type `read_as`.
  Array read() const;
};

/// An open file.
class GgufFile {
 public:
  /// Opens and checks the file. Throws Error naming file, offset, key or tensor, and mistake.
  explicit GgufFile(const std::string& path);

  const std::string& path() const { return file_.path(); }
  const nlohmann::json& metadata() const { return metadata_; }  ///< an object
  const std::vector<GgufTensor>& tensors() const { return tensors_; }
  /// The tensor of this name, or null.
  const GgufTensor* find(std::string_view name) const;

 private:
  MappedFile file_;
  nlohmann::json metadata_;
  std::vector<GgufTensor> tensors_;
};

/// True if `path` is a regular file that begins as GGUF does.
bool is_gguf(const std::string& path);
bool is_gguf(std::span<const std::byte> bytes);

/// A tensor to be written: its bytes are those of `gguf_encoded`.
struct GgufPart {
  std::string name;
  const GgufElement* type = nullptr;
  Shape shape;
  std::string bytes;
};

/// Writes a file of version 3. Metadata are texts, booleans, whole numbers (as u32, negative ones
/// as i32), other numbers (f32), and lists of one of these. Throws Error if it can't be written.
void write_gguf(const std::string& path, const nlohmann::ordered_json& metadata,
                const std::vector<GgufPart>& parts);

}  // namespace alpa
