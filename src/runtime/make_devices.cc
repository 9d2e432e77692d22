#include "make_devices.h"

#include "alpa/base/error.h"
#include "alpa/device/cuda_library.h"

namespace alpa {

std::unique_ptr<Devices> make_devices(const std::string& backend, DevicesRequest request) {
  if (backend == "cpu") return make_cpu_devices(std::move(request));
  const CudaSupport& cuda = cuda_support();
  require(cuda.usable(), "backend \"cuda\": {}; run on \"cpu\", or plan with plan_only", cuda.reason);
  CudaMessage why{};
  std::unique_ptr<Devices> devices(cuda.functions->make_devices(&request, &why));
  require(devices != nullptr, "{}", why.text);
  return devices;
}

}  // namespace alpa
