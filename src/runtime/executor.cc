// src/runtime/executor.cc — starts steps, and reads and writes state, on any backend
#include "src/runtime/executor.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <mutex>
#include <optional>
#include <type_traits>

#include "alpa/base/error.h"
#include "alpa/base/text.h"
#include "backend.h"
#include "held_parts.h"
#include "initialize.h"
#include "src/base/exception_text.h"
#include "src/base/thread_team.h"
#include "src/ir/input.h"
#include "src/lower/backend.h"
#include "src/lower/memory_plan.h"
#include "src/lower/rank_classes.h"
#include "src/runtime/devices.h"
#include "src/runtime/step_inputs.h"
#include "src/runtime/step_of_all.h"
#include "src/tensor/box_copy.h"
#include "src/train/data_hash.h"

namespace alpa::runtime {

/// A started step, and its outcome once it has ended.
struct RunningStep::Step {
  std::int64_t number = 0;
  std::shared_ptr<std::string> state_failure;  ///< of the state it runs on
  std::optional<std::map<std::string, double>> metrics;
  std::map<std::string, Array> outputs;
  std::vector<std::shared_ptr<Background>> background;  ///< of its state, when it started
  std::exception_ptr failure;

  bool over() const { return metrics || failure; }
};

struct Executor::Impl {
  Impl(spmd::SpmdProgram given, ExecutorOptions given_options, const lower::Backend& backend,
       const pipeline::PipelineSchedule& schedule, lower::LoweredProgram lowered,
       const StateSharing& sharing)
      : first(sharing.with ? first_of(sharing.with->impl_) : nullptr),
        program(std::move(given)),
        options(given_options) {
    const int n = static_cast<int>(spmd::devices_of(program).size());
    const int threads = lower::threads_per_device(backend, options, n);
    const int running = options.threads_per_device > 0 ? threads : usable_cores();
    DevicesRequest request{
        program, {}, threads, running, options.tf32, options.tune, options.check_instructions};
    if (options.capture != Capture::automatic) request.capture = options.capture == Capture::always;
    request.keeps_nan = options.check_finite;
    request.record_times = options.record_times;
    request.stall_seconds = options.stall_seconds;
    require(options.stall_seconds >= 0,
            "stall_seconds is {}; give 0, or more for devices to be watched",
            options.stall_seconds);
    const lower::StateLayout shared =
        first ? sharing.with->impl_->layout_of_states() : lower::StateLayout{};
    const lower::StateLayout* const state = first ? &shared : nullptr;
    if (lowered.backend != backend.name || lowered.threads != threads ||
        lowered.overlap != lower::overlaps(backend, options, n))
      lowered = lower::lower_program(program, options, backend.name, schedule, state);
    std::vector<lower::DeviceProgram> all =
        lower::programs_of_all(program, std::move(lowered.firsts), state);
    lower::verify_schedules(all, program);
    request.placement = placement = Placement(processes::world(), all);
    if (world()) request.everyone = everyone = all;
    std::erase_if(all, [&](const auto& device) { return !placement.here(device.device); });
    request.programs = std::move(all);
    inputs.batch.resize(program.graph.inputs.size());
    inputs.scalars.resize(program.graph.inputs.size());
    telling([&] { devices = make_devices(backend.name, std::move(request)); });
    for (int index = 0; index < n; ++index)
      programs.push_back(world() ? &everyone[index] : &devices->program(index));
    here = devices_here(programs, placement);
    for (const Input& input : program.graph.inputs)
      if (input.kind == InputKind::state) directory[input.name] = parts_of(input.value, programs);
    for (const Output& output : program.graph.outputs)
      returned[output.name] = parts_of(output.value, programs);
    Directory saved = directory;
    for (const auto& [name, copy] : copies) saved.erase(copy->name);
    boxes = boxes_of(saved, programs, placement);
    boxes_here = held_here(boxes);
    join(sharing);
  }

  processes::World* world() const { return placement.world(); }

  /// Tells the other processes of a call, in words, that all of them make. `hash`: of its data.
  template <class Text, class Hash>
  void note_call(Text&& text, Hash&& hash) const {
    if (world()) world()->note_call(text(), hash());
  }
  template <class Text>
  void note_call(Text&& text) const {
    note_call(text, [] { return 0; });
  }

  /// Returns call(). What it throws may be a failure of this process alone: the others are told.
  template <class Call>
  std::invoke_result_t<Call> telling(Call&& call) const {
    try {
      return call();
    } catch (...) {
      if (world()) world()->fail(std::current_exception());
      throw;
    }
  }

