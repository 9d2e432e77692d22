// src/cuda/cache_folder.cc — files of the user's cache folder
#include "cache_folder.h"

#include <fmt/core.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <iterator>

namespace alpa::cuda {
namespace {

namespace fs = std::filesystem;

/// The absolute path that an environment variable names, or an empty one.
fs::path path_of(const char* variable) {
  const char* const text = std::getenv(variable);
  const fs::path path = text == nullptr ? "" : text;
  return path.is_absolute() ? path : fs::path();
}

/// A name that no other writer uses.
std::string temporary_name(const std::string& name) {
  static std::atomic<int> count{0};
  return fmt::format("{}.{}.{}", name, getpid(), count++);
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
  std::ifstream file(folder / name, std::ios::binary);
  if (!file.good()) return std::nullopt;
  std::string content{std::istreambuf_iterator<char>(file), {}};
  if (file.bad()) return std::nullopt;
  return content;
}

void write_cached(const std::string& name, std::string_view content) {
  const fs::path folder = cache_folder();
  if (folder.empty()) return;
  std::error_code failure;
  fs::create_directories(folder, failure);
  const fs::path temporary = folder / temporary_name(name);
  std::ofstream file(temporary, std::ios::binary);
  file.write(content.data(), static_cast<std::streamsize>(content.size()));
  file.close();
  if (file.good()) fs::rename(temporary, folder / name, failure);
  if (!file.good() || failure) fs::remove(temporary, failure);
}

}  // namespace alpa::cuda
