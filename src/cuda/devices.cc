// src/cuda/devices.cc — the runtime's `Devices` on CUDA cards: loads programs,
// starts steps, reads metrics
#include "devices.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <limits>
#include <map>
#include <mutex>
#include <numeric>
#include <set>
#include <thread>

#include "alpa/base/error.h"
#include "connections.h"
#include "discovery.h"
#include "dnn_plans.h"
#include "matmul.h"
#include "ranges.h"
#include "src/tensor/element.h"
#include "status.h"
#include "step_queue.h"
#include "trial.h"
#include "uploads.h"
#include "wait_until_done.h"
#include "watch.h"

namespace alpa::cuda {
namespace {

using Clock = std::chrono::steady_clock;

/// Captured graphs, by slot.
using CapturedSteps = std::array<StepGraphs, lower::kStagedSteps>;

/// The arenas of all devices, and the steps captured in them.
class CudaMemory : public runtime::DeviceMemory {
 public:
  explicit CudaMemory(std::shared_ptr<const bool> lost) : lost_(std::move(lost)) {}
  ~CudaMemory() override {
    if (!*lost_) return;  // else work that never ended may use it, and freeing would wait for that
    for (DeviceBlock& block : blocks) static_cast<void>(block.release());
  }

  std::int64_t bytes_in_use(int rank) const override { return bytes[rank]; }

  std::vector<DeviceBlock> blocks;
  std::vector<std::int64_t> bytes;
  /// Captured steps by the number of the devices that captured them: several may share the memory.
  std::map<std::uint64_t, std::shared_ptr<CapturedSteps>> steps;

 private:
  const std::shared_ptr<const bool> lost_;
};

/// A card of this process, and what its devices share.
struct LocalGpu {
  LocalGpu(int ordinal, const MatmulOptions& options) {
    check(cudaSetDevice(ordinal), "cudaSetDevice");
    products = std::make_unique<Matmuls>(options);
    dnn = std::make_unique<DnnPlans>(options);
    const CudaDevice properties = device(ordinal);
    card = {ordinal, properties.major * 10 + properties.minor, products.get(), dnn.get()};
    upload_stream = make_stream();
    name_stream(upload_stream.get(), fmt::format("GPU {} upload", ordinal));
    uploaded = make_event();
  }

