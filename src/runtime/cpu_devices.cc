// src/runtime/cpu_devices.cc — devices on threads of this process
#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <limits>

#include "alpa/base/error.h"
#include "device.h"
#include "device_threads.h"
#include "host_arenas.h"
#include "src/base/exception_text.h"
#include "src/runtime/devices.h"
#include "src/tensor/element.h"
#include "stall.h"
#include "turns.h"

namespace alpa::runtime {
namespace {

/// Bytes used besides arenas, measured and rounded up: by the process, and by each thread's stack
/// and the packing buffers of its matrix products.
constexpr std::int64_t kProcessBytes = 16 << 20, kThreadBytes = 2 << 20;

class CpuDevices : public Devices {
  using Clock = std::chrono::steady_clock;

 public:
  explicit CpuDevices(DevicesRequest request)
      : program_(request.program),
        placement_(std::move(request.placement)),
        everyone_(request.everyone),
        threads_per_device_(request.threads_per_device),
        groups_(placement_, /*communication=*/false),
        communication_groups_(placement_, /*communication=*/true),
        lanes_(static_cast<int>(request.programs.size()), placement_) {
    const int devices = static_cast<int>(request.programs.size());
    const Surroundings surroundings{program_, groups_,  communication_groups_,
                                    lanes_,   failure_, devices};
    for (lower::DeviceProgram& program : request.programs)
      devices_.push_back(std::make_unique<Device>(
          std::move(program), surroundings, static_cast<int>(devices_.size()),
          request.threads_per_device, request.running_threads));
    if (request.record_times)
      for (auto& device : devices_) device->record_times();
    lanes_.reset();  // makes room for a step's messages
    const bool communicates = std::any_of(devices_.begin(), devices_.end(), [](const auto& device) {
      return device->communicates();
    });
    stall_seconds_ = request.stall_seconds;
    positions_.resize(devices_.size());
    spread(communicates || watches() || placement_.world()
               ? devices
               : threads_for(devices, threads_per_device_));
    threads_ = std::make_unique<DeviceThreads>(static_cast<int>(of_thread_.size()) +
                                               (communicates ? size() : 0) + (watches() ? 1 : 0));
  }

  ~CpuDevices() override { stop_reporting(); }

  const lower::DeviceProgram& program(int index) const override {
    return devices_.at(index)->program();
  }

  std::unique_ptr<DeviceMemory> allocate(std::int64_t least_bytes) override {
    require_memory(least_bytes);
    auto memory = std::make_unique<HostArenas>();
    for (const auto& device : devices_) {
      const std::int64_t bytes = device->program().arena_bytes;
      require(memory->add(bytes, least_bytes),
              "device {}: no memory for an arena of {} bytes; use more devices, "
              "a memory budget or more micro-batches",
              device->program().device, std::max(bytes, least_bytes));
    }
    return memory;
  }

  void write(DeviceMemory& memory, int index, int buffer, const std::byte* from) override {
    const lower::Buffer& to = program(index).buffers[buffer];
    if (to.arena_offset >= 0)
      std::copy_n(from, to.type.bytes(), memory.arenas[index] + to.arena_offset);
  }

  void read(const DeviceMemory& memory, int index, int buffer, int micro_batch,
            std::byte* to) override {
    const lower::Buffer& from = program(index).buffers[buffer];
    if (const std::int64_t offset = from.arena_offset_of(micro_batch); offset >= 0)
      std::copy_n(memory.arenas[index] + offset, from.type.bytes(), to);
  }

  std::byte* host_address(const DeviceMemory& memory, int index, int buffer) const override {
    const std::int64_t offset = program(index).buffers[buffer].arena_offset;
    return offset < 0 ? nullptr : memory.arenas[index] + offset;
  }

  int depth() const override { return 1; }

  void start(DeviceMemory& memory, const StepInputs& inputs) override {
    require(!lost_, "a device never came back from a step that stalled; make a new executable");
    memory_ = &memory;
    inputs_ = &inputs;
    groups_.reset_counts();
    communication_groups_.reset_counts();
    lanes_.reset();
    for (int i = 0; i < size(); ++i) {
      devices_[i]->place(memory.arenas[i]);
      devices_[i]->prepare_step(inputs);
    }
    stopped_ = false;
    report_step();
    if (watches()) {
      threads_->start(watched_job_);
      watch();
    } else {
      threads_->run([this](int index) { run_thread(index); });
    }
    if (!stopped_ && !lost_) end_messages();
    moved_ = Clock::now();
  }

