#pragma once
/// Watches devices for `ExecutorOptions::stall_seconds`. Every device marks the instruction that it
/// comes to in memory that the host reads at any time, by a kernel on its compute stream, also in
/// captured steps. Called on the thread that waits for a step.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "alpa/base/error.h"
#include "handles.h"
#include "src/lower/device_program.h"
#include "src/runtime/placement.h"

namespace alpa::cuda {

class LoadedDevice;

/// Thrown if no device has reached another instruction for too long.
struct Stalled : Error {
  using Error::Error;
};

/// Rethrows the exception that is being handled with "`place`: " before its text, but Stalled as it
/// is, which names its place.
[[noreturn]] void blame_on(std::string_view place);

class Watch {
 public:
  static constexpr std::uint64_t kOver = std::numeric_limits<std::uint64_t>::max();
  /// Mark of instruction `at` of list `list`, without the micro-batch: see `run_mark`.
  static std::uint64_t place(int list, int at) {
    return static_cast<std::uint64_t>(list) << kListShift | static_cast<std::uint64_t>(at);
  }

  /// `seconds` 0: nobody watches. The others outlive this. `everyone`: the programs of all devices,
  /// if there are other processes.
  Watch(const spmd::SpmdProgram& program, const std::vector<std::unique_ptr<LoadedDevice>>& devices,
        const runtime::Placement& placement, std::span<const lower::DeviceProgram> everyone,
        double seconds);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  /// A step begins: from now on devices should get on, and other processes are told where they are.
  void begin_step(std::int64_t number);
  /// Throws Stalled, naming the devices, what they do and who waits for whom, if no device here has
  /// moved for too long. Of several processes, if none of any has: then the launch has failed.
  void look();

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr int kListShift = 24;

  std::uint64_t position_of(std::size_t index) const;
  std::vector<std::uint64_t> positions() const;
  std::vector<const lower::DeviceProgram*> programs() const;
  void tell_all(Clock::duration idle);

  const spmd::SpmdProgram& program_;
  const std::vector<std::unique_ptr<LoadedDevice>>& devices_;
  const runtime::Placement& placement_;
  const std::span<const lower::DeviceProgram> everyone_;
  const double seconds_;
  PinnedBlock marks_;  ///< mapped, a word per device
  std::vector<std::uint64_t> seen_;
  std::atomic<Clock::time_point> moved_{Clock::time_point{}};
  std::atomic<std::int64_t> step_{0}, call_{0};  ///< numbers: of the step, and of its call
};

}  // namespace alpa::cuda
