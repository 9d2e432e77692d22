// src/cuda_loader/cuda_library.cc — finding and loading libalpa_cuda.so
#include "src/cuda_loader/cuda_library.h"

#include "alpa/base/error.h"
#include "src/base/own_library.h"

namespace alpa {
namespace {

constexpr OwnLibraryKind kCudaLibrary = {.name = "libalpa_cuda.so",
                                         .variable = "ALPA_CUDA_LIBRARY",
                                         .entry = kCudaEntry,
                                         .interface = kCudaInterface,
                                         .absent = "this build has no CUDA"};

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
  const OwnLibrary library = load_own_library(kCudaLibrary, path);
  CudaSupport support;
  support.reason = library.reason;
  if (library.table == nullptr) return support;
  support.functions = static_cast<const CudaFunctions*>(library.table);
  support.path = path;
  count_devices(support);
  return support;
}

const CudaSupport& cuda_support() {
  static const CudaSupport support = load_cuda_library(own_library_path(kCudaLibrary));
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
