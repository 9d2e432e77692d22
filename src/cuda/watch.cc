// src/cuda/watch.cc — finds out that devices do not get on, and who waits for whom
#include "watch.h"

#include <algorithm>
#include <thread>

#include "loaded_device.h"
#include "src/base/exception_text.h"
#include "src/runtime/stall.h"

namespace alpa::cuda {

using runtime::StepPosition;

void blame_on(std::string_view place) {
  try {
    throw;
  } catch (const Stalled&) {
    throw;
  } catch (...) {
    rethrow_at(place, std::current_exception());
  }
}

Watch::Watch(const spmd::SpmdProgram& program,
             const std::vector<std::unique_ptr<LoadedDevice>>& devices,
             const runtime::Placement& placement, std::span<const lower::DeviceProgram> everyone,
             double seconds)
    : program_(program),
      devices_(devices),
      placement_(placement),
      everyone_(everyone),
      seconds_(seconds) {
  if (seconds_ == 0) return;
  marks_ = allocate_mapped(static_cast<std::int64_t>(devices_.size() * sizeof(std::uint64_t)));
  std::fill_n(static_cast<std::uint64_t*>(marks_.get()), devices_.size(), kOver);
  auto* const words = reinterpret_cast<std::uint64_t*>(device_address(marks_));
  for (std::size_t d = 0; d < devices_.size(); ++d) devices_[d]->tell_at(words + d);
}

Watch::~Watch() {
  if (placement_.world()) placement_.world()->protocol().remove_report(this);
}

void Watch::begin_step(std::int64_t number) {
  if (seconds_ == 0) return;
  moved_ = Clock::now();
  if (!placement_.world()) return;
  processes::Protocol& protocol = placement_.world()->protocol();
  step_ = number;
  call_ = protocol.last_call();
  protocol.set_report(this, [this] {
    const auto idle = Clock::now() - moved_.load();
    return processes::StepReport{
        .call = call_,
        .idle_milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(idle).count(),
        .positions = positions(),
        .text = fmt::format("at step {}", step_.load())};
  });
}

/// Position of device `index`, as a StepPosition.
std::uint64_t Watch::position_of(std::size_t index) const {
  const std::uint64_t mark =
      __atomic_load_n(static_cast<const std::uint64_t*>(marks_.get()) + index, __ATOMIC_RELAXED);
  if (mark == kOver) return StepPosition::kOver;
  const lower::ListRun run{static_cast<int>(mark >> kListShift & 0xff),
                           static_cast<int>(mark >> 32)};
  const std::vector<lower::ListRun>& schedule = devices_[index]->program().schedule;
  const auto at = std::find(schedule.begin(), schedule.end(), run);
  return StepPosition::code(at - schedule.begin(), mark & ((1U << kListShift) - 1));
}

std::vector<std::uint64_t> Watch::positions() const {
  std::vector<std::uint64_t> positions;
  for (std::size_t d = 0; d < devices_.size(); ++d) positions.push_back(position_of(d));
  return positions;
}

std::vector<const lower::DeviceProgram*> Watch::programs() const {
  std::vector<const lower::DeviceProgram*> programs;
  for (const auto& device : devices_) programs.push_back(&device->program());
  return programs;
}

void Watch::look() {
  if (seconds_ == 0) return;
  std::vector<std::uint64_t> now = positions();
  if (now != seen_) {
    seen_ = std::move(now);
    moved_ = Clock::now();
  }
  const auto limit =
      std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds_));
  if (Clock::now() - moved_.load() < limit) return;
  if (placement_.world()) return tell_all(limit * 3 / 4);
  const runtime::Stall stall = runtime::stall_of(programs(), seen_, program_, seconds_);
  throw Stalled(to_string(stall.place, devices_[stall.place.device]->program(), program_) + ": " +
                stall.text);
}

/// The launch fails unless devices of another process have moved in the last `idle`.
void Watch::tell_all(Clock::duration idle) {
  processes::Protocol& protocol = placement_.world()->protocol();
  const auto reports = protocol.ask(placement_.world()->all_ranks());
  if (!reports) return;  // the launch has failed for another reason
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (const auto& report : *reports) least = std::min(least, report.idle_milliseconds);
  if (const std::chrono::milliseconds shortest(least); shortest < idle) {
    moved_ = Clock::now() - shortest;
    return;
  }
  protocol.fail(
      runtime::stall_of_all({step_, call_, seconds_}, *reports, everyone_, placement_, program_));
  while (!protocol.failed()) std::this_thread::yield();
}

}  // namespace alpa::cuda