  std::unique_ptr<Matmuls> products;
  std::unique_ptr<DnnPlans> dnn;
  Gpu card;
  StreamHandle upload_stream;
  EventHandle uploaded;
  CardClock clock = {};
  std::int64_t free_before = 0, free_behind = 0;  ///< memory, around the loading of its kernels
};

constexpr std::size_t kNamed = 3;  ///< largest tensors in a message

/// "dense0.kernel f32[1024, 1024] 4194304 bytes, …" of the tensors with memory of their own.
std::string largest_tensors(const spmd::SpmdProgram& program, const lower::DeviceProgram& device) {
  std::vector<int> values;
  for (int v = 0; v < static_cast<int>(device.buffer_of_value.size()); ++v) {
    const int buffer = device.buffer_of_value[v];
    if (buffer >= 0 && device.buffers[buffer].alias_of < 0) values.push_back(v);
  }
  const auto type = [&](int v) -> const TensorType& {
    return device.buffers[device.buffer_of_value[v]].type;
  };
  std::stable_sort(values.begin(), values.end(),
                   [&](int a, int b) { return type(a).bytes() > type(b).bytes(); });
  values.resize(std::min(values.size(), kNamed));
  std::string text;
  for (int v : values)
    text += fmt::format("{}\"{}\" {} of {} bytes", text.empty() ? "" : ", ",
                        program.graph.producer(v).name, to_string(type(v)), type(v).bytes());
  return text;
}

/// An arena of `bytes` for a device on the current card. Throws Error naming what was asked for,
/// what is free, and the largest tensors.
DeviceBlock allocate_arena(std::int64_t bytes, const spmd::SpmdProgram& program,
                           const lower::DeviceProgram& device, const Gpu& card) {
  void* data = nullptr;
  const cudaError_t status = bytes > 0 ? cudaMalloc(&data, bytes) : cudaSuccess;
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // clears the error, so that the next call does not report it
    const CudaDevice gpu = alpa::cuda::device(card.ordinal);
    fail(
        "device {} (GPU {}, {}): no memory for an arena of {} bytes: {} of {} are free. "
        "It is the planned peak; the largest tensors are {}. "
        "Use more GPUs, a memory budget or more micro-batches, or free what others hold there",
        device.device, card.ordinal, gpu.name, bytes, gpu.free_bytes, gpu.memory_bytes,
        largest_tensors(program, device));
  }
  check(status, "cudaMalloc");
  return DeviceBlock(data);
}

class CudaDevices : public runtime::Devices {
 public:
  explicit CudaDevices(runtime::DevicesRequest request)
      : program_(request.program),
        placement_(std::move(request.placement)),
        check_instructions_(request.check_instructions),
        record_times_(request.record_times) {
    load_in_turns(request);
    captures_ = !record_times_ && request.capture.value_or(!world());
    check(cudaSetDevice(cards_[0].card.ordinal), "cudaSetDevice");
    for (EventHandle& done : done_) done = make_event();
    Connections connections(devices_, placement_, request.everyone);
    queue_ = std::make_unique<StepQueue>(
        devices_, captures_,
        [&](const std::vector<int>& devices, bool overlapped, int ordinal) {
          return connections.group(devices, overlapped, ordinal);
        },
        [&](int from, int to, int number) { return connections.channel(from, to, number); },
        [this] { still_well(); });
    watch_ = std::make_unique<Watch>(program_, devices_, placement_, request.everyone,
                                     request.stall_seconds);
    uploads_ = std::make_unique<Uploads>(program_, devices_);
    metrics_ = allocate_mapped(lower::kStagedSteps * metrics_bytes());
  }

  /// Captured steps are freed before the groups whose collectives they
  /// contain; their memory may stay.
  ~CudaDevices() override {
    if (lost()) return;  // never: the executor keeps it
    if (world() && world()->protocol().failed()) queue_->abort();
    drain();
    for (const auto& known : captured_)
      if (const auto steps = known.lock()) *steps = {};
  }

  const lower::DeviceProgram& program(int index) const override {
    return devices_.at(index)->program();
  }

  std::unique_ptr<runtime::DeviceMemory> allocate(std::int64_t least_bytes) override {
    auto memory = std::make_unique<CudaMemory>(lost_);
    for (const auto& device : devices_) {
      check(cudaSetDevice(device->card().ordinal), "cudaSetDevice");
      const std::int64_t bytes = std::max(device->program().arena_bytes, least_bytes);
      memory->blocks.push_back(allocate_arena(bytes, program_, device->program(), device->card()));
      memory->bytes.push_back(bytes);
      memory->arenas.push_back(static_cast<std::byte*>(memory->blocks.back().get()));
    }
    return memory;
  }

  void write(runtime::DeviceMemory& memory, int index, int buffer, const std::byte* from) override {
    transfer(index, buffer, devices_[index]->address(memory.arenas[index], buffer), from);
  }

  void read(const runtime::DeviceMemory& memory, int index, int buffer, int micro_batch,
            std::byte* to) override {
    transfer(index, buffer, to,
             memory.arenas[index] + program(index).buffers[buffer].arena_offset_of(micro_batch));
  }

  bool lost() const override { return *lost_; }

  int depth() const override { return record_times_ ? 1 : lower::kStagedSteps; }

  void start(runtime::DeviceMemory& memory, const runtime::StepInputs& inputs) override {
    guarded([&] {
      const int slot = slot_of(started_);
      launched_ = false;
      watch_->begin_step(inputs.step);
      if (record_times_) set_clocks();
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
      await([&] { return cudaEventQuery(done_[slot].get()); });
      ++finished_;
      timed_ = record_times_;
      metrics = metrics_of(slot);
    });
    return metrics;
  }

