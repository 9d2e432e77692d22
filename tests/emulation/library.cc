// Kernels compiled at run time: loading and launching
#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <set>
#include <string>

#include "cuda_runtime.h"
#include "image.h"
#include "stream.h"

/// The functions that ALPA_EMULATED_KERNEL of run_time_code.h makes.
struct CUkern_st {
  std::shared_ptr<void> code;
  void* (*bind)(void**);
  void (*run)(const void*);
  void (*unbind)(void*);
  unsigned (*bound)();  ///< threads that a block may have
};
struct CUlib_st {
  std::shared_ptr<void> code;  ///< what dlopen gave; launches keep it
  std::map<std::string, CUkern_st> kernels;
};

namespace alpa::emulation {
namespace {

std::set<const void*>& known_kernels() {
  static auto* const known = new std::set<const void*>;
  return *known;
}

/// The shared object of an image, loaded; nullptr if it is none.
void* load(const void* code) {
  ImageHeader header, expected;
  std::memcpy(&header, code, sizeof header);
  if (std::memcmp(header.magic, expected.magic, sizeof header.magic) != 0) return nullptr;
  std::string path = (std::filesystem::temp_directory_path() / "alpa-emulation-XXXXXX").string();
  const int file = mkstemp(path.data());
  if (file < 0) return nullptr;
  const char* const bytes = static_cast<const char*>(code) + sizeof header;
  const bool written = write(file, bytes, header.bytes) == static_cast<ssize_t>(header.bytes);
  close(file);
  void* const handle = written ? dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL) : nullptr;
  unlink(path.c_str());
  return handle;
}

template <class Function>
void find(Function*& function, void* handle, const std::string& name) {
  function = reinterpret_cast<Function*>(dlsym(handle, name.c_str()));
}

}  // namespace
}  // namespace alpa::emulation

using namespace alpa::emulation;

extern "C" {

cudaError_t cudaLibraryLoadData(cudaLibrary_t* library, const void* code, cudaJitOption*, void**,
                                unsigned int, cudaLibraryOption*, void**, unsigned int) {
  void* const handle = load(code);
  return call([&](Lock&) {
    if (handle == nullptr) return cudaErrorInvalidKernelImage;
    *library = new CUlib_st{{handle, dlclose}, {}};
    return cudaSuccess;
  });
}

cudaError_t cudaLibraryUnload(cudaLibrary_t library) {
  return call([&](Lock& lock) {
    for (int device = 0; device < static_cast<int>(world().devices.size()); ++device)
      wait_for_device(lock, device);
    for (const auto& [name, kernel] : library->kernels)
      known_kernels().erase(&kernel), forget_kernel(&kernel);
    delete library;
    return cudaSuccess;
  });
}

cudaError_t cudaLibraryGetKernel(cudaKernel_t* kernel, cudaLibrary_t library, const char* name) {
  return call([&](Lock&) {
    CUkern_st found{library->code, nullptr, nullptr, nullptr, nullptr};
    find(found.bind, library->code.get(), std::string(name) + "_bind");
    find(found.run, library->code.get(), std::string(name) + "_run");
    find(found.unbind, library->code.get(), std::string(name) + "_unbind");
    find(found.bound, library->code.get(), std::string(name) + "_bound");
    if (found.bound == nullptr) return cudaErrorSymbolNotFound;
    *kernel = &library->kernels.insert_or_assign(name, found).first->second;
    known_kernels().insert(*kernel);
    return cudaSuccess;
  });
}

cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments,
                             size_t shared_bytes, cudaStream_t stream) {
  {
    const Unseen unseen;
    const Lock lock(world().mutex);
    if (!known_kernels().contains(function)) return last_error() = cudaErrorInvalidDeviceFunction;
  }
  const CUkern_st& kernel = *static_cast<const CUkern_st*>(function);
  const std::shared_ptr<void> values(kernel.bind(arguments), [kernel](void* bound) {
    const Unseen unseen;
    kernel.unbind(bound);
  });
  return launch(function, kernel.bound(), grid, block, shared_bytes, stream,
                [values, run = kernel.run] { run(values.get()); });
}
}
