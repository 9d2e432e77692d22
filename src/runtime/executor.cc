// src/runtime/executor.cc — devices as threads, steps, and state read and written whole
#include "alpa/runtime/executor.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <mutex>

#include "alpa/base/error.h"
#include "alpa/base/thread_team.h"
#include "alpa/ir/input.h"
#include "alpa/runtime/device_state.h"
#include "alpa/runtime/memory_plan.h"
#include "crew.h"
#include "device.h"
#include "initialize.h"

namespace alpa {
namespace {

int threads_of(const ExecutorOptions& options, int num_devices) {
  require(options.threads_per_device >= 0,
          "executor: {} threads per device; give 0 for as many as there are cores, or more",
          options.threads_per_device);
  return options.threads_per_device > 0 ? options.threads_per_device
                                        : std::max(1, usable_cores() / num_devices);
}

template <class Map>
std::string known_names(const Map& names) {
  std::string text;
  for (const auto& name : names) text += (text.empty() ? "\"" : ", \"") + name + "\"";
  return text.empty() ? "none" : text;
}

std::vector<std::string> names_of(const Graph& graph, InputKind kind) {
  std::vector<std::string> names;
  for (const Input& input : graph.inputs)
    if (input.kind == kind) names.push_back(input.name);
  return names;
}

/// The type of the whole batch array of an input: all micro-batches along dimension 0.
TensorType batch_type(const Graph& graph, const Input& input) {
  TensorType type = graph.type(input.value);
  if (!type.shape.empty()) type.shape[0] *= graph.num_micro_batches;
  return type;
}

/// Ranks whose shard of `spec` is not that of a lower rank: those at coordinate 0 of every axis that does
/// not split.
bool is_owner(const DeviceMesh& mesh, const ShardingSpec& spec, int rank) {
  const std::vector<int> at = mesh.coordinates(rank);
  for (int axis = 0; axis < mesh.num_axes(); ++axis)
    if (at[axis] != 0 && spec.axes[axis].kind != AxisPlacement::Kind::split) return false;
  return true;
}

int owner_of(const DeviceMesh& mesh, const ShardingSpec& spec, int rank) {
  std::vector<int> at = mesh.coordinates(rank);
  for (int axis = 0; axis < mesh.num_axes(); ++axis)
    if (spec.axes[axis].kind != AxisPlacement::Kind::split) at[axis] = 0;
  return mesh.rank(at);
}

}  // namespace

bool overlaps(const ExecutorOptions& options, int num_devices) {
  if (options.overlap == Overlap::automatic) return usable_cores() > num_devices;
  return options.overlap == Overlap::always;
}

struct Executor::Impl {
  Impl(SpmdProgram given, ExecutorOptions given_options)
      : program(std::move(given)), options(given_options) {
    const int n = program.mesh.num_devices(), threads = threads_of(options, n);
    const Surroundings surroundings{program, groups, communication_groups, failure};
    for (int rank = 0; rank < n; ++rank)
      devices.push_back(
          std::make_unique<Device>(lower(program, rank, overlaps(options, n)), surroundings, threads));
    const bool communicates = std::any_of(devices.begin(), devices.end(),
                                          [](const auto& device) { return device->communicates(); });
    inputs.batch.resize(program.graph.inputs.size());
    inputs.scalars.resize(program.graph.inputs.size());
    crew = std::make_unique<Crew>(communicates ? 2 * n : n);
  }

  int num_devices() const { return static_cast<int>(devices.size()); }
  const Graph& graph() const { return program.graph; }

  // ---- state

  const Input& find_state(const std::string& name) const {
    for (const Input& input : graph().inputs)
      if (input.kind == InputKind::state && input.name == name) return input;
    fail("no state is called \"{}\"; known are {}", name, known_names(names_of(graph(), InputKind::state)));
  }

  KernelTensor shard(const DeviceState& state, const Input& input, int rank) const {
    const DeviceProgram& device = devices[rank]->program();
    const Buffer& buffer = device.buffers[device.buffer_of_value[input.value]];
    std::byte* data = buffer.arena_offset >= 0 ? state.arenas[rank] + buffer.arena_offset : nullptr;
    return {data, buffer.type, buffer.offset, buffer.global_shape};
  }

  void check_owner(const DeviceState& state) const {
    require(state.owner == number,
            "executor: this state was made by another executor; use the one whose make_state returned it");
  }

  std::shared_ptr<DeviceState> allocate(std::uint64_t seed) const {
    auto state = std::make_shared<DeviceState>();
    state->seed = seed;
    state->owner = number;
    for (const auto& device : devices) {
      const std::int64_t bytes = device->program().arena_bytes;
      state->allocators.emplace_back();
      state->arenas.push_back(state->allocators.back().allocate(bytes));
      require(state->arenas.back() != nullptr,
              "device {}: no memory for an arena of {} bytes; use more devices, a memory budget or more "
              "micro-batches",
              device->program().rank, bytes);
    }
    return state;
  }

