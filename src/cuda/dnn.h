#pragma once
/// Tries, on a card, cuDNN's convolution, which conv2d runs on (convolutions.h), and its attention,
/// which no operator uses yet.
#include <cstdint>
#include <string>

namespace alpa::cuda {

/// Runs a small convolution and a small attention in bf16 on the device and looks at the
/// results: "cuDNN convolution and attention run", or what does not and why, in one line; also
/// if cuDNN is not installed.
std::string try_dnn(std::int32_t device);

}  // namespace alpa::cuda
