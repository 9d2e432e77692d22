#pragma once
/// Loading libalpa_cuda.so when CUDA is first asked for.
#include <cstdint>
#include <string>

#include "src/cuda_loader/cuda_functions.h"

namespace alpa {

/// Support of CUDA in this process.
struct CudaSupport {
  const CudaFunctions* functions = nullptr;  ///< null without the library; never unloaded
  std::string path;                          ///< of the library that was loaded
  std::int32_t devices = 0;
  std::string reason;  ///< why there is no device, in one line; "" if there is one

  bool usable() const { return devices > 0; }
};

/// Loads the library that the environment variable ALPA_CUDA_LIBRARY names, or libalpa_cuda.so,
/// which is looked for beside the code of alpa and beside the program, in the library folder of an
/// installed program and where the system looks; counts the devices. Once per process, by whichever
/// thread comes first. Never throws on what it finds.
const CudaSupport& cuda_support();

/// Throws Error, which begins with `who`, unless `cuda` has cards for so many devices: one each, or
/// one card that all share. Devices that outnumber several cards would all have to share the first.
void require_cards(const CudaSupport& cuda, int devices, const std::string& who);

/// The same for the library at `path`, every time.
CudaSupport load_cuda_library(const std::string& path);

}  // namespace alpa
