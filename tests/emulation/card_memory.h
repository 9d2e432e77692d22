#pragma once
/// The memory of an emulated card. The threads of streams may touch it; a thread of the program
/// that does faults, as it would with a card, where the processor has protection keys and no
/// sanitizer is at work. What lies behind an allocation faults for all.
#include <cstddef>

namespace alpa::emulation {

/// What new memory is filled with: NaN in every floating type.
inline constexpr unsigned char kPoison = 0xff;

/// Poisoned, from a multiple of 512 on; nullptr if the system has no more.
void* map_card_memory(std::size_t bytes);
void unmap_card_memory(void* data, std::size_t bytes);

/// What the calling thread may touch from now on.
void enter_card();
void leave_card();

}  // namespace alpa::emulation