  /// Owners of a shard draw it, the others copy it from them.
  void fill(const DeviceState& state) {
    for (const bool owners : {true, false})
      crew->run([&](int rank) {
        if (rank >= num_devices()) return;
        for (const Input& input : graph().inputs)
          if (input.kind == InputKind::state) fill_shard(state, input, rank, owners);
      });
  }

  void fill_shard(const DeviceState& state, const Input& input, int rank, bool owners) {
    const ShardingSpec& spec = program.specs[input.value];
    if (is_owner(program.mesh, spec, rank) != owners) return;
    const KernelTensor tensor = shard(state, input, rank);
    if (owners)
      return initialize(tensor, input.name, graph().producer(input.value).attributes, state.seed,
                        devices[rank]->team());
    const KernelTensor source = shard(state, input, owner_of(program.mesh, spec, rank));
    std::copy_n(source.data, tensor.type.bytes(), tensor.data);
  }

  // ---- steps

  void take_batch(const std::map<std::string, Array>& batch) {
    const std::vector<std::string> names = names_of(graph(), InputKind::batch);
    for (const auto& [name, array] : batch)
      require(std::find(names.begin(), names.end(), name) != names.end(),
              "no batch input is called \"{}\"; known are {}", name, known_names(names));
    for (std::size_t i = 0; i < graph().inputs.size(); ++i) {
      const Input& input = graph().inputs[i];
      if (input.kind != InputKind::batch) continue;
      const TensorType type = batch_type(graph(), input);
      const auto given = batch.find(input.name);
      require(given != batch.end(), "batch input \"{}\" is missing; give an array of type {}", input.name,
              to_string(type));
      require(given->second.type() == type, "batch input \"{}\" is {}, but the step takes {}", input.name,
              to_string(given->second.type()), to_string(type));
      inputs.batch[i] = given->second.data();
    }
  }

  void take_scalars(const std::map<std::string, double>& scalars) {
    const std::vector<std::string> names = names_of(graph(), InputKind::scalar);
    for (const auto& [name, value] : scalars)
      require(std::find(names.begin(), names.end(), name) != names.end(),
              "no scalar input is called \"{}\"; known are {}", name, known_names(names));
    for (std::size_t i = 0; i < graph().inputs.size(); ++i) {
      const Input& input = graph().inputs[i];
      if (input.kind != InputKind::scalar) continue;
      const auto given = scalars.find(input.name);
      require(given != scalars.end(), "scalar input \"{}\" is missing; give it a value", input.name);
      inputs.scalars[i] = given->second;
    }
  }

  void run_devices(DeviceState& state) {
    inputs.seed = state.seed;
    inputs.step = state.steps + 1;
    groups.reset_counts();
    communication_groups.reset_counts();
    for (int rank = 0; rank < num_devices(); ++rank) {
      devices[rank]->place(state.arenas[rank]);
      devices[rank]->prepare_step();
    }
    crew->run([&](int index) {
      const bool done = index < num_devices() ? devices[index]->step(inputs)
                                              : devices[index - num_devices()]->communicate();
      if (!done) stop();
    });
  }

  /// Called on the thread that failed or was stopped; wakes everybody else.
  void stop() {
    groups.abort();
    communication_groups.abort();
    for (auto& device : devices) device->stop();
  }

  [[noreturn]] void give_up(DeviceState& state) {
    groups.renew();
    communication_groups.renew();
    state.failure = failure.message();
    failure.rethrow();
  }

  std::map<std::string, double> metrics(const DeviceState& state) const {
    std::map<std::string, double> values;
    const DeviceProgram& device = devices[0]->program();
    for (std::size_t i = 0; i < graph().metrics.size(); ++i) {
      const Buffer& buffer = device.buffers[device.reported[i]];
      values[graph().metrics[i].name] =
          load_element(buffer.type.dtype, state.arenas[0] + buffer.arena_offset);
    }
    return values;
  }

  void check_finite(const std::map<std::string, double>& values, std::int64_t step) const {
    if (!options.check_finite) return;
    for (const auto& [name, value] : values)
      require(std::isfinite(value),
              "metric \"{}\" is {} in step {}; lower the learning rate, clip gradients, or look for a "
              "division by zero or log of 0",
              name, std::isnan(value) ? std::abs(value) : value, step);
  }

  static std::uint64_t next_number() {
    static std::atomic<std::uint64_t> last{0};
    return ++last;
  }