  int rank_of(int index) const { return placement.rank_of(programs[index]->device); }

  /// Steps under way end before another executor may use their states.
  ~Impl() {
    const std::lock_guard lock(home().mutex);
    if (home().active == this) activate(nullptr);
    if (devices->lost()) keep_forever();
  }

  /// Never destroys what lost threads may still use, not even at exit.
  void keep_forever() {
    using Lost = std::pair<std::unique_ptr<Devices>, std::shared_ptr<DeviceMemory>>;
    static std::mutex guard;
    static std::vector<Lost>& all = *new std::vector<Lost>;
    const std::lock_guard lock(guard);
    all.emplace_back(std::move(devices), std::move(lost_memory));
  }

  // ---- executors that share states

  static std::shared_ptr<Impl> first_of(const std::shared_ptr<Impl>& impl) {
    return impl->first ? impl->first : impl;
  }

  /// The one that makes the states.
  Impl& home() { return first ? *first : *this; }
  const Impl& home() const { return first ? *first : *this; }

  void join(const StateSharing& sharing) {
    if (!first) {
      arena_bytes = memory_bytes();
      return;
    }
    const std::lock_guard lock(first->mutex);
    step_number = sharing.same_step ? sharing.with->impl_->step_number : first->num_steps++;
    first->arena_bytes = std::max(first->arena_bytes, memory_bytes());
  }

  /// Waits until no executor but `next` has steps under way.
  void activate(Impl* next) {
    Impl*& active = home().active;
    if (active && active != next) active->settle_all();
    active = next;
  }

  /// Waits for every started step of all executors that share states.
  void settle_shared() {
    home().activate(&home());
    home().settle_all();
  }

  /// Called on the maker of states: locks it, with no step under way and `state` usable.
  std::unique_lock<std::mutex> at_rest(const DeviceState& state) {
    std::unique_lock lock(mutex);
    check_owner(state);
    settle_shared();
    require_usable(state);
    return lock;
  }

  /// Places of the states of the executor that makes them and of this program, by device.
  lower::StateLayout layout_of_states() const {
    lower::StateLayout layout;
    for (const Impl* of : {&home(), this})
      for (const lower::DeviceProgram* device : of->programs)
        layout.of_device[device->device].merge(lower::state_places(*device, of->program));
    return layout;
  }

  std::int64_t memory_bytes() const {
    std::int64_t bytes = 0;
    for (const lower::DeviceProgram* device : programs)
      bytes = std::max(bytes, device->arena_bytes);
    return bytes;
  }

  const Graph& graph() const { return program.graph; }

  // ---- state

  const Input& known_state(const std::string& name) const {
    const Input* input = find_state(graph(), name);
    if (input == nullptr)
      fail("no state is called \"{}\"; known are {}", name,
           quoted_names(input_names(graph(), InputKind::state)));
    return *input;
  }

  /// Waits for every started step: only then is it known which states are usable.
  void settle_all() {
    while (!under_way.empty()) settle();
  }

  void check_owner(const DeviceState& state) const {
    require(
        state.owner == home().number,
        "executor: this state was made by another executor; use the one whose make_state returned "
        "it");
  }

  std::shared_ptr<DeviceState> make_state(std::uint64_t seed) {
    auto state = std::make_shared<DeviceState>();
    state->seed = seed;
    state->owner = number;
    state->memory = devices->allocate(arena_bytes);
    state->arena_bytes = arena_bytes;
    fill_state(graph(), directory, programs, here, *devices, *state);
    return state;
  }

  /// Gives a state of this executor larger arenas, for a program that was loaded after it was made.
  /// Its content waits on the host, because the old and the new arenas may not fit at once. If
  /// allocation fails, throws Error and leaves the state as it was.
  void enlarge(DeviceState& state) {
    settle_shared();
    require_usable(state);
    const std::vector<StateBox> held = held_here(boxes_of(directory, programs, placement));
    std::vector<std::byte> content(snapshot_bytes(held));
    read_boxes(held, *devices, *state.memory, content.data());
    const auto place_in = [&](std::int64_t bytes) {
      state.memory = devices->allocate(bytes);
      state.arena_bytes = bytes;
      write_boxes(held, *devices, *state.memory, content.data());
    };
    const std::int64_t before = state.arena_bytes;
    state.memory.reset();
    try {
      place_in(arena_bytes);
    } catch (const Error& error) {
      *state.failure = error.what();
      place_in(before);
      state.failure->clear();
      throw;
    }
  }

  Array read(const DeviceState& state, const Input& input) {
    Array whole(graph().type(input.value));
    gather(state, directory.at(input.name), 0, whole.mutable_data());
    return whole;
  }

