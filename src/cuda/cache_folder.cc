// src/cuda/cache_folder.cc — files of the user's cache folder
#include "cache_folder.h"

#include <cstdlib>

#include "alpa/base/error.h"
#include "src/base/file.h"

namespace alpa::cuda {
namespace {

namespace fs = std::filesystem;

constexpr FileKind kCached{.name = "", .max_bytes = 1 << 28, .pipes = false};

/// The absolute path that an environment variable names, or an empty one.
fs::path path_of(const char* variable) {
  const char* const text = std::getenv(variable);
  const fs::path path = text == nullptr ? "" : text;
  return path.is_absolute() ? path : fs::path();
}

}  // namespace

fs::path cache_folder() {
  if (const fs::path cache = path_of("XDG_CACHE_HOME"); !cache.empty()) return cache / "alpa";
  const fs::path home = path_of("HOME");
  return home.empty() ? home : home / ".cache" / "alpa";
}

std::optional<std::string> read_cached(const std::string& name) {
  const fs::path folder = cache_folder();
  if (folder.empty()) return std::nullopt;
  try {
    return read_file((folder / name).string(), kCached);
  } catch (const Error&) {  // as below
    return std::nullopt;
  }
}

void write_cached(const std::string& name, std::string_view content) {
  const fs::path folder = cache_folder();
  if (folder.empty()) return;
  std::error_code failure;
  fs::create_directories(folder, failure);
  try {
    replace_file((folder / name).string(), content);
  } catch (const Error&) {  // without a cache everything works, only slower
  }
}

}  // namespace alpa::cuda
