// --backend of the example programs: what runs, why, and every reason why CUDA does not.
#include <doctest/doctest.h>

#include "support/error_text.h"
#include "models/common/flags.h"

using namespace alpa;
using namespace alpa::testing;
using models::choose_backend;

namespace {

/// The error of --backend cuda where the library finds so many devices, or the reason for none.
std::string cuda_error(std::int32_t devices, const std::string& reason) {
  CudaSupport support;
  support.devices = devices;
  support.reason = reason;
  return error_of([&] { choose_backend("cuda", [&]() -> const CudaSupport& { return support; }); });
}

/// Fails the test: nothing but `cuda` may load a gigabyte of libraries.
const CudaSupport& not_asked() {
  FAIL("CUDA was looked for");
  return cuda_support();
}

}  // namespace

TEST_CASE("cpu and auto run on the CPU, say why, and do not look for CUDA") {
  CHECK(choose_backend("cpu", not_asked) == "cpu (--backend cpu)");
  CHECK(choose_backend("auto", not_asked) ==
        "cpu (--backend auto: this version runs steps on the CPU alone; `alpa doctor` lists GPUs)");
}

TEST_CASE("cuda is refused with the reason, never replaced by the CPU") {
  for (const std::string reason : {"no libalpa_cuda.so beside the library: this build has no CUDA",
                                   "CUDA 13.0 runtime, but no driver (cudaErrorInsufficientDriver)",
                                   "CUDA 13.0 runtime and a driver for CUDA 13.0, but no device "
                                   "(cudaErrorNoDevice)"})
    CHECK(cuda_error(0, reason) == "--backend cuda: " + reason);
  CHECK(cuda_error(1, "") ==
        "--backend cuda: this version can plan for CUDA clusters and checks its kernels there, but has no "
        "CUDA "
        "executor yet; run with --backend cpu");
}

TEST_CASE("a backend nobody knows") {
  CHECK(error_of([] { choose_backend("tpu", not_asked); }) ==
        "--backend is 'tpu'; it must be auto, cpu or cuda");
}
