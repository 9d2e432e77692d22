#pragma once
/// What tests/import/make.py wrote of a model: jax's text, its arguments and results.
#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "alpa/train/safetensors.h"
#include "src/base/file.h"

namespace alpa::testing {

/// The modules of one file, each behind a line "// name".
inline std::vector<std::pair<std::string, std::string>> modules(const std::string& text) {
  constexpr std::string_view kBetween = "// -----\n";
  std::vector<std::pair<std::string, std::string>> found;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(kBetween, at), text.size());
    const std::string one = text.substr(at, end - at);
    const std::size_t line = one.find('\n');
    found.emplace_back(one.substr(3, line - 3), one.substr(line + 1));
    at = end + kBetween.size();
  }
  return found;
}

struct JaxData {
  explicit JaxData(std::string model) : name(std::move(model)), numbers(path(".safetensors")) {}

  std::string text() const {
    return read_file(path(".mlir.gz"), {"StableHLO text", std::int64_t{1} << 28});
  }
  /// Array "kind.i".
  Array at(const std::string& kind, std::size_t i) const {
    return numbers[kind + "." + std::to_string(i)];
  }
  /// Arrays whose names begin so.
  std::size_t count(const std::string& start) const {
    std::size_t n = 0;
    for (const std::string& key : numbers.names()) n += key.starts_with(start) ? 1 : 0;
    return n;
  }
  std::string path(const char* ending) const {
    return std::string(ALPA_SOURCE_DIR "/tests/import/data/") + name + ending;
  }

  std::string name;
  TensorFile numbers;
};

}  // namespace alpa::testing
