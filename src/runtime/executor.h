#pragma once
/// Runs device programs on the devices of a backend, with one arena per device and state. On the
/// CPU a device is a thread (the first is the caller's), with a second thread for started
/// collectives. On CUDA a device is a pair of streams of a GPU.
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "alpa/lower/executor_options.h"
#include "alpa/tensor/array.h"
#include "src/lower/lower_program.h"
#include "src/runtime/held_parts.h"
#include "src/runtime/step_times.h"

namespace alpa::runtime {

/// The arenas of all devices: parameters, optimizer state, accumulators and temporaries.
/// Made by `Executor::make_state`.
class DeviceState;

class Background;
class RunningStep;
class Executor;

/// Scalar inputs of a step, by name, as a function of its number (1 for the first).
using ScalarsOfStep = std::function<std::map<std::string, double>(std::int64_t step)>;

/// Sharing of states that another executor makes: used in place, in the same arenas.
struct StateSharing {
  const Executor* with = nullptr;  ///< the other executor; null: none
  bool same_step =
      false;  ///< both run the same step, on batches of different shapes: counted as one
};

/// Content of a state beside its tensors.
struct StateCounters {
  std::uint64_t seed = 0;
  std::vector<std::int64_t> steps;        ///< started so far, of each step that shares the state
  std::map<std::string, double> metrics;  ///< of the last run of the first of them
};

/// In a launch of several processes all make the same calls, in the same order, except those that
/// only ask for a plan's facts.
///
/// Thread rule: any thread may call; calls of one executor exclude each other, so steps that
/// several threads run on one state are serialised, each with its own number. Several executors may
/// run at once; those that share states take turns.
class Executor {
 public:
  /// Lowers `program` for every device and loads it. `program` is final: partitioned, fused,
  /// bucketed. A program of several meshes needs a schedule. `lowered` is reused if it was made
  /// from `program` for the same backend and options. With `sharing`, the state in `program` must
  /// have the layout it has there. Throws Error if this machine lacks the devices of `backend`
  /// ("cpu" or "cuda"), Bug if devices would deadlock (`verify_schedules`).
  explicit Executor(spmd::SpmdProgram program, ExecutorOptions options = {},
                    const std::string& backend = "cpu",
                    const pipeline::PipelineSchedule& schedule = {},
                    lower::LoweredProgram lowered = {}, const StateSharing& sharing = {});
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  /// Allocates arenas and initialises state: each device fills its own shard, as a function of
  /// (seed, name, global index). States serve all executors that share them, so load these first.
  /// Throws Error if allocation fails.
  std::shared_ptr<DeviceState> make_state(std::uint64_t seed) const;

  /// Starts one step on whole arrays `batch` (of batch and shared inputs) and `scalars`, both by
  /// input name; a scalar may also be an array of rank 0 in `batch`. `batch` may be reused once
  /// this returns. On CUDA this returns while the step runs, and the inputs of the next step are
  /// uploaded meanwhile; at most three steps are in flight. On the CPU it returns after the step;
  /// so does every step that returns tensors. Allocates nothing on devices (except inside oneDNN).
  /// Throws Error before anything runs on an unknown or missing input, a wrong type or shape. If a
  /// device fails, all stop, and one Error (or Bug) names device, instruction, operator, region and
  /// micro-batch where known. `state` is then unusable: later calls, including `read` and `write`,
  /// throw Error. The executor stays usable unless the GPU itself failed.
  RunningStep start(DeviceState& state, const BatchData& batch,
                    const std::map<std::string, double>& scalars);
  /// The same with scalars that depend on the step's number. `scalars` is called once, before the
  /// step starts, and must not call this executor.
  RunningStep start(DeviceState& state, const BatchData& batch, const ScalarsOfStep& scalars);
  /// `start`, then waits: returns the metrics by name.
  std::map<std::string, double> run(DeviceState& state, const BatchData& batch,
                                    const std::map<std::string, double>& scalars);

  /// True if this executor works on the states that `other` makes, or the reverse.
  bool shares_states_with(const Executor& other) const;
  /// The places of tensors in the states it works on, for programs that are to share them, and its
  /// own packing.
  lower::StateLayout layout_of_states() const;
  /// Steps started on `state` so far; executors that share it count their own.
  std::int64_t steps(const DeviceState& state) const;
  /// Reads (gathers) or replaces the whole content of a state input, after all started steps.
  /// Throws Error naming the known names, or if `state` is unusable.
  Array read(const DeviceState& state, const std::string& name) const;
  void write(DeviceState& state, const std::string& name, const Array& array) const;

  /// Throws Error unless all devices that hold the same part of `state` hold the same bits, after
  /// all started steps: names the first tensor that differs, with the devices.
  void check_replicas(const DeviceState& state) const;

  /// The boxes that make up a state, each once, with their places in a snapshot.
  const std::vector<StateBox>& state_boxes() const;
  /// The boxes of the state that devices of this process hold, with places in a snapshot of their
  /// own.
  const std::vector<StateBox>& state_boxes_here() const;
  /// From now on, steps on `state` throw what is recorded there, once, before they start. In a
  /// launch all processes do at the same step; each must add its own. Kept while others keep it.
  void add_background(DeviceState& state, const std::shared_ptr<Background>& background) const;
  /// Copies `boxes`, of `state_boxes` and held here, to a snapshot or from there into the state,
  /// after all started steps. `counters`: what else is restored; null: nothing. Throw Error if
  /// `state` is unusable.
  StateCounters snapshot(const DeviceState& state, const std::vector<StateBox>& boxes,
                         std::byte* to) const;
  void restore(DeviceState& state, const std::vector<StateBox>& boxes, const std::byte* from,
               const StateCounters* counters) const;

  const spmd::SpmdProgram& program() const;
  /// Program of device `index` among all devices, in the order of the program's meshes.
  const lower::DeviceProgram& device_program(int index) const;
  /// Peak bytes per device, maximum over devices: planned (including scratch per thread of a
  /// device), and measured on `state` (DeviceMemory::bytes_in_use).
  std::int64_t memory_bytes() const;
  /// Bytes outside of the arenas for messages with other processes, of all devices here.
  std::int64_t exchange_bytes() const;
  /// Bytes of the arenas of a state: the most that any executor needs which shares it.
  std::int64_t arena_bytes() const;
  std::int64_t measured_bytes(const DeviceState& state) const;
  /// Collective calls of the last step per kind, and the bytes sent by the formulas of `traffic`,
  /// from the tensors actually exchanged; of the busiest device.
  std::map<std::string, Traffic> measured_traffic() const;
  /// When instructions ran in the last step, per device, of all processes. Empty unless
  /// `ExecutorOptions::record_times` is set; nothing of a device before the first step.
  std::vector<DeviceTimes> times() const;

 private:
  friend class RunningStep;
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

/// A step that may still be running. Keeps its executor alive.
class RunningStep {
 public:
  /// The metrics by name; waits for the step. Throws the failure of this step, or of an
  /// earlier one on the same devices.
  const std::map<std::string, double>& metrics() const;
  /// The tensors that the step returned, by name. A step with outputs is over once it is returned.
  const std::map<std::string, Array>& outputs() const;

 private:
  friend class Executor;
  struct Step;
  RunningStep(std::shared_ptr<Executor::Impl> executor, std::shared_ptr<Step> step);
  std::shared_ptr<Executor::Impl> executor_;
  std::shared_ptr<Step> step_;
};

}  // namespace alpa::runtime
