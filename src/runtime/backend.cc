// src/runtime/backend.cc — devices of the backends: CPU threads, and GPUs through libalpa_cuda.so
#include "backend.h"

#include <algorithm>

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

/// What a machine must have for the devices of a backend, and how they are made.
struct Maker {
  std::string_view backend;
  void (*require)(int devices);
  std::unique_ptr<Devices> (*make)(DevicesRequest request);
};
constexpr Maker kMakers[] = {
    {"cpu", [](int /*devices*/) {}, make_cpu_devices},
    {"cuda", require_cuda_devices, make_cuda_devices},
};

const Maker& maker_of(std::string_view backend) {
  const Maker* const found = std::ranges::find(kMakers, backend, &Maker::backend);
  invariant(found != std::end(kMakers), "backend \"{}\" has no devices",
            lower::find_backend(backend).name);
  return *found;
}

}  // namespace

void require_devices(std::string_view backend, int devices) { maker_of(backend).require(devices); }

std::unique_ptr<Devices> make_devices(std::string_view backend, DevicesRequest request) {
  return maker_of(backend).make(std::move(request));
}

}  // namespace alpa::runtime