  runtime::DeviceTimes times(int index) const override {
    if (!timed_) return {};
    const LocalGpu& local = cards_[index % cards_.size()];
    runtime::DeviceTimes times = devices_[index]->times().read(local.clock);
    times.free_before = local.free_before, times.free_behind = local.free_behind;
    return times;
  }

  std::vector<std::pair<int, comm::Counts>> counts(int index) const override {
    return queue_->counts(index);
  }

 private:
  /// A step's part of pinned memory, staging buffers and metrics, and its graph. The step that had
  /// it before is over, because no more than `depth()` are under way.
  static int slot_of(std::int64_t step) { return static_cast<int>(step % lower::kStagedSteps); }

  /// Sets the clocks of a recorded step, while no work is under way.
  void set_clocks() {
    timed_ = false;
    for (const auto& device : devices_) device->times().begin_step();
    for (LocalGpu& local : cards_) {
      check(cudaSetDevice(local.card.ordinal), "cudaSetDevice");
      local.clock.set(local.upload_stream.get());
    }
  }

  /// Queues the upload of a step's inputs; the step waits for it.
  void upload(int slot, const runtime::DeviceMemory& memory) {
    uploads_->queue(slot, memory, upload_streams_);
    for (const LocalGpu& local : cards_)
      order(local.upload_stream.get(), local.uploaded.get(), origin());
  }

  /// The stream on which a step begins and ends.
  Stream origin() const { return queue_->origin(); }

  processes::World* world() const { return placement_.world(); }

  /// The first step runs instruction by instruction, so that an error names its instruction, and so
  /// that libraries load their kernels before capture. Later steps are captured or queued. Of
  /// several processes none waits for an instruction: another one's may have to come first.
  void run(CudaMemory& memory, int slot) {
    for (std::size_t index = 0; index < devices_.size(); ++index)
      devices_[index]->place(memory.arenas[index], slot, device_metrics(slot));
    const bool checked = check_instructions_ || started_ == 0;
    launched_ = !checked || world();
    if (checked || !captures_) return queue_->queue(checked && !world());
    queue_->launch(captured_in(memory)[slot]);
  }

  /// Captured steps of this program.
  CapturedSteps& captured_in(CudaMemory& memory) {
    std::shared_ptr<CapturedSteps>& steps = memory.steps[number_];
    if (steps) return *steps;
    steps = std::make_shared<CapturedSteps>();
    std::erase_if(captured_, [](const auto& known) { return known.expired(); });
    captured_.push_back(steps);
    return *steps;
  }

  static std::uint64_t next_number() {
    static std::atomic<std::uint64_t> last{0};
    return ++last;
  }

  // ---- loading

  /// Equal products of replicas need equal algorithms, which are chosen by measured time. So of
  /// several processes those load first that have the first device of a mesh; all others take their
  /// choices.
  void load_in_turns(runtime::DevicesRequest& request) {
    if (!world())
      return load(request, cards_of_devices(static_cast<int>(request.programs.size())), "");
    const std::vector<int> cards = cards_of_launch(placement_, request.everyone);
    if (!request.tune) return load(request, cards, "");
    const bool leads = has_first_of_a_mesh(request.everyone);
    if (leads) load(request, cards, "");
    std::string choices;
    for (const LocalGpu& local : cards_)
      choices += local.products->choices() + local.dnn->choices();
    const std::vector<std::string> all = world()->all_gather(choices);
    if (!leads) load(request, cards, std::accumulate(all.rbegin(), all.rend(), std::string()));
  }

  bool has_first_of_a_mesh(std::span<const lower::DeviceProgram> everyone) const {
    std::set<int> meshes;
    bool has = false;
    for (const lower::DeviceProgram& program : everyone)
      if (meshes.insert(program.mesh).second) has = has || placement_.here(program.device);
    return has;
  }

