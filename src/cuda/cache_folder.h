#pragma once
/// A cache on disk for compiled kernels and measured choices, in $XDG_CACHE_HOME/alpa or
/// ~/.cache/alpa. If the folder cannot be read or written, nothing is found and nothing is kept.
/// May be called from any thread, and by any number of processes at once.
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace alpa::cuda {

/// The folder; empty if neither variable names an absolute path. It need not exist yet.
std::filesystem::path cache_folder();

/// Content of file `name` of the folder; nothing if it is not there.
std::optional<std::string> read_cached(const std::string& name);

/// Keeps `content` under `name`. Readers see all of it or nothing of it.
void write_cached(const std::string& name, std::string_view content);

}  // namespace alpa::cuda
