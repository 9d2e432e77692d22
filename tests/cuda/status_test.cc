// Every status that is not success becomes one line with the call, the status and the place.
#include "src/cuda/status.h"

#include <doctest/doctest.h>

#include "support/error_text.h"

namespace status_test {

using alpa::cuda::check;
using alpa::testing::error_of;

TEST_CASE("success passes") {
  CHECK(error_of([] { check(cudaSuccess, "cudaMalloc"); }) == "no error");
  CHECK(error_of([] { check(CUBLAS_STATUS_SUCCESS, "cublasLtMatmul"); }) == "no error");
  CHECK(error_of([] { check(CUDNN_STATUS_SUCCESS, "cudnnCreate"); }) == "no error");
  CHECK(error_of([] { check(ncclSuccess, "ncclAllReduce"); }) == "no error");
  CHECK(error_of([] { check(NVRTC_SUCCESS, "nvrtcCompileProgram"); }) == "no error");
}

TEST_CASE("a failed call is named with its status, the status' text and the place") {
  CHECK(error_of([] { check(cudaErrorMemoryAllocation, "cudaMalloc(64 bytes)", "a/b.cc", 7); }) ==
        "cudaMalloc(64 bytes): cudaErrorMemoryAllocation (2): out of memory, at b.cc:7");
  CHECK(error_of([] { check(CUBLAS_STATUS_NOT_INITIALIZED, "cublasLtCreate", "b.cc", 7); }) ==
        "cublasLtCreate: CUBLAS_STATUS_NOT_INITIALIZED (1): the library was not initialized, at "
        "b.cc:7");
  const std::string dnn =
      error_of([] { check(CUDNN_STATUS_NOT_INITIALIZED, "cudnnCreate", "b.cc", 7); });
  CHECK((dnn == "cudnnCreate: CUDNN_STATUS_NOT_INITIALIZED (1001), at b.cc:7" ||
         dnn.starts_with("cuDNN does not load: ")));
  CHECK(error_of([] { check(ncclInvalidUsage, "ncclGroupEnd", "b.cc", 7); }) ==
        "ncclGroupEnd: ncclInvalidUsage (5): invalid usage (run with NCCL_DEBUG=WARN for details), "
        "at b.cc:7");
  CHECK(error_of([] { check(NVRTC_ERROR_COMPILATION, "nvrtcCompileProgram", "b.cc", 7); }) ==
        "nvrtcCompileProgram: NVRTC_ERROR_COMPILATION (6), at b.cc:7");
}

TEST_CASE("the place is the caller's") {
  const int line = __LINE__ + 1;
  CHECK(error_of([] {
          check(cudaErrorInvalidValue, "cudaMemcpy");
        }).ends_with("status_test.cc:" + std::to_string(line)));
}

}  // namespace status_test