  /// `cards`: the ordinal of each device's card. `choices`: of other processes; the last one of a
  /// key counts.
  void load(runtime::DevicesRequest& request, const std::vector<int>& cards,
            const std::string& choices) {
    for (const int ordinal : cards)
      if (cards_.empty() || cards_.back().card.ordinal != ordinal) {
        cards_.emplace_back(ordinal,
                            MatmulOptions{request.tf32, request.tune, request.tune, choices});
        cards_.back().card.keeps_nan = request.keeps_nan;
      }
    for (LocalGpu& local : cards_) local.free_before = free_bytes_of(local);
    for (std::size_t index = 0; index < cards.size(); ++index) {
      const LocalGpu& local = cards_[index % cards_.size()];
      check(cudaSetDevice(local.card.ordinal), "cudaSetDevice");
      std::vector<lower::Reported> published = published_by(request.programs[index]);
      devices_.push_back(std::make_unique<LoadedDevice>(
          program_, std::move(request.programs[index]), local.card, std::move(published)));
      if (record_times_) devices_.back()->record_times();
      upload_streams_.push_back(local.upload_stream.get());
    }
    for (LocalGpu& local : cards_) local.free_behind = free_bytes_of(local);
  }

  static std::int64_t free_bytes_of(const LocalGpu& local) {
    check(cudaSetDevice(local.card.ordinal), "cudaSetDevice");
    return free_bytes();
  }

  // ---- metrics: each from the first device that reports it

  /// The device's metrics that no earlier device reports.
  std::vector<lower::Reported> published_by(const lower::DeviceProgram& device) {
    std::vector<lower::Reported> published;
    for (const lower::Reported& reported : device.reported)
      if (published_.insert(reported.metric).second) published.push_back(reported);
    return published;
  }

  std::int64_t metrics_bytes() const {
    return kMetricBytes * static_cast<std::int64_t>(program_.graph.metrics.size());
  }

  /// The addresses to which the device writes them.
  std::byte* device_metrics(int slot) const {
    return metrics_ ? device_address(metrics_) + slot * metrics_bytes() : nullptr;
  }

  std::vector<double> metrics_of(int slot) const {
    const Graph& graph = program_.graph;
    std::vector<double> values(graph.metrics.size(), std::numeric_limits<double>::quiet_NaN());
    const std::byte* const from =
        static_cast<const std::byte*>(metrics_.get()) + slot * metrics_bytes();
    for (const int metric : published_)
      values[metric] =
          load_element(graph.type(graph.metrics[metric].value).dtype, from + metric * kMetricBytes);
    return values;
  }

  // ---- order and failures

