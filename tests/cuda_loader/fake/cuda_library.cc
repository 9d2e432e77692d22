// A libalpa_cuda.so without CUDA, for what no machine shows at will. FAKE_INTERFACE, FAKE_DEVICES
// and FAKE_REASON say what it answers.
#include <cstdio>

#include "src/cuda_loader/cuda_functions.h"

namespace {

constexpr alpa::CudaFunctions kFunctions = {
    .interface_version = FAKE_INTERFACE,
    .versions = nullptr,
    .device_count =
        [](std::int32_t* count, alpa::CudaMessage* why) {
          *count = FAKE_DEVICES;
          std::snprintf(why->text, sizeof why->text, "%s", FAKE_REASON);
          return FAKE_DEVICES > 0 ? 0 : 1;
        },
    .device = nullptr,
    .link = nullptr,
    .matmul_rate = nullptr,
    .copy_rate = nullptr,
    .try_dnn = nullptr,
    .make_devices = nullptr,
};

}  // namespace

extern "C" const alpa::CudaFunctions* alpa_cuda_functions() { return &kFunctions; }
