#pragma once
/// Limits of graphs on devices. Memory and the time of planning grow with these counts and with
/// `kMaxGraphNodes`; all bounds of sizes that programs take are made of them.
#include <cstdint>

namespace alpa {

/// Most nodes of a graph times devices, of a step that is planned, where equal devices are lowered
/// once, and of one that runs in this process, where every device has a list of instructions of
/// about 1 KiB each. `parallelize` and `plan_only` throw Error beyond them.
inline constexpr std::int64_t kMaxPlannedNodes = std::int64_t{1} << 30,
                              kMaxRunNodes = std::int64_t{1} << 24;

/// Most micro-batches of a step times its devices. `parallelize` throws Error beyond it.
inline constexpr std::int64_t kMaxMicroBatchesOnDevices = std::int64_t{1} << 20;

}  // namespace alpa
