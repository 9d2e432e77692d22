// src/cuda_loader/cuda_library.cc — finding and loading libalpa_cuda.so
#include "src/cuda_loader/cuda_library.h"

#include <dlfcn.h>
#include <fmt/core.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <vector>

#include "alpa/base/error.h"

namespace alpa {
namespace {

namespace fs = std::filesystem;

constexpr const char* kName = "libalpa_cuda.so";

/// Folder of the shared library that holds this code; empty if that is the program, whose name here
/// may be relative to a folder long left.
fs::path folder_of_this_code() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&cuda_support), &info) == 0 || info.dli_fname == nullptr)
    return {};
  if (!fs::path(info.dli_fname).is_absolute()) return {};
  std::error_code error;
  return fs::canonical(info.dli_fname, error).parent_path();
}

fs::path folder_of_program() {
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error).parent_path();
}

/// Only the library that the environment names, if it names one. Otherwise full paths first; last
/// the bare name, which the loader seeks in the program's run path and the system's folders.
std::vector<std::string> places() {
  if (const char* const chosen = std::getenv("ALPA_CUDA_LIBRARY");
      chosen != nullptr && *chosen != '\0')
    return {chosen};
  std::vector<std::string> places;
  for (const fs::path& folder : {folder_of_this_code(), folder_of_program()}) {
    if (folder.empty()) continue;
    for (const fs::path& place : {folder / kName, folder / ".." / ALPA_LIBRARY_FOLDER / kName}) {
      std::error_code error;
      if (fs::exists(place, error)) places.push_back(place.lexically_normal().string());
    }
  }
  places.emplace_back(kName);
  return places;
}

/// The message as one line.
std::string one_line(std::string text) {
  for (char& c : text)
    if (c == '\n') c = ' ';
  return text;
}

void count_devices(CudaSupport& support) {
  CudaMessage why{};
  std::int32_t count = 0;
  if (support.functions->device_count(&count, &why) == 0 && count > 0)
    support.devices = count;
  else
    support.reason = one_line(why.text);
}

}  // namespace

CudaSupport load_cuda_library(const std::string& path) {
  CudaSupport support;
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* error = dlerror();
    std::error_code ignored;
    // The bare name fails with the same words if the library is missing and if it needs a missing
    // one. Only in the first case the message names the library itself.
    const std::string text = error == nullptr ? "" : error;
    const bool absent = path.find('/') == std::string::npos
                            ? text.starts_with(path + ": cannot open")
                            : !fs::exists(path, ignored);
    support.reason = absent ? fmt::format("no {} beside the library: this build has no CUDA", kName)
                            : one_line(fmt::format("{} does not load: {}", path, text));
    return support;
  }
  const auto entry = reinterpret_cast<CudaEntry>(dlsym(library, kCudaEntry));
  const CudaFunctions* functions = entry == nullptr ? nullptr : entry();
  if (functions == nullptr) {
    support.reason = fmt::format("{} is not alpa's: it has no {}", path, kCudaEntry);
    return support;
  }
  if (functions->interface_version != kCudaInterface) {
    support.reason =
        fmt::format("{} has interface {}, this program needs {}: install both from one build", path,
                    functions->interface_version, kCudaInterface);
    return support;
  }
  support.functions = functions;
  support.path = path;
  count_devices(support);
  return support;
}

const CudaSupport& cuda_support() {
  static const CudaSupport support = load_cuda_library(places().front());
  return support;
}

void require_cards(const CudaSupport& cuda, int devices, const std::string& who) {
  require(cuda.devices == 1 || devices <= cuda.devices,
          "{}: {} devices, but the machine has {} cards; take at most {}, "
          "or leave one card visible (CUDA_VISIBLE_DEVICES=0), "
          "which any number of devices may share",
          who, devices, cuda.devices, cuda.devices);
}

}  // namespace alpa