  bool lost() const override { return lost_; }

  std::vector<double> finish() override {
    if (failure_.any()) {
      const Failure::Record failed = failure_.first();
      if (!lost_) forget_failure();  // lost threads must find it when they come back
      rethrow(failed);
    }
    if (stopped_) placement_.world()->rethrow();
    std::vector<double> metrics(program_.graph.metrics.size(),
                                std::numeric_limits<double>::quiet_NaN());
    for (int i = size() - 1; i >= 0; --i)
      for (const lower::Reported& reported : program(i).reported) {
        const lower::Buffer& buffer = program(i).buffers[reported.buffer];
        metrics[reported.metric] =
            load_element(buffer.type.dtype, memory_->arenas[i] + buffer.arena_offset);
      }
    return metrics;
  }

  std::int64_t exchange_bytes() const override {
    std::int64_t bytes = lanes_.reserved_bytes();
    for (const auto& device : devices_) bytes += device->exchange_bytes();
    return bytes;
  }

  DeviceTimes times(int index) const override { return devices_.at(index)->times(); }

  std::vector<std::pair<int, comm::Counts>> counts(int index) const override {
    const int device = program(index).device;
    std::vector<std::pair<int, comm::Counts>> all = groups_.counts(device);
    for (auto& entry : communication_groups_.counts(device)) all.push_back(std::move(entry));
    if (const comm::Counts& messages = devices_[index]->messages(); lanes_.any())
      all.emplace_back(2, messages);
    return all;
  }

 private:
  void spread(int threads) {
    std::vector<int> meshes;
    for (const auto& device : devices_) meshes.push_back(device->program().mesh);
    for (const std::vector<int>& indices : spread_over_threads(meshes, threads)) {
      std::vector<Device*>& own = of_thread_.emplace_back();
      for (const int i : indices) own.push_back(devices_[i].get());
    }
  }

  void require_memory(std::int64_t least_bytes) const {
    std::int64_t arenas = 0, shard = 0;  // the largest shard is drawn outside of the arenas
    for (const auto& device : devices_) {
      const lower::DeviceProgram& program = device->program();
      arenas += HostArenas::allocated_bytes(std::max(program.arena_bytes, least_bytes));
      for (const Input& input : program_.graph.inputs)
        if (const int buffer = program.buffer_of_value[input.value];
            input.kind == InputKind::state && buffer >= 0)
          shard = std::max(shard, program.buffers[buffer].type.bytes());
    }
    const std::int64_t others = kProcessBytes + kThreadBytes * size() * threads_per_device_ + shard;
    require_available(arenas, others, size(), host_memory());
  }

  int size() const { return static_cast<int>(devices_.size()); }
  void forget_failure() {
    groups_.renew();
    communication_groups_.renew();
    failure_.forget();
  }

  bool watches() const { return stall_seconds_ > 0; }

  /// The step of thread `index`: of its devices, or of the collectives of one.
  void run_thread(int index) {
    const int first = static_cast<int>(of_thread_.size());
    if (index < first) return take_turns(of_thread_[index], stop_job_);
    if (!devices_[index - first]->communicate()) stop();
  }

  /// Waits until all threads are done. If no device, of any process, gets on for too long, stops
  /// them. A thread that does not come back even then is given up.
  void watch() {
    constexpr std::chrono::milliseconds kGrace{500};
    const auto limit =
        std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(stall_seconds_));
    const auto look = std::min<Clock::duration>(limit / 4, std::chrono::milliseconds(100));
    while (!threads_->finish_within(look)) {
      const auto now = Clock::now();
      if (any_moved()) moved_ = now;
      if (now - moved_.load() < limit || !record_stall(limit - look)) continue;
      stop();
      if (threads_->finish_within(kGrace)) return;
      lost_ = true;
      stop_reporting();
      return threads_->abandon();
    }
  }

  /// True if a device has begun another instruction since the last look.
  bool any_moved() {
    bool moved = false;
    for (int i = 0; i < size(); ++i) {
      const std::uint64_t position = devices_[i]->position();
      moved = moved || position != positions_[i];
      positions_[i] = position;
    }
    return moved;
  }

  /// False: devices of another process have moved in the last `idle`.
  bool record_stall(Clock::duration idle) {
    if (placement_.world()) return tell_stall(idle);
    const Stall stall = stall_of(programs(), positions_, program_, stall_seconds_);
    failure_.record({stall.place, std::make_exception_ptr(Error(stall.text))});
    return true;
  }

