#pragma once
/// NVTX's names for objects of CUDA's runtime.
#include "../cuda_runtime_api.h"
#include "nvToolsExt.h"

extern "C" {

void nvtxNameCudaStreamA(cudaStream_t stream, const char* name);
}
