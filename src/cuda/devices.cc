#include "devices.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <deque>
#include <thread>

#include "alpa/base/error.h"
#include "alpa/tensor/element.h"
#include "captured_step.h"
#include "discovery.h"
#include "memory_error.h"
#include "product.h"
#include "step_queue.h"
#include "uploads.h"

namespace alpa::cuda {
namespace {

using Clock = std::chrono::steady_clock;

/// The arenas of all devices, and the steps captured in them.
class CudaMemory : public DeviceMemory {
 public:
  std::int64_t bytes_in_use(int rank) const override { return bytes[rank]; }

  std::vector<DeviceBlock> blocks;
  std::vector<std::int64_t> bytes;
  std::array<GraphExec, kStagedSteps> steps;  ///< by part of the staging buffer; null: not captured yet
};

/// Waits for `event`; asks `still_well` now and then.
template <class Check>
void wait_for(cudaEvent_t event, Check&& still_well) {
  constexpr auto kSpin = std::chrono::milliseconds(2), kAsk = std::chrono::milliseconds(50);
  const Clock::time_point begin = Clock::now();
  for (Clock::time_point asked = begin;;) {
    const cudaError_t status = cudaEventQuery(event);
    if (status == cudaSuccess) return;
    if (status != cudaErrorNotReady) check(status, "cudaEventQuery");
    const Clock::time_point now = Clock::now();
    if (now - begin < kSpin) {
      std::this_thread::yield();
      continue;
    }
    if (now - asked > kAsk) still_well(), asked = now;
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

class CudaDevices : public Devices {
 public:
  explicit CudaDevices(DevicesRequest request)
      : program_(request.program), check_instructions_(request.check_instructions) {
    const int n = static_cast<int>(request.programs.size());
    check(cudaSetDevice(0), "cudaSetDevice");
    products_ = std::make_unique<Products>(ProductOptions{request.tf32, request.tune, request.tune});
    card_ = {0, architecture_of(0), products_.get()};
    for (DeviceProgram& program : request.programs)
      devices_.push_back(std::make_unique<LoadedDevice>(program_, std::move(program), card_));
    queue_ = std::make_unique<StepQueue>(program_, devices_, [](const std::vector<int>& ranks) {
      return make_copy_group(static_cast<int>(ranks.size()));
    });
    uploads_ = std::make_unique<Uploads>(program_, devices_);
    upload_streams_.assign(n, upload_stream_.get());
    metrics_ = allocate_pinned(kStagedSteps * metrics_bytes());
  }

  ~CudaDevices() override { drain(); }

  const DeviceProgram& program(int rank) const override { return devices_.at(rank)->program(); }

  std::unique_ptr<DeviceMemory> allocate() override {
    auto memory = std::make_unique<CudaMemory>();
    for (const auto& device : devices_) {
      check(cudaSetDevice(device->card().ordinal), "cudaSetDevice");
      memory->blocks.push_back(allocate_arena(program_, device->program(), device->card()));
      memory->bytes.push_back(device->program().arena_bytes);
      memory->arenas.push_back(static_cast<std::byte*>(memory->blocks.back().get()));
    }
    return memory;
  }

  void write(DeviceMemory& memory, int rank, int buffer, const std::byte* from) override {
    transfer(rank, buffer, devices_[rank]->address(memory.arenas[rank], buffer), from);
  }

  void read(const DeviceMemory& memory, int rank, int buffer, std::byte* to) override {
    transfer(rank, buffer, to, devices_[rank]->address(memory.arenas[rank], buffer));
  }

  int depth() const override { return kStagedSteps; }

  void start(DeviceMemory& memory, const StepInputs& inputs) override {
    guarded([&] {
      const int slot = static_cast<int>(started_ % kStagedSteps);
      uploads_->pack(inputs, slot);
      uploads_->queue(slot, memory, upload_streams_);
      order(upload_stream_.get(), uploaded_.get(), origin());
      run(static_cast<CudaMemory&>(memory), slot);
      check(cudaEventRecord(done_[slot].get(), origin()), "cudaEventRecord");
      under_way_.push_back(slot);
      ++started_;
    });
  }

  std::vector<double> finish() override {
    std::vector<double> metrics;
    guarded([&] {
      const int slot = under_way_.front();
      wait_for(done_[slot].get(), [&] { queue_->check_health(); });
      under_way_.pop_front();
      metrics = metrics_of(slot);
    });
    return metrics;
  }

  std::vector<std::pair<int, comm::Counts>> counts(int rank) const override { return queue_->counts(rank); }

 private:
  static int architecture_of(std::int32_t ordinal) {
    const CudaDevice properties = device(ordinal);
    return properties.major * 10 + properties.minor;
  }

  /// The stream that a step begins and ends on.
  Stream origin() const { return devices_[0]->compute(); }

  /// The first step of all runs instruction by instruction: what can't run is named, and whatever CUDA and
  /// its libraries load late is there before anything is captured.
  void run(CudaMemory& memory, int slot) {
    if (check_instructions_ || started_ == 0) {
      place(memory, slot);
      return queue_step(slot, true);
    }
    GraphExec& step = memory.steps[slot];
    if (!step) {
      place(memory, slot);
      step = capture(origin(), [&] { queue_step(slot, false); });
    }
    check(cudaGraphLaunch(step.get(), origin()), "cudaGraphLaunch");
  }

  void place(const CudaMemory& memory, int slot) {
    for (std::size_t rank = 0; rank < devices_.size(); ++rank)
      devices_[rank]->place(memory.arenas[rank], slot);
  }

  void queue_step(int slot, bool checked) {
    check(cudaEventRecord(begun_.get(), origin()), "cudaEventRecord");
    for (const auto& device : devices_) {
      if (device->compute() != origin())
        check(cudaStreamWaitEvent(device->compute(), begun_.get(), 0), "cudaStreamWaitEvent");
      if (device->communicates())
        check(cudaStreamWaitEvent(device->communication(), begun_.get(), 0), "cudaStreamWaitEvent");
    }
    queue_->queue(checked);
    check(cudaSetDevice(devices_[0]->card().ordinal), "cudaSetDevice");
    for (const auto& device : devices_) device->join(origin());
    queue_metrics(slot);
  }

  // ---- metrics: as the first device has them

  std::int64_t metrics_bytes() const { return 8 * static_cast<std::int64_t>(program(0).reported.size()); }
  std::byte* metrics_at(int slot) const {
    return static_cast<std::byte*>(metrics_.get()) + slot * metrics_bytes();
  }

  void queue_metrics(int slot) {
    std::byte* to = metrics_at(slot);
    for (int reported : program(0).reported) {
      const std::byte* from = devices_[0]->placed_address(reported);
      check(cudaMemcpyAsync(to, from, program(0).buffers[reported].type.bytes(), cudaMemcpyDeviceToHost,
                            origin()),
            "cudaMemcpyAsync");
      to += 8;
    }
  }

  std::vector<double> metrics_of(int slot) const {
    std::vector<double> values;
    const std::byte* from = metrics_at(slot);
    for (int reported : program(0).reported) {
      values.push_back(load_element(program(0).buffers[reported].type.dtype, from));
      from += 8;
    }
    return values;
  }

  // ---- order and failures

  /// On the stream of steps: behind those that were started, before the next.
  void transfer(int rank, int buffer, void* to, const void* from) {
    const std::int64_t bytes = program(rank).buffers[buffer].type.bytes();
    if (bytes == 0 || program(rank).buffers[buffer].arena_offset < 0) return;
    guarded([&] {
      check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, origin()), "cudaMemcpyAsync");
      check(cudaStreamSynchronize(origin()), "cudaStreamSynchronize");
    });
  }

  /// After an exception nothing is under way. What only CUDA or NCCL can have broken stays broken.
  template <class Body>
  void guarded(Body&& body) {
    require(broken_.empty(), "the GPU is unusable since a step failed: {}; start the program anew",
            broken_);
    try {
      body();
    } catch (const std::exception& error) {
      queue_->abort();
      drain();
      if (cudaStreamQuery(origin()) != cudaSuccess) broken_ = error.what();
      throw;
    }
  }

  void drain() noexcept {
    under_way_.clear();
    for (const auto& device : devices_) {
      cudaSetDevice(device->card().ordinal);
      cudaDeviceSynchronize();
    }
    cudaGetLastError();
  }

  const SpmdProgram& program_;
  const bool check_instructions_;
  std::unique_ptr<Products> products_;
  Card card_;
  LoadedDevices devices_;
  std::unique_ptr<StepQueue> queue_;
  std::unique_ptr<Uploads> uploads_;
  StreamHandle upload_stream_ = make_stream();
  std::vector<Stream> upload_streams_;
  EventHandle uploaded_ = make_event(), begun_ = make_event();
  std::array<EventHandle, kStagedSteps> done_{make_event(), make_event()};
  PinnedBlock metrics_;
  std::int64_t started_ = 0;
  std::deque<int> under_way_;  ///< parts of the staging buffer, oldest step first
  std::string broken_;
};

}  // namespace

std::unique_ptr<Devices> make_devices(DevicesRequest request) {
  return std::make_unique<CudaDevices>(std::move(request));
}

}  // namespace alpa::cuda
