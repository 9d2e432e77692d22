#pragma once
/// The part of NVTX that alpa uses, with a tool attached: the emulation (emulation.h says what it
/// tells).
#include <cstdint>

extern "C" {

int nvtxRangePushA(const char* message);
int nvtxRangePop();
void nvtxNameOsThreadA(std::uint32_t thread, const char* name);
}
