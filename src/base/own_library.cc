// src/base/own_library.cc — finding and loading libraries that come with alpa
#include "src/base/own_library.h"

#include <dlfcn.h>
#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <vector>

namespace alpa {
namespace {

namespace fs = std::filesystem;

/// Folder of the shared library that holds this code; empty if that is the program, whose name here
/// may be relative to a folder long left.
fs::path folder_of_this_code() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&own_library_path), &info) == 0 ||
      info.dli_fname == nullptr)
    return {};
  if (!fs::path(info.dli_fname).is_absolute()) return {};
  std::error_code error;
  return fs::canonical(info.dli_fname, error).parent_path();
}

fs::path folder_of_program() {
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error).parent_path();
}

/// `path` was not loaded, for the reason `text`. The bare name fails with the same words if the
/// library is missing and if it needs a missing one. Only in the first case the message names the
/// library itself.
bool is_absent(const std::string& path, const std::string& text) {
  std::error_code ignored;
  return path.find('/') == std::string::npos ? text.starts_with(path + ": cannot open")
                                             : !fs::exists(path, ignored);
}

/// Where the library may be before the program's run path and the system's folders, in order.
std::vector<fs::path> places_of(const OwnLibraryKind& kind) {
  std::vector<fs::path> places;
  for (const fs::path& folder : {folder_of_this_code(), folder_of_program()}) {
    if (folder.empty()) continue;
    for (const fs::path& place :
         {folder / kind.name, folder / ".." / ALPA_LIBRARY_FOLDER / kind.name})
      if (std::ranges::find(places, place.lexically_normal()) == places.end())
        places.push_back(place.lexically_normal());
  }
  return places;
}

/// Why there is no library at `path`: a copied program may have left it behind.
std::string absence(const OwnLibraryKind& kind, const std::string& path) {
  if (path != kind.name) return fmt::format("there is no {}", path);
  std::string sought;
  for (const fs::path& place : places_of(kind)) sought += place.parent_path().string() + ", ";
  return fmt::format(
      "no {} in {}or the system's folders: {}, or the program was copied without it; {} may name "
      "it",
      kind.name, sought, kind.absent, kind.variable);
}

}  // namespace

std::string own_library_path(const OwnLibraryKind& kind) {
  if (const char* const chosen = std::getenv(kind.variable); chosen != nullptr && *chosen != '\0')
    return chosen;
  for (const fs::path& place : places_of(kind)) {
    std::error_code error;
    if (fs::exists(place, error)) return place.string();
  }
  return kind.name;  // which the loader seeks in the program's run path and the system's folders
}

OwnLibrary load_own_library(const OwnLibraryKind& kind, const std::string& path) {
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const error = dlerror();
    const std::string text = error == nullptr ? "" : error;
    if (is_absent(path, text)) return {nullptr, absence(kind, path)};
    return {nullptr, one_line(fmt::format("{} does not load: {}", path, text))};
  }
  const auto entry = reinterpret_cast<const void* (*)()>(dlsym(library, kind.entry));
  const void* const table = entry == nullptr ? nullptr : entry();
  if (table == nullptr)
    return {nullptr, fmt::format("{} is not alpa's: it has no {}", path, kind.entry)};
  const std::int32_t interface = *static_cast<const std::int32_t*>(table);
  if (interface != kind.interface)
    return {nullptr,
            fmt::format("{} has interface {}, this program needs {}: install both from one build",
                        path, interface, kind.interface)};
  return {table, ""};
}

std::string one_line(std::string text) {
  for (char& c : text)
    if (c == '\n') c = ' ';
  return text;
}

}  // namespace alpa
