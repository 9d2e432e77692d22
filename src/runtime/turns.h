#pragma once
/// Several devices on one thread. Where devices outnumber cores, threads of their own would change
/// places through the system's scheduler at every collective. A thread that has several devices
/// goes on with the next one instead.
#include <functional>
#include <span>
#include <vector>

#include "device.h"

namespace alpa::runtime {

/// The threads for so many devices: one each, or as many as there are cores if each of those gets
/// at least two devices.
int threads_for(int devices, int threads_per_device);

/// The devices of each thread, by index in `meshes`, which has the mesh of every device. Those of a
/// mesh are spread over all threads, neighbours together. So stages that take turns leave no thread
/// idle.
std::vector<std::vector<int>> spread_over_threads(std::span<const int> meshes, int threads);

/// Runs the step of `devices` on the caller's thread. Calls `stop` whenever one of them fails or is
/// stopped.
void take_turns(std::span<Device* const> devices, const std::function<void()>& stop);

}  // namespace alpa::runtime
