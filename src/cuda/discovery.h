#pragma once
/// The machine's CUDA devices, versions and speed. All functions throw alpa::Error
/// with a message of one line.
#include <cstdint>
#include <string>

#include "src/cuda_loader/cuda_functions.h"

namespace alpa::cuda {

CudaVersions versions();
/// Number of cards, at least 1. Throws Error naming what is missing: the driver, a newer driver, or
/// a device.
std::int32_t device_count();
CudaDevice device(std::int32_t index);
std::string uuid(std::int32_t index);  ///< as `CudaFunctions::uuid`
CudaLink link(std::int32_t from, std::int32_t to);
double matmul_rate(std::int32_t device, CudaMatmul kind, double seconds);
double copy_rate(std::int32_t device, double seconds);

/// Tries cuDNN's convolution, which conv2d runs on (convolutions.h), and its attention, which no
/// operator uses yet: small ones in bf16. "cuDNN convolution and attention run", or what does not
/// and why, in one line; also if cuDNN is not installed.
std::string try_dnn(std::int32_t device);

}  // namespace alpa::cuda
