// src/cuda/dnn_library.cc — loads cuDNN at first use
#include "dnn_library.h"

#include <dlfcn.h>
#include <fmt/core.h>

#include "alpa/base/error.h"

namespace alpa::cuda {
namespace {

constexpr int kMajor = CUDNN_VERSION / 10000;

template <class Function>
void find(Function& function, void* library, const char* name) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  require(function != nullptr, "cuDNN has no function {}; install cuDNN {}", name, kMajor);
}

DnnFunctions functions_of(void* library) {
  DnnFunctions f;
  find(f.version, library, "cudnnGetVersion");
  const std::size_t version = f.version();
  require(version / 10000 == kMajor,
          "cuDNN has version number {}, but version {} is needed; install it", version, kMajor);
  find(f.error_string, library, "cudnnGetErrorString");
  find(f.last_error_string, library, "cudnnGetLastErrorString");
  find(f.create, library, "cudnnCreate");
  find(f.destroy, library, "cudnnDestroy");
  find(f.set_stream, library, "cudnnSetStream");
  find(f.create_descriptor, library, "cudnnBackendCreateDescriptor");
  find(f.destroy_descriptor, library, "cudnnBackendDestroyDescriptor");
  find(f.set_attribute, library, "cudnnBackendSetAttribute");
  find(f.get_attribute, library, "cudnnBackendGetAttribute");
  find(f.finalize, library, "cudnnBackendFinalize");
  find(f.execute, library, "cudnnBackendExecute");
  return f;
}

/// The library or program that this code is in: it need not be one of those that RTLD_DEFAULT is.
void* own_library() {
  Dl_info info{};
  const bool known = dladdr(reinterpret_cast<void*>(&own_library), &info) != 0;
  void* const library = known ? dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD) : nullptr;
  return library != nullptr ? library : RTLD_DEFAULT;
}

}  // namespace

DnnFunctions load_dnn(const std::string& library) {
  void* const handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);  // stays
  if (handle == nullptr)
    fail(
        "cuDNN does not load: {}; install libcudnn{}-cuda-{}, or name its folder in "
        "LD_LIBRARY_PATH",
        dlerror(), kMajor, CUDART_VERSION / 1000);
  return functions_of(handle);
}

std::string dnn_version_text(std::size_t version) {
  return fmt::format("{}.{}.{}", version / 10000, version % 10000 / 100, version % 100);
}

void require_dnn(std::size_t least_version) {
  const std::size_t version = dnn().version();
  require(version >= least_version,
          "cuDNN is {}, which has known errors here; install {} or later, or name its folder in "
          "LD_LIBRARY_PATH",
          dnn_version_text(version), dnn_version_text(least_version));
}

const DnnFunctions& dnn() {
  static const DnnFunctions functions = [] {
    for (void* const library : {own_library(), static_cast<void*>(RTLD_DEFAULT)})
      if (dlsym(library, "cudnnGetVersion") != nullptr) return functions_of(library);
    return load_dnn(fmt::format("libcudnn.so.{}", kMajor));
  }();
  return functions;
}

}  // namespace alpa::cuda