  /// Runs on the stream of steps: after all started steps, before the next one.
  void transfer(int index, int buffer, void* to, const void* from) {
    const std::int64_t bytes = program(index).buffers[buffer].type.bytes();
    if (bytes == 0 || program(index).buffers[buffer].arena_offset < 0) return;
    guarded([&] {
      check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, origin()), "cudaMemcpyAsync");
      await([&] { return cudaStreamQuery(origin()); });
    });
  }

  /// Waits for work that all cards may take part in. Nothing is captured meanwhile.
  template <class Query>
  void await(Query&& query) const {
    wait_until_done(query, [&] {
      still_well();
      check(fault(), "waiting for the cards");
    });
  }

  /// The error of a card that CUDA refuses to use; cudaSuccess if there is none.
  cudaError_t fault() const {
    for (const auto& device : devices_) {
      cudaSetDevice(device->card().ordinal);
      const cudaError_t status = cudaStreamQuery(device->compute());
      if (status != cudaSuccess && status != cudaErrorNotReady) return status;
    }
    return cudaSuccess;
  }

  /// Called on the threads of all cards.
  void still_well() const {
    const std::lock_guard lock(still_well_);
    if (world()) world()->require_alive();
    queue_->check_health();
    watch_->look();
  }

  /// Runs `body`. After an exception no work is in flight, and other processes know of it. A card
  /// that CUDA refuses to use stays broken. So do several cards, because their groups were aborted.
  template <class Body>
  void guarded(Body&& body) {
    require(broken_.empty(), "the GPU is unusable since a step failed: {}; start the program anew",
            broken_);
    try {
      body();
    } catch (const Stalled& stall) {
      broken_ = stall.what();
      queue_->abort();
      end_stall();
      throw;
    } catch (const std::exception& error) {
      const bool under_way = started_ > finished_ || launched_, alone = !world() || !lost_peer();
      queue_->abort();
      drain();
      const cudaError_t status = fault();
      if (cards_.size() > 1 || world() || status != cudaSuccess) broken_ = error.what();
      if (!alone) await_failure();
      if (status == cudaSuccess || !under_way) {
        if (world()) world()->fail(std::current_exception());
        throw;
      }
      // The call that reported the error did not cause it.
      broken_ = fmt::format(
          "a step under way failed: {} ({}): {}; ExecutorOptions::check_instructions names the "
          "instruction",
          cudaGetErrorName(status), static_cast<int>(status), cudaGetErrorString(status));
      const Error failure(broken_);
      if (world()) world()->fail(std::make_exception_ptr(failure));
      throw failure;
    }
  }

  bool lost_peer() const {
    try {
      queue_->check_health();
      return false;
    } catch (const std::exception&) {
      return true;
    }
  }

  /// A group has lost a member of another process, which tells why; throws LaunchFailed then.
  void await_failure() const {
    constexpr auto kPatience = std::chrono::seconds(5);
    for (const auto begin = Clock::now(); Clock::now() - begin < kPatience;) {
      world()->require_alive();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  /// The collectives of a stalled step have been aborted. A card that is not done soon is given up.
  void end_stall() noexcept {
    constexpr auto kGrace = std::chrono::milliseconds(500);
    const auto is_done = [](const auto& device) { return device->is_done(); };
    for (const auto begin = Clock::now(); Clock::now() - begin < kGrace;) {
      if (std::all_of(devices_.begin(), devices_.end(), is_done)) return drain();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    *lost_ = true;
    finished_ = started_;
  }

  void drain() noexcept {
    finished_ = started_;
    for (const auto& device : devices_) {
      cudaSetDevice(device->card().ordinal);
      cudaDeviceSynchronize();
    }
    cudaGetLastError();
  }

  const std::uint64_t number_ = next_number();  ///< in the process, never given twice
  const spmd::SpmdProgram& program_;
  const runtime::Placement placement_;
  const bool check_instructions_, record_times_;
  bool captures_ = true;
  bool timed_ = false;  ///< the last step is over, and its instructions were recorded
  std::vector<LocalGpu> cards_;
  LoadedDevices devices_;
  std::unique_ptr<StepQueue> queue_;
  std::unique_ptr<Watch> watch_;
  /// A card did not come back from a stalled step; shared with its memory.
  std::shared_ptr<bool> lost_ = std::make_shared<bool>(false);
  std::unique_ptr<Uploads> uploads_;
  std::vector<Stream> upload_streams_;                  ///< per device
  std::set<int> published_;                             ///< metrics that the host reads
  std::array<EventHandle, lower::kStagedSteps> done_;   ///< by slot
  std::vector<std::weak_ptr<CapturedSteps>> captured_;  ///< of every memory handed out
  PinnedBlock metrics_;                                 ///< mapped, kStagedSteps parts
  mutable std::mutex still_well_;
  std::int64_t started_ = 0, finished_ = 0;  ///< steps
  /// the step that is being started may run already
  bool launched_ = false;
  std::string broken_;
};

}  // namespace

std::unique_ptr<runtime::Devices> make_devices(runtime::DevicesRequest request) {
  return std::make_unique<CudaDevices>(std::move(request));
}

}  // namespace alpa::cuda
