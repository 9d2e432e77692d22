#include "devices.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <thread>

#include "alpa/base/error.h"
#include "alpa/tensor/element.h"
#include "captured_step.h"
#include "discovery.h"
#include "memory_error.h"
#include "nccl_group.h"
#include "product.h"
#include "step_queue.h"
#include "uploads.h"

namespace alpa::cuda {
namespace {

using Clock = std::chrono::steady_clock;

/// Captured lists by slot; null: not captured yet.
using CapturedSteps = std::array<std::vector<GraphExec>, kStagedSteps>;

/// The arenas of all devices, and the steps captured in them.
class CudaMemory : public DeviceMemory {
 public:
  std::int64_t bytes_in_use(int rank) const override { return bytes[rank]; }

  std::vector<DeviceBlock> blocks;
  std::vector<std::int64_t> bytes;
  std::shared_ptr<CapturedSteps> steps = std::make_shared<CapturedSteps>();
};

/// A card of this process, and what its devices share.
struct LocalCard {
  LocalCard(int ordinal, const ProductOptions& options) {
    check(cudaSetDevice(ordinal), "cudaSetDevice");
    products = std::make_unique<Products>(options);
    const CudaDevice properties = device(ordinal);
    card = {ordinal, properties.major * 10 + properties.minor, products.get()};
    upload_stream = make_stream();
    uploaded = make_event();
  }

  std::unique_ptr<Products> products;
  Card card;
  StreamHandle upload_stream;
  EventHandle uploaded;
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
    const int n = static_cast<int>(request.programs.size()), cards = n <= device_count() ? n : 1;
    captures_ = request.capture.value_or(cards == 1);
    for (int ordinal = 0; ordinal < cards; ++ordinal) {
      cards_.emplace_back(ordinal, ProductOptions{request.tf32, request.tune, request.tune});
      cards_.back().card.keeps_nan = request.keeps_nan;
    }
    for (int rank = 0; rank < n; ++rank) {
      const LocalCard& local = cards_[rank % cards];
      check(cudaSetDevice(local.card.ordinal), "cudaSetDevice");
      devices_.push_back(
          std::make_unique<LoadedDevice>(program_, std::move(request.programs[rank]), local.card));
      upload_streams_.push_back(local.upload_stream.get());
    }
    check(cudaSetDevice(cards_[0].card.ordinal), "cudaSetDevice");
    begun_ = make_event();
    for (EventHandle& done : done_) done = make_event();
    queue_ = std::make_unique<StepQueue>(program_, devices_, [cards](const std::vector<int>& ranks) {
      return cards > 1 ? make_nccl_group(ranks) : make_copy_group(static_cast<int>(ranks.size()));
    });
    uploads_ = std::make_unique<Uploads>(program_, devices_);
    metrics_ = allocate_mapped(kStagedSteps * metrics_bytes());
  }

  /// Captured steps go before the groups whose collectives they hold; the memory they work in may stay.
  ~CudaDevices() override {
    drain();
    for (const auto& known : captured_)
      if (const auto steps = known.lock()) *steps = {};
  }

  const DeviceProgram& program(int rank) const override { return devices_.at(rank)->program(); }

