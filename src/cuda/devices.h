#pragma once
/// The runtime's `Devices` on CUDA cards.
#include <memory>

#include "src/runtime/devices.h"

namespace alpa::cuda {

/// With enough cards, one device per card, communicating through NCCL. Otherwise there must be
/// exactly one card, shared by all as logical devices that communicate by copies. Throws Error
/// naming an instruction without a kernel, or with CUDA's message.
std::unique_ptr<runtime::Devices> make_devices(runtime::DevicesRequest request);

}  // namespace alpa::cuda