  /// The tensor of one micro-batch, put together from its parts, in every process.
  void gather(const DeviceState& state, const std::vector<HeldPart>& parts, int micro_batch,
              std::byte* whole) {
    std::vector<std::byte> host;
    for (const HeldPart& held : parts) {
      if (held.owner != held.device) continue;
      const KernelTensor part = part_in(host, held, programs);
      if (here.has(held.device))
        devices->read(*state.memory, held.device - here.first, held.buffer, micro_batch, part.data);
      if (world()) world()->broadcast(part.data, part.type.bytes(), rank_of(held.device));
      const Shape origin(part.offset.size(), 0);
      BoxCopy::make(part.type.shape, origin, part.global_shape, part.offset, part.type.shape)
          .copy(part.data, whole, size_of(part.type.dtype));
    }
  }

  /// The outputs of the last step on `state`; the next one has not begun.
  std::map<std::string, Array> outputs_of(const DeviceState& state) {
    std::map<std::string, Array> outputs;
    for (const Output& output : graph().outputs) {
      TensorType type = graph().type(output.value);
      const std::int64_t bytes = type.bytes();
      const int runs = runs_per_step(graph(), graph().producer(output.value));
      type.shape[0] *= runs;
      Array whole(type);
      for (int m = 0; m < runs; ++m)
        gather(state, returned.at(output.name), m, whole.mutable_data() + m * bytes);
      outputs.emplace(output.name, std::move(whole));
    }
    return outputs;
  }

  /// A state and its copies.
  void write(DeviceState& state, const Input& input, const Array& array) {
    const DType dtype = graph().type(input.value).dtype;
    write_parts(array.dtype() == dtype ? array : array.cast(dtype), directory.at(input.name),
                programs, here, *devices, *state.memory);
    for (const auto& [name, copy] : copies)
      if (name == input.name) write(state, *copy, array);
  }

  /// All copies, of what has been restored. Every process calls it.
  void write_copies(DeviceState& state) {
    for (const auto& [name, copy] : copies) write(state, *copy, read(state, known_state(name)));
  }

  // ---- steps

  /// The number of steps of this kind that the state has seen.
  std::int64_t& steps_of(DeviceState& state) const {
    const auto number = static_cast<std::size_t>(step_number);
    if (state.steps.size() <= number) state.steps.resize(number + 1);
    return state.steps[number];
  }

  /// Bytes that the arenas must have. Larger ones lose what `home` lacks, so it comes after them.
  std::int64_t bytes_to_start() const {
    const auto is_own = [&](const auto& held) { return !home().directory.contains(held.first); };
    return std::ranges::any_of(directory, is_own) ? home().arena_bytes : memory_bytes();
  }

  /// Starts a step; when too many would be under way, waits for the oldest first.
  std::shared_ptr<RunningStep::Step> start(DeviceState& state) {
    if (state.arena_bytes < bytes_to_start()) home().enlarge(state);
    activate(this);
    while (static_cast<int>(under_way.size()) >= devices->depth()) settle();
    require_usable(state);
    inputs.seed = state.seed;
    inputs.step = steps_of(state) + 1;
    auto step = std::make_shared<RunningStep::Step>();
    step->number = inputs.step;
    step->state_failure = state.failure;
    step->background = kept(state.background);
    if (step_number == 0) state.metrics = {step, &step->metrics};
    under_way.push_back(step);
    try {
      devices->start(*state.memory, inputs);
      steps_of(state) = inputs.step;
    } catch (...) {
      abandon(std::current_exception());
    }
    if (devices->lost() && !lost_memory) lost_memory = state.memory;  // of the step that stalled
    return step;
  }

  /// Waits for the oldest step. If it failed, so did all that were started after it.
  void settle() {
    try {
      std::vector<double> values = devices->finish();
      if (world()) share_metrics(values, programs, placement, under_way.front()->background);
      std::map<std::string, double> metrics;
      for (std::size_t i = 0; i < values.size(); ++i) metrics[graph().metrics[i].name] = values[i];
      under_way.front()->metrics = std::move(metrics);
      under_way.pop_front();
    } catch (...) {
      abandon(std::current_exception());
    }
  }

  void abandon(const std::exception_ptr& failure) {
    for (const auto& step : under_way) {
      step->failure = failure;
      *step->state_failure = text_of(failure);
    }
    under_way.clear();
  }

  static void require_usable(const DeviceState& state) {
    require(
        state.failure->empty(),
        "this state is unusable since a step failed: {}; make a new one or restore a checkpoint",
        *state.failure);
  }

