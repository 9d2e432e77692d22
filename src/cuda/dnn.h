#pragma once
/// Tries, on a card, the cuDNN operations that future operators need.
#include <cstdint>
#include <string>

namespace alpa::cuda {

/// Runs a small convolution and a small attention in bf16 on the device and looks at the
/// results: "cuDNN convolution and attention run", or what does not and why, in one line; also
/// if cuDNN is not installed.
std::string try_dnn(std::int32_t device);

}  // namespace alpa::cuda
