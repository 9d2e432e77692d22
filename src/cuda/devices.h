#pragma once
/// Devices of the runtime's seam on CUDA cards.
#include <memory>

#include "alpa/runtime/devices.h"

namespace alpa::cuda {

/// One device per card if there are enough cards, exchanging tensors through NCCL; else there must be one
/// card, which all of them share as logical devices, exchanging tensors by copies. Throws Error naming the
/// instruction that no kernel was found for, or what CUDA says.
std::unique_ptr<Devices> make_devices(DevicesRequest request);

}  // namespace alpa::cuda
