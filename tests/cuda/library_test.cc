// The real libalpa_cuda.so, with and without a driver.
#include <doctest/doctest.h>

#include <regex>
#include <string>

#include "src/cuda_loader/cuda_library.h"

namespace library_test {

using namespace alpa;

namespace {

bool is_version(const std::string& text) {
  return std::regex_match(text, std::regex(R"(\d+\.\d+(\.\d+)?)"));
}

}  // namespace

TEST_CASE("the library loads whether there is a driver or not") {
  CHECK_MESSAGE(cuda_support().functions != nullptr, cuda_support().reason);
}

TEST_CASE("without a device the reason names the runtime's version and the status") {
  const CudaSupport& support = cuda_support();
  if (support.usable()) return;
  const std::regex reason(
      R"(CUDA \d+\.\d+ runtime(, but no driver \(cudaErrorInsufficientDriver\))"
      R"(|, but the driver only supports CUDA \d+\.\d+ \(cudaErrorInsufficientDriver\))"
      R"(| and a driver for CUDA \d+\.\d+, but no device \(cudaErrorNoDevice\)))");
  CHECK_MESSAGE(std::regex_match(support.reason, reason), support.reason);
}

TEST_CASE("versions are known without a driver") {
  CudaVersions versions{};
  CudaMessage why{};
  REQUIRE_MESSAGE(cuda_support().functions->versions(&versions, &why) == 0, std::string(why.text));
  for (const std::string version :
       {versions.runtime, versions.cublas, versions.cublas_lt, versions.nccl, versions.nvrtc})
    CHECK_MESSAGE(is_version(version), version);
  CHECK((versions.cudnn[0] == '\0' || is_version(versions.cudnn)));
  CHECK((versions.driver[0] == '\0' || is_version(versions.driver)));
}

TEST_CASE("a device that is not there is an error of one line, not a crash") {
  const CudaFunctions& functions = *cuda_support().functions;
  CudaMessage why{};
  CudaDevice device{};
  CHECK(functions.device(cuda_support().devices, &device, &why) != 0);
  CHECK(std::string(why.text).starts_with("cudaGetDeviceProperties: cudaError"));
  double rate = 0;
  CHECK(functions.matmul_rate(cuda_support().devices, CudaMatmul::bf16, 0, &rate, &why) != 0);
  CHECK(std::string(why.text).starts_with("cudaSetDevice: cudaError"));
}

TEST_CASE("every device that is there has a name, memory and multiprocessors") {
  const CudaFunctions& functions = *cuda_support().functions;
  for (std::int32_t i = 0; i < cuda_support().devices; ++i) {
    CudaDevice device{};
    CudaMessage why{};
    REQUIRE_MESSAGE(functions.device(i, &device, &why) == 0, std::string(why.text));
    CHECK(device.name[0] != '\0');
    CHECK(device.major >= 7);
    CHECK(device.multiprocessors > 0);
    CHECK(device.clock_hertz > 100'000'000);
    CHECK(device.l2_bytes > 0);
    CHECK(device.free_bytes > 0);
    CHECK(device.free_bytes <= device.memory_bytes);
  }
}

TEST_CASE("ceilings of a device are those of some GPU, and lower precision is not slower") {
  if (!cuda_support().usable()) return;
  const CudaFunctions& functions = *cuda_support().functions;
  CudaMessage why{};
  double f32 = 0, tf32 = 0, bf16 = 0, copy = 0;
  REQUIRE_MESSAGE(functions.matmul_rate(0, CudaMatmul::f32, 0.05, &f32, &why) == 0,
                  std::string(why.text));
  REQUIRE_MESSAGE(functions.matmul_rate(0, CudaMatmul::tf32, 0.05, &tf32, &why) == 0,
                  std::string(why.text));
  REQUIRE_MESSAGE(functions.matmul_rate(0, CudaMatmul::bf16, 0.05, &bf16, &why) == 0,
                  std::string(why.text));
  REQUIRE_MESSAGE(functions.copy_rate(0, 0.05, &copy, &why) == 0, std::string(why.text));
  CHECK(f32 > 1e12);
  CHECK(tf32 > 0.9 * f32);
  CHECK(bf16 > 0.9 * tf32);
  CHECK(copy > 1e11);
  CHECK(copy < 1e14);
}

}  // namespace library_test
