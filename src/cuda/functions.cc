// src/cuda/functions.cc — the function table of libalpa_cuda.so; no exception leaves it
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string_view>

#include "devices.h"
#include "discovery.h"

namespace alpa::cuda {
namespace {

void set(CudaMessage* message, std::string_view text) {
  text = text.substr(0, sizeof message->text - 1);
  std::memcpy(message->text, text.data(), text.size());
  message->text[text.size()] = '\0';
}

/// Runs `body`; 0, or 1 and its exception's message.
template <class Body>
int guarded(CudaMessage* why, Body&& body) {
  try {
    body();
    return 0;
  } catch (const std::exception& error) {
    set(why, error.what());
    return 1;
  }
}

/// Sets environment variables that the driver and NCCL read once, unless the user has set them.
void set_environment() {
  // Streams that share a hardware queue wait for each other; a device of a pipeline has dozens.
  ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", /*overwrite=*/0);
  // Kernels of several communicators start on a card in the order in which the host queues them,
  // so none takes the multiprocessors that an earlier one needs (from NCCL 2.26 on).
  ::setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", /*overwrite=*/0);
}

constexpr CudaFunctions kFunctions = {
    .interface_version = kCudaInterface,
    .versions = [](CudaVersions* out,
                   CudaMessage* why) { return guarded(why, [&] { *out = versions(); }); },
    .device_count = [](std::int32_t* out,
                       CudaMessage* why) { return guarded(why, [&] { *out = device_count(); }); },
    .device = [](std::int32_t index, CudaDevice* out,
                 CudaMessage* why) { return guarded(why, [&] { *out = device(index); }); },
    .uuid = [](std::int32_t index, CudaMessage* out,
               CudaMessage* why) { return guarded(why, [&] { set(out, uuid(index)); }); },
    .link = [](std::int32_t from, std::int32_t to, CudaLink* out,
               CudaMessage* why) { return guarded(why, [&] { *out = link(from, to); }); },
    .matmul_rate =
        [](std::int32_t device, CudaMatmul kind, double seconds, double* out, CudaMessage* why) {
          return guarded(why, [&] { *out = matmul_rate(device, kind, seconds); });
        },
    .copy_rate =
        [](std::int32_t device, double seconds, double* out, CudaMessage* why) {
          return guarded(why, [&] { *out = copy_rate(device, seconds); });
        },
    .try_dnn = [](std::int32_t device, CudaMessage* report,
                  CudaMessage* why) { return guarded(why, [&] { set(report, try_dnn(device)); }); },
    .make_devices = [](runtime::DevicesRequest* request, CudaMessage* why) -> runtime::Devices* {
      std::unique_ptr<runtime::Devices> devices;
      guarded(why, [&] { devices = make_devices(std::move(*request)); });
      return devices.release();
    },
};

}  // namespace
}  // namespace alpa::cuda

extern "C" const alpa::CudaFunctions* alpa_cuda_functions() {
  alpa::cuda::set_environment();
  return &alpa::cuda::kFunctions;
}
