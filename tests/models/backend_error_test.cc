// --backend of the example programs: what runs, why, and every reason why CUDA does not.
#include <doctest/doctest.h>

#include "models/common/flags.h"
#include "support/error_text.h"

namespace backend_error_test {

using namespace alpa;
using namespace alpa::testing;
using programs::choose_backend;

namespace {

/// The error of --backend cuda where there is no device for this reason.
std::string cuda_error(const std::string& reason) {
  return error_of([&] { choose_backend("cuda", [&] { return CudaDevices{0, reason}; }); });
}

/// Fails the test: nothing but `cuda` may load a gigabyte of libraries.
CudaDevices not_asked() {
  FAIL("CUDA was looked for");
  return {};
}

}  // namespace

TEST_CASE("cpu runs on the CPU and does not look for CUDA") {
  CHECK(choose_backend("cpu", not_asked).name == "cpu");
  CHECK(choose_backend("cpu", not_asked).line == "cpu (--backend cpu)");
}

TEST_CASE("auto takes the CPU where there is no CUDA device, and says why") {
  const std::string reason = "CUDA 13.0 runtime, but no driver (cudaErrorInsufficientDriver)";
  const auto found = choose_backend("auto", [&] { return CudaDevices{0, reason}; });
  CHECK(found.name == "cpu");
  CHECK(found.line == "cpu (CUDA 13.0 runtime, but no driver (cudaErrorInsufficientDriver))");
}

TEST_CASE("auto and cuda take CUDA where there is a device, and name it") {
  for (const char* asked : {"auto", "cuda"}) {
    const auto found = choose_backend(asked, [] { return CudaDevices{2, "2 x NVIDIA H200"}; });
    CHECK(found.name == "cuda");
    CHECK(found.line == "cuda (2 x NVIDIA H200)");
  }
}

TEST_CASE("cuda is refused with the reason, never replaced by the CPU") {
  for (const std::string reason : {"there is no /nowhere/libalpa_cuda.so",
                                   "CUDA 13.0 runtime, but no driver (cudaErrorInsufficientDriver)",
                                   "CUDA 13.0 runtime and a driver for CUDA 13.0, "
                                   "but no device (cudaErrorNoDevice)"})
    CHECK(cuda_error(reason) == "--backend cuda: " + reason);
}

}  // namespace backend_error_test
