// src/cuda/status.cc — turns status codes of NVIDIA's libraries into Errors
#include "status.h"

#include <string_view>

#include "alpa/base/error.h"
#include "dnn_library.h"

namespace alpa::cuda {
namespace {

[[noreturn]] void fail_call(const char* call, std::string_view name, int number,
                            std::string_view text, std::string_view file, int line) {
  file.remove_prefix(file.rfind('/') + 1);
  fail("{}: {} ({}){}{}, at {}:{}", call, name, number, text.empty() ? "" : ": ", text, file, line);
}

/// NCCL has texts, but no names.
const char* name_of(ncclResult_t status) {
  switch (status) {
    case ncclUnhandledCudaError: return "ncclUnhandledCudaError";
    case ncclSystemError: return "ncclSystemError";
    case ncclInternalError: return "ncclInternalError";
    case ncclInvalidArgument: return "ncclInvalidArgument";
    case ncclInvalidUsage: return "ncclInvalidUsage";
    case ncclRemoteError: return "ncclRemoteError";
    case ncclInProgress: return "ncclInProgress";
    default: return "ncclResult_t";
  }
}

}  // namespace

void check(cudaError_t status, const char* call, const char* file, int line) {
  if (status != cudaSuccess)
    fail_call(call, cudaGetErrorName(status), status, cudaGetErrorString(status), file, line);
}

void check(cublasStatus_t status, const char* call, const char* file, int line) {
  if (status != CUBLAS_STATUS_SUCCESS)
    fail_call(call, cublasGetStatusName(status), status, cublasGetStatusString(status), file, line);
}

void check(cudnnStatus_t status, const char* call, const char* file, int line) {
  if (status != CUDNN_STATUS_SUCCESS)
    fail_call(call, dnn().error_string(status), status, "", file, line);  // the name is all it has
}

void check(ncclResult_t status, const char* call, const char* file, int line) {
  if (status != ncclSuccess)
    fail_call(call, name_of(status), status, ncclGetErrorString(status), file, line);
}

void check(nvrtcResult status, const char* call, const char* file, int line) {
  if (status != NVRTC_SUCCESS) fail_call(call, nvrtcGetErrorString(status), status, "", file, line);
}

}  // namespace alpa::cuda