  const std::map<std::string, double>& metrics_of(RunningStep::Step& step) {
    while (!step.over()) settle();
    if (step.failure) std::rethrow_exception(step.failure);
    if (options.check_finite) check_finite(*step.metrics, step.number);
    return *step.metrics;
  }

  static std::uint64_t next_number() {
    static std::atomic<std::uint64_t> last{0};
    return ++last;
  }

  /// of this executor in the process, never given twice
  const std::uint64_t number = next_number();
  const std::shared_ptr<Impl> first;  ///< the one that makes the states; null: this one does
  int step_number = 0;                ///< among the steps that share states
  spmd::SpmdProgram program;
  ExecutorOptions options;
  StepInputs inputs;
  std::mutex mutex;
  std::unique_ptr<Devices> devices;
  std::shared_ptr<DeviceMemory> lost_memory;  ///< of the step from which a device did not return
  Placement placement;
  std::vector<lower::DeviceProgram> everyone;  ///< of all processes; empty if there is one
  Programs programs;                           ///< of all devices
  DevicesHere here;
  Directory directory, returned;            ///< of state and of outputs
  std::vector<StateBox> boxes, boxes_here;  ///< of the state, without copies
  StateCopies copies = copies_by_state(program.graph);
  std::deque<std::shared_ptr<RunningStep::Step>> under_way;  ///< oldest first

