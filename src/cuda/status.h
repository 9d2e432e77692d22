#pragma once
/// Checks every status of NVIDIA's libraries: success passes, any other status throws alpa::Error
/// "<call>: <status name> (<number>): <text>, at <file>:<line>".
#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <nccl.h>
#include <nvrtc.h>

namespace alpa::cuda {

/// `call` names the function and, where it helps, its arguments: "cudaMalloc(1024 bytes)".
void check(cudaError_t status, const char* call, const char* file = __builtin_FILE(),
           int line = __builtin_LINE());
void check(cublasStatus_t status, const char* call, const char* file = __builtin_FILE(),
           int line = __builtin_LINE());
void check(cudnnStatus_t status, const char* call, const char* file = __builtin_FILE(),
           int line = __builtin_LINE());
void check(ncclResult_t status, const char* call, const char* file = __builtin_FILE(),
           int line = __builtin_LINE());
void check(nvrtcResult status, const char* call, const char* file = __builtin_FILE(),
           int line = __builtin_LINE());

}  // namespace alpa::cuda
