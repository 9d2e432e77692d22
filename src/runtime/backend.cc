// src/runtime/backend.cc — devices of the backends: CPU threads, and GPUs through libalpa_cuda.so
#include "backend.h"

#include "alpa/base/error.h"
#include "src/cuda_loader/cuda_library.h"
#include "src/lower/backend.h"
#include "src/processes/world.h"

namespace alpa::runtime {
namespace {

/// Number of devices in the process that has the most of `devices`.
int devices_of_process(int devices) {
  const processes::World* const world = processes::world();
  return world ? (devices + world->size() - 1) / world->size() : devices;
}

void require_cuda_devices(int devices) {
  const CudaSupport& cuda = cuda_support();
  require(cuda.usable(), "backend \"cuda\": {}; run on \"cpu\", or plan with plan_only",
          cuda.reason);
  require_cards(cuda, devices_of_process(devices), "backend \"cuda\"");
}

std::unique_ptr<Devices> make_cuda_devices(DevicesRequest request) {
  require(cuda_support().usable(), "backend \"cuda\": {}", cuda_support().reason);
  CudaMessage why{};
  std::unique_ptr<Devices> devices(cuda_support().functions->make_devices(&request, &why));
  require(devices != nullptr, "{}", why.text);
  return devices;
}

}  // namespace

void require_devices(std::string_view backend, int devices) {
  if (!lower::find_backend(backend).on_cores) require_cuda_devices(devices);
}

std::unique_ptr<Devices> make_devices(std::string_view backend, DevicesRequest request) {
  return lower::find_backend(backend).on_cores ? make_cpu_devices(std::move(request))
                                               : make_cuda_devices(std::move(request));
}

}  // namespace alpa::runtime
