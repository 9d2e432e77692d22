// --backend of the example programs: what runs, why, and every reason why CUDA does not.
#include <doctest/doctest.h>

#include "models/common/flags.h"
#include "support/error_text.h"

namespace backend_error_test {

using namespace alpa;
using namespace alpa::testing;
using models::choose_backend;

namespace {

/// The error of --backend cuda where there is no device for this reason.
std::string cuda_error(const std::string& reason) {
  CudaSupport support;
  support.reason = reason;
  return error_of([&] { choose_backend("cuda", [&]() -> const CudaSupport& { return support; }); });
}

/// Fails the test: nothing but `cuda` may load a gigabyte of libraries.
const CudaSupport& not_asked() {
  FAIL("CUDA was looked for");
  return cuda_support();
}

}  // namespace

TEST_CASE("cpu runs on the CPU and does not look for CUDA") {
  CHECK(choose_backend("cpu", not_asked).name == "cpu");
  CHECK(choose_backend("cpu", not_asked).line == "cpu (--backend cpu)");
}

TEST_CASE("auto takes the CPU where there is no CUDA device, and says why") {
  CudaSupport support;
  support.reason = "CUDA 13.0 runtime, but no driver (cudaErrorInsufficientDriver)";
  const auto found = choose_backend("auto", [&]() -> const CudaSupport& { return support; });
  CHECK(found.name == "cpu");
  CHECK(found.line == "cpu (CUDA 13.0 runtime, but no driver (cudaErrorInsufficientDriver))");
}

TEST_CASE("auto and cuda take CUDA where there is a device, and name it") {
  CudaFunctions functions{};
  functions.versions = [](CudaVersions* versions, CudaMessage*) {
    *versions = {"13.0", "13.1", "", "", "", "", ""};
    return 0;
  };
  functions.device = [](std::int32_t, CudaDevice* device, CudaMessage*) {
    *device = {"NVIDIA H200", 9, 0, 132, 0, 0, 0, 0, 0};
    return 0;
  };
  CudaSupport support;
  support.functions = &functions;
  support.path = "/opt/lib/libalpa_cuda.so";
  support.devices = 2;
  for (const char* asked : {"auto", "cuda"}) {
    const auto found = choose_backend(asked, [&]() -> const CudaSupport& { return support; });
    CHECK(found.name == "cuda");
    CHECK(found.line ==
          "cuda (2 x NVIDIA H200, CUDA 13.0, driver for 13.1; /opt/lib/libalpa_cuda.so)");
  }
}

TEST_CASE("cuda is refused with the reason, never replaced by the CPU") {
  for (const std::string reason : {"no libalpa_cuda.so beside the library: this build has no CUDA",
                                   "CUDA 13.0 runtime, but no driver (cudaErrorInsufficientDriver)",
                                   "CUDA 13.0 runtime and a driver for CUDA 13.0, "
                                   "but no device (cudaErrorNoDevice)"})
    CHECK(cuda_error(reason) == "--backend cuda: " + reason);
}

}  // namespace backend_error_test