  const std::uint64_t number = next_number();  ///< of this executor in the process, never given twice
  SpmdProgram program;
  ExecutorOptions options;
  Groups groups, communication_groups;
  Failure failure;
  std::vector<std::unique_ptr<Device>> devices;
  StepInputs inputs;
  std::mutex mutex;
  std::unique_ptr<Crew> crew;  ///< last: its threads use all of the above
};

Executor::Executor(SpmdProgram program, ExecutorOptions options)
    : impl_(std::make_unique<Impl>(std::move(program), options)) {}
Executor::~Executor() = default;

std::shared_ptr<DeviceState> Executor::make_state(std::uint64_t seed) const {
  const std::lock_guard lock(impl_->mutex);
  std::shared_ptr<DeviceState> state = impl_->allocate(seed);
  impl_->fill(*state);
  return state;
}

std::map<std::string, double> Executor::run(DeviceState& state, const std::map<std::string, Array>& batch,
                                            const std::map<std::string, double>& scalars) {
  const std::lock_guard lock(impl_->mutex);
  impl_->check_owner(state);
  require(state.failure.empty(),
          "this state is unusable since a step failed: {}; make a new one or restore a checkpoint",
          state.failure);
  impl_->take_batch(batch);
  impl_->take_scalars(scalars);
  impl_->run_devices(state);
  if (impl_->failure.any()) impl_->give_up(state);
  ++state.steps;
  std::map<std::string, double> values = impl_->metrics(state);
  impl_->check_finite(values, state.steps);
  return values;
}

Array Executor::read(const DeviceState& state, const std::string& name) const {
  const std::lock_guard lock(impl_->mutex);
  impl_->check_owner(state);
  const Input& input = impl_->find_state(name);
  Array whole(impl_->graph().type(input.value));
  for (int rank = 0; rank < impl_->num_devices(); ++rank) {
    if (!is_owner(impl_->program.mesh, impl_->program.specs[input.value], rank)) continue;
    const KernelTensor shard = impl_->shard(state, input, rank);
    const Shape origin(shard.offset.size(), 0);
    BoxCopy::make(shard.type.shape, origin, shard.global_shape, shard.offset, shard.type.shape)
        .copy(shard.data, whole.mutable_data(), size_of(shard.type.dtype));
  }
  return whole;
}

void Executor::write(DeviceState& state, const std::string& name, const Array& array) const {
  const std::lock_guard lock(impl_->mutex);
  impl_->check_owner(state);
  const Input& input = impl_->find_state(name);
  const TensorType& type = impl_->graph().type(input.value);
  require(array.type() == type, "state \"{}\" is {}, but the array is {}", name, to_string(type),
          to_string(array.type()));
  for (int rank = 0; rank < impl_->num_devices(); ++rank) {
    const KernelTensor shard = impl_->shard(state, input, rank);
    const Shape origin(shard.offset.size(), 0);
    BoxCopy::make(shard.global_shape, shard.offset, shard.type.shape, origin, shard.type.shape)
        .copy(array.data(), shard.data, size_of(shard.type.dtype));
  }
}

const SpmdProgram& Executor::program() const { return impl_->program; }

const DeviceProgram& Executor::device_program(int rank) const { return impl_->devices.at(rank)->program(); }

std::int64_t Executor::planned_bytes() const {
  std::int64_t bytes = 0;
  for (const auto& device : impl_->devices) bytes = std::max(bytes, device->program().arena_bytes);
  return bytes;
}

std::int64_t Executor::measured_bytes(const DeviceState& state) const {
  std::int64_t bytes = 0;
  for (const DeviceAllocator& allocator : state.allocators)
    bytes = std::max(bytes, allocator.bytes_in_use());
  return bytes;
}

std::map<std::string, Traffic> Executor::measured_traffic() const {
  constexpr std::pair<comm::Operation, CollectiveKind> kKinds[] = {
      {comm::Operation::all_reduce, CollectiveKind::all_reduce},
      {comm::Operation::all_gather, CollectiveKind::all_gather},
      {comm::Operation::reduce_scatter, CollectiveKind::reduce_scatter},
      {comm::Operation::all_to_all, CollectiveKind::all_to_all}};
  const std::lock_guard lock(impl_->mutex);
  std::map<std::string, Traffic> most;
  for (int rank = 0; rank < impl_->num_devices(); ++rank) {
    std::map<std::string, Traffic> own;
    for (const Groups* groups : {&impl_->groups, &impl_->communication_groups})
      for (const auto& [size, counts] : groups->counts(rank))
        for (const auto& [operation, kind] : kKinds) {
          const comm::Count& count = counts[static_cast<int>(operation)];
          if (count.calls == 0) continue;
          Traffic& entry = own[std::string(name_of(kind))];
          entry.count += count.calls;
          entry.bytes += collective_sent_bytes(kind, static_cast<double>(count.payload_bytes), size);
        }
    for (const auto& [name, entry] : own) {
      most[name].count = std::max(most[name].count, entry.count);
      most[name].bytes = std::max(most[name].bytes, entry.bytes);
    }
  }
  return most;
}

}  // namespace alpa
