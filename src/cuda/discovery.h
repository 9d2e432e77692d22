#pragma once
/// The machine's CUDA devices, versions and speed. All functions throw alpa::Error
/// with a message of one line.
#include <cstdint>

#include "src/cuda_loader/cuda_functions.h"

namespace alpa::cuda {

CudaVersions versions();
/// At least 1. Throws with what is missing: the driver, a newer driver, or a device.
std::int32_t device_count();
CudaDevice device(std::int32_t index);
CudaLink link(std::int32_t from, std::int32_t to);
double matmul_rate(std::int32_t device, CudaMatmul kind, double seconds);
double copy_rate(std::int32_t device, double seconds);

}  // namespace alpa::cuda