  // Used in the executor that makes the states; its mutex guards all executors that share them:
  int num_steps = 1;
  std::int64_t arena_bytes = 0;  ///< per device
  Impl* active = nullptr;        ///< may have steps under way
};

RunningStep::RunningStep(std::shared_ptr<Executor::Impl> executor, std::shared_ptr<Step> step)
    : executor_(std::move(executor)), step_(std::move(step)) {}

const std::map<std::string, double>& RunningStep::metrics() const {
  const std::lock_guard lock(executor_->home().mutex);
  return executor_->metrics_of(*step_);
}

const std::map<std::string, Array>& RunningStep::outputs() const { return step_->outputs; }

Executor::Executor(spmd::SpmdProgram program, ExecutorOptions options, const std::string& backend,
                   const pipeline::PipelineSchedule& schedule, lower::LoweredProgram lowered,
                   const StateSharing& sharing)
    : impl_(std::make_shared<Impl>(std::move(program), options, lower::find_backend(backend),
                                   schedule, std::move(lowered), sharing)) {}
Executor::~Executor() = default;

std::shared_ptr<DeviceState> Executor::make_state(std::uint64_t seed) const {
  const std::lock_guard lock(impl_->home().mutex);
  impl_->note_call([&] { return fmt::format("init(seed {})", seed); });
  return impl_->telling([&] { return impl_->home().make_state(seed); });
}

RunningStep Executor::start(DeviceState& state, const BatchData& batch,
                            const std::map<std::string, double>& scalars) {
  return start(state, batch, [&](std::int64_t) { return scalars; });
}

RunningStep Executor::start(DeviceState& state, const BatchData& batch,
                            const ScalarsOfStep& scalars) {
  const std::lock_guard lock(impl_->home().mutex);
  impl_->check_owner(state);
  Impl::require_usable(state);
  for (const auto& background : kept(state.background))
    impl_->world() ? background->rethrow_agreed() : background->rethrow_any();
  const std::int64_t number = impl_->steps_of(state) + 1;
  const std::map<std::string, double> numbers = scalars(number);
  impl_->note_call([&] { return run_text(number, batch, numbers); },
                   [&] { return hash_of(batch); });
  take_inputs(impl_->graph(), batch, numbers, impl_->inputs);
  std::shared_ptr<RunningStep::Step> step = impl_->start(state);
  const bool returns = !impl_->graph().outputs.empty();
  if (impl_->options.check_finite || impl_->devices->depth() == 1 || returns)
    impl_->metrics_of(*step);
  if (returns) step->outputs = impl_->outputs_of(state);
  return RunningStep(impl_, std::move(step));
}

std::map<std::string, double> Executor::run(DeviceState& state, const BatchData& batch,
                                            const std::map<std::string, double>& scalars) {
  return start(state, batch, scalars).metrics();
}

std::int64_t Executor::steps(const DeviceState& state) const {
  const std::lock_guard lock(impl_->home().mutex);
  impl_->check_owner(state);
  const auto number = static_cast<std::size_t>(impl_->step_number);
  return number < state.steps.size() ? state.steps[number] : 0;
}

bool Executor::shares_states_with(const Executor& other) const {
  return &impl_->home() == &other.impl_->home();
}

lower::StateLayout Executor::layout_of_states() const {
  lower::StateLayout layout = impl_->layout_of_states();
  for (const lower::DeviceProgram* device : impl_->programs)
    layout.packing[device->device] = lower::packing_of(*device);
  return layout;
}

Array Executor::read(const DeviceState& state, const std::string& name) const {
  Impl& home = impl_->home();
  const auto lock = home.at_rest(state);
  const Input& input = home.known_state(name);
  home.note_call([&] { return fmt::format("reading \"{}\"", name); });
  return home.read(state, input);
}

void Executor::write(DeviceState& state, const std::string& name, const Array& array) const {
  Impl& home = impl_->home();
  const auto lock = home.at_rest(state);
  const Input& input = home.known_state(name);
  const TensorType& type = home.graph().type(input.value);
  require(array.type() == type, "state \"{}\" is {}, but the array is {}", name, to_string(type),
          to_string(array.type()));
  home.note_call([&] { return fmt::format("writing \"{}\"", name); },
                 [&] {
                   return hash_of({{name, array}});
                 });
  home.write(state, input, array);
}

void Executor::check_replicas(const DeviceState& state) const {
  Impl& home = impl_->home();
  const auto lock = home.at_rest(state);
  home.note_call([] { return "comparing replicas"; });
  runtime::check_replicas(home.directory, home.programs, home.placement, *home.devices,
                          *state.memory, state.steps.empty() ? 0 : state.steps.front());
}

const std::vector<StateBox>& Executor::state_boxes() const { return impl_->home().boxes; }

const std::vector<StateBox>& Executor::state_boxes_here() const { return impl_->home().boxes_here; }

void Executor::add_background(DeviceState& state,
                              const std::shared_ptr<Background>& background) const {
  const std::lock_guard lock(impl_->home().mutex);
  runtime::add_background(state.background, background);
}

StateCounters Executor::snapshot(const DeviceState& state, const std::vector<StateBox>& boxes,
                                 std::byte* to) const {
  Impl& home = impl_->home();
  const auto lock = home.at_rest(state);
  home.telling([&] { read_boxes(boxes, *home.devices, *state.memory, to); });
  StateCounters counters{state.seed, state.steps, {}};
  if (state.metrics && *state.metrics) counters.metrics = **state.metrics;
  return counters;
}

void Executor::restore(DeviceState& state, const std::vector<StateBox>& boxes,
                       const std::byte* from, const StateCounters* counters) const {
  Impl& home = impl_->home();
  const auto lock = home.at_rest(state);
  home.telling([&] {
    write_boxes(boxes, *home.devices, *state.memory, from);
    home.write_copies(state);
  });
  if (counters) state.seed = counters->seed, state.steps = counters->steps;
}

const spmd::SpmdProgram& Executor::program() const { return impl_->program; }

const lower::DeviceProgram& Executor::device_program(int index) const {
  return *impl_->programs.at(index);
}

std::int64_t Executor::memory_bytes() const { return impl_->memory_bytes(); }

std::int64_t Executor::arena_bytes() const {
  const std::lock_guard lock(impl_->home().mutex);
  return impl_->home().arena_bytes;
}

std::int64_t Executor::measured_bytes(const DeviceState& state) const {
  std::int64_t bytes = 0;
  for (int device = 0; state.memory && device < impl_->here.count; ++device)
    bytes = std::max(bytes, state.memory->bytes_in_use(device));
  impl_->note_call([] { return "measured_bytes"; });
  return impl_->world() ? impl_->world()->largest(bytes) : bytes;
}

std::int64_t Executor::exchange_bytes() const {
  const std::int64_t bytes = impl_->devices->exchange_bytes();
  impl_->note_call([] { return "exchange_bytes"; });
  return impl_->world() ? impl_->world()->largest(bytes) : bytes;
}

std::vector<DeviceTimes> Executor::times() const {
  if (!impl_->options.record_times) return {};
  const std::lock_guard lock(impl_->home().mutex);
  impl_->note_call([] { return "the times of a step"; });
  if (impl_->world())
    return times_of_all(*impl_->devices, impl_->here, impl_->programs, *impl_->world());
  std::vector<DeviceTimes> times;
  for (int device = 0; device < impl_->here.count; ++device)
    times.push_back(impl_->devices->times(device));
  return times;
}

std::map<std::string, Traffic> Executor::measured_traffic() const {
  const std::lock_guard lock(impl_->home().mutex);
  impl_->note_call([] { return "measured_traffic"; });
  return runtime::measured_traffic(*impl_->devices, impl_->here.count, impl_->world());
}

}  // namespace alpa::runtime