  std::unique_ptr<DeviceMemory> allocate() override {
    auto memory = std::make_unique<CudaMemory>();
    std::erase_if(captured_, [](const auto& known) { return known.expired(); });
    captured_.push_back(memory->steps);
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
      const int slot = slot_of(started_);
      launched_ = false;
      uploads_->pack(inputs, slot);
      upload(slot, memory);
      run(static_cast<CudaMemory&>(memory), slot);
      check(cudaEventRecord(done_[slot].get(), origin()), "cudaEventRecord");
      ++started_;
    });
  }

  std::vector<double> finish() override {
    std::vector<double> metrics;
    guarded([&] {
      const int slot = slot_of(finished_);
      wait_for(done_[slot].get(), [&] { queue_->check_health(); });
      ++finished_;
      metrics = metrics_of(slot);
    });
    return metrics;
  }

  std::vector<std::pair<int, comm::Counts>> counts(int rank) const override { return queue_->counts(rank); }

 private:
  /// A step's part of pinned memory, staging buffers and metrics, and its graph. The step that had it
  /// before is over, because no more than `depth()` are under way.
  static int slot_of(std::int64_t step) { return static_cast<int>(step % kStagedSteps); }

  /// The step waits for this.
  void upload(int slot, const DeviceMemory& memory) {
    uploads_->queue(slot, memory, upload_streams_);
    for (const LocalCard& local : cards_) order(local.upload_stream.get(), local.uploaded.get(), origin());
  }

  /// The stream that a step begins and ends on.
  Stream origin() const { return devices_[0]->compute(); }

  /// The first step of all runs instruction by instruction: what can't run is named, and whatever CUDA and
  /// its libraries load late is there before anything is captured. Lists of later ones are captured, or
  /// queued.
  void run(CudaMemory& memory, int slot) {
    const bool checked = check_instructions_ || started_ == 0;
    if (checked || !captures_) {
      place(memory, slot);
      launched_ = !checked;
      return queue_step(checked);
    }
    clear(memory, slot);
    for (const ListRun& run : devices_[0]->schedule()) launch(memory, slot, run);
  }

  void place(const CudaMemory& memory, int slot) {
    for (std::size_t rank = 0; rank < devices_.size(); ++rank)
      devices_[rank]->place(memory.arenas[rank], slot, rank == 0 ? device_metrics(slot) : nullptr);
  }

  void queue_step(bool checked) {
    fork();
    queue_->queue_clearing(checked);
    for (const ListRun& run : devices_[0]->schedule()) queue_list(run, checked);
    join();
  }

  void queue_list(const ListRun& run, bool checked) {
    queue_->queue(run, checked);
    check(cudaSetDevice(devices_[0]->card().ordinal), "cudaSetDevice");
    if (run.list != devices_[0]->schedule().back().list) return;
    devices_[0]->queue_metrics();
    if (checked) check(cudaStreamSynchronize(origin()), "cudaStreamSynchronize behind the metrics");
  }

  /// Before captured lists: accumulators that are cleared.
  void clear(const CudaMemory& memory, int slot) {
    if (std::all_of(devices_.begin(), devices_.end(),
                    [](const auto& device) { return device->begins_clear(); }))
      return;
    place(memory, slot);
    launched_ = true;
    fork();
    queue_->queue_clearing(false);
    join();
  }

  /// One list of all devices as one graph.
  void launch(CudaMemory& memory, int slot, const ListRun& run) {
    std::vector<GraphExec>& lists = (*memory.steps)[slot];
    lists.resize(program(0).lists.size());
    GraphExec& list = lists[run.list];
    if (!list) {
      place(memory, slot);
      list = capture(origin(), [&] {
        fork();
        queue_list(run, false);
        join();
      });
    }
    launched_ = true;
    check(cudaGraphLaunch(list.get(), origin()), "cudaGraphLaunch");
  }

  /// All streams come behind what the origin has done, and the origin behind what they have.
  void fork() {
    check(cudaSetDevice(devices_[0]->card().ordinal), "cudaSetDevice");
    check(cudaEventRecord(begun_.get(), origin()), "cudaEventRecord");
    for (const auto& device : devices_) {
      if (device->compute() != origin())
        check(cudaStreamWaitEvent(device->compute(), begun_.get(), 0), "cudaStreamWaitEvent");
      if (device->communicates())
        check(cudaStreamWaitEvent(device->communication(), begun_.get(), 0), "cudaStreamWaitEvent");
    }
  }
  void join() {
    check(cudaSetDevice(devices_[0]->card().ordinal), "cudaSetDevice");
    for (const auto& device : devices_) device->join(origin());
  }

  // ---- metrics: as the first device has them

  std::int64_t metrics_bytes() const {
    return kMetricBytes * static_cast<std::int64_t>(program(0).reported.size());
  }

  /// Where the device writes them.
  std::byte* device_metrics(int slot) const {
    return metrics_ ? device_address(metrics_) + slot * metrics_bytes() : nullptr;
  }

  std::vector<double> metrics_of(int slot) const {
    std::vector<double> values;
    const std::byte* from = static_cast<const std::byte*>(metrics_.get()) + slot * metrics_bytes();
    for (const Reported& reported : program(0).reported) {
      values.push_back(load_element(program(0).buffers[reported.buffer].type.dtype, from));
      from += kMetricBytes;
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

  /// After an exception nothing is under way. A card that CUDA refuses to use stays broken, and so do
  /// several cards, whose groups were aborted.
  template <class Body>
  void guarded(Body&& body) {
    require(broken_.empty(), "the GPU is unusable since a step failed: {}; start the program anew",
            broken_);
    try {
      body();
    } catch (const std::exception& error) {
      const bool under_way = started_ > finished_ || launched_;
      queue_->abort();
      drain();
      const cudaError_t status = cudaStreamQuery(origin());
      if (cards_.size() > 1 || status != cudaSuccess) broken_ = error.what();
      if (status == cudaSuccess || !under_way) throw;
      // Whatever call was told is not to blame.
      broken_ = fmt::format(
          "a step under way failed: {} ({}): {}; ExecutorOptions::check_instructions names the instruction",
          cudaGetErrorName(status), static_cast<int>(status), cudaGetErrorString(status));
      fail("{}", broken_);
    }
  }

  void drain() noexcept {
    finished_ = started_;
    for (const auto& device : devices_) {
      cudaSetDevice(device->card().ordinal);
      cudaDeviceSynchronize();
    }
    cudaGetLastError();
  }

  const SpmdProgram& program_;
  const bool check_instructions_;
  bool captures_ = true;
  std::vector<LocalCard> cards_;
  LoadedDevices devices_;
  std::unique_ptr<StepQueue> queue_;
  std::unique_ptr<Uploads> uploads_;
  std::vector<Stream> upload_streams_;  ///< per rank
  EventHandle begun_;
  std::array<EventHandle, kStagedSteps> done_;          ///< by slot
  std::vector<std::weak_ptr<CapturedSteps>> captured_;  ///< of every memory that was handed out
  PinnedBlock metrics_;                                 ///< mapped, kStagedSteps parts
  std::int64_t started_ = 0, finished_ = 0;             ///< steps
  bool launched_ = false;                               ///< the step that is being started may run already
  std::string broken_;
};

}  // namespace

std::unique_ptr<Devices> make_devices(DevicesRequest request) {
  return std::make_unique<CudaDevices>(std::move(request));
}

}  // namespace alpa::cuda
