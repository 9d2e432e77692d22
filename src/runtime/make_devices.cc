#include "make_devices.h"

#include "alpa/base/error.h"
#include "alpa/device/cuda_library.h"
#include "alpa/runtime/memory_plan.h"

namespace alpa {

void require_devices(const std::string& backend, int devices) {
  memory_rules(backend);  // knows the backends
  if (backend == "cpu") return;
  const CudaSupport& cuda = cuda_support();
  require(cuda.usable(), "backend \"cuda\": {}; run on \"cpu\", or plan with plan_only", cuda.reason);
  require_cards(cuda, devices, "backend \"cuda\"");
}

std::unique_ptr<Devices> make_devices(const std::string& backend, DevicesRequest request) {
  require_devices(backend, static_cast<int>(request.programs.size()));
  if (backend == "cpu") return make_cpu_devices(std::move(request));
  CudaMessage why{};
  std::unique_ptr<Devices> devices(cuda_support().functions->make_devices(&request, &why));
  require(devices != nullptr, "{}", why.text);
  return devices;
}

}  // namespace alpa
