#pragma once
/// Tensors in safetensors files (github.com/huggingface/safetensors): eight bytes of the header's
/// length, the header in JSON, the tensors row by row.
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "alpa/tensor/array.h"
#pragma GCC visibility push(default)

namespace alpa {

/// A safetensors file, or several that an index (`model.safetensors.index.json`) lists, mapped into
/// memory: only tensors that are read take any. Copies share the files.
class TensorFile {
 public:
  /// Opens and checks the file: header, element types, and that tensors fill it without overlap.
  /// Throws Error naming the file, the tensor and the mistake.
  explicit TensorFile(const std::string& path);

  const std::string& path() const;  ///< of the file
  /// Names of all tensors, in alphabetical order.
  std::vector<std::string> names() const;
  bool contains(const std::string& name) const;  ///< whether the file has this tensor
  /// The type that `operator[]` gives: i64 is read as i32, bool as u8. Throws Error naming some of
  /// the known names, or if no type of alpa holds the elements.
  TensorType type(const std::string& name) const;
  /// A copy of the tensor. Throws Error as `type`, or if an element of i64 is beyond i32.
  Array operator[](const std::string& name) const;
  /// The type of `blocks`, if the tensor is a matrix [out, in] that a GGUF file has in Q8_0, Q4_0
  /// or Q4_1. Throws Error as `type`.
  std::optional<TensorType> blocks_type(const std::string& name) const;
  /// A copy of its blocks, as quantised kernels have them (`Quantized`). Throws Error if the tensor
  /// is stored otherwise.
  Array blocks(const std::string& name) const;
  /// Text that the writer added.
  const std::map<std::string, std::string>& metadata() const;

 private:
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

/// Writes tensors by name, in alphabetical order. Replaces the file at once, when all is written.
/// Throws Error if it can't be written.
void write_safetensors(const std::string& path, const std::map<std::string, Array>& tensors,
                       const std::map<std::string, std::string>& metadata = {});

}  // namespace alpa
#pragma GCC visibility pop
