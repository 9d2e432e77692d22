#pragma once
/// Nobody profiles the emulation: what bounds a profile has no effect.
#include "cuda_runtime_api.h"

extern "C" {
cudaError_t cudaProfilerStart();
cudaError_t cudaProfilerStop();
}