  bool tell_stall(Clock::duration idle) {
    processes::Protocol& protocol = placement_.world()->protocol();
    const auto reports = protocol.ask(placement_.world()->all_ranks());
    if (!reports) return true;  // the launch has failed for another reason
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (const auto& report : *reports) least = std::min(least, report.idle_milliseconds);
    const std::chrono::milliseconds shortest(least);
    if (shortest < idle) {
      moved_ = Clock::now() - shortest;
      return false;
    }
    protocol.fail(
        stall_of_all({step_, call_, stall_seconds_}, *reports, everyone_, placement_, program_));
    while (!protocol.failed()) std::this_thread::yield();
    return true;
  }

  [[noreturn]] void rethrow(const Failure::Record& failed) const {
    rethrow_at(to_string(failed.place, program(failed.place.device), program_), failed.thrown);
  }

  /// Tells the other processes what failed here.
  void tell_failure() {
    processes::World* const world = placement_.world();
    if (!world || !failure_.any()) return;
    try {
      rethrow(failure_.first());
    } catch (...) {
      world->fail(std::current_exception());
    }
  }

  /// Starts to report the devices' positions to other processes.
  void report_step() {
    processes::World* const world = placement_.world();
    moved_ = Clock::now();
    if (!world) return;
    step_ = inputs_->step;
    call_ = world->protocol().last_call();
    world->protocol().set_report(this, [this] { return report(); });
  }

  void stop_reporting() {
    if (processes::World* const world = placement_.world()) world->protocol().remove_report(this);
  }

  processes::StepReport report() const {
    const auto idle = Clock::now() - moved_.load();
    processes::StepReport report{
        .call = call_,
        .idle_milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(idle).count()};
    for (const auto& device : devices_) report.positions.push_back(device->position());
    report.text = whereabouts(report.positions);
    return report;
  }

  /// Place of the device that is furthest behind, as text.
  std::string whereabouts(const std::vector<std::uint64_t>& positions) const {
    const auto last = std::min_element(positions.begin(), positions.end());
    if (*last == StepPosition::kOver) return fmt::format("at the end of step {}", step_.load());
    const int index = static_cast<int>(last - positions.begin());
    const std::string awaited = awaited_text(programs(), positions, index);
    return fmt::format("at step {}, {}{}{}", step_.load(),
                       to_string(place_at(program(index), index, *last), program(index), program_),
                       awaited.empty() ? "" : ", where it ", awaited);
  }

  std::vector<const lower::DeviceProgram*> programs() const {
    std::vector<const lower::DeviceProgram*> programs;
    for (const auto& device : devices_) programs.push_back(&device->program());
    return programs;
  }

  /// The next step may overwrite what this one sent.
  void end_messages() {
    try {
      lanes_.end_step();
    } catch (const comm::Aborted&) {
      stopped_ = true;
    }
  }

  /// Called on the thread that failed or was stopped; wakes all others.
  void stop() {
    stopped_ = true;
    tell_failure();
    groups_.abort();
    communication_groups_.abort();
    lanes_.abort();
    for (auto& device : devices_) device->stop();
  }

  const spmd::SpmdProgram& program_;
  const Placement placement_;
  const std::span<const lower::DeviceProgram> everyone_;
  const int threads_per_device_;
  Groups groups_, communication_groups_;
  Lanes lanes_;
  Failure failure_;
  std::vector<std::unique_ptr<Device>> devices_;
  DeviceMemory* memory_ = nullptr;        ///< of the step under way
  const StepInputs* inputs_ = nullptr;    ///< of the step under way
  double stall_seconds_ = 0;              ///< 0: nobody watches
  std::vector<std::uint64_t> positions_;  ///< of devices, when last looked at
  /// When a device was last seen to move, or the step began or ended.
  std::atomic<Clock::time_point> moved_{Clock::time_point{}};
  std::atomic<std::int64_t> step_{0}, call_{0};  ///< numbers: of the step, and of its call
  bool lost_ = false;
  std::atomic<bool> stopped_{false};  ///< a thread did not finish the step under way
  std::vector<std::vector<Device*>> of_thread_;
  const std::function<void()> stop_job_ = [this] { stop(); };
  std::function<void(int)> watched_job_ = [this](int index) { run_thread(index - 1); };
  std::unique_ptr<DeviceThreads> threads_;  ///< last: its threads use all of the above
};

}  // namespace

std::unique_ptr<Devices> make_cpu_devices(DevicesRequest request) {
  return std::make_unique<CpuDevices>(std::move(request));
}

}  // namespace alpa::runtime
