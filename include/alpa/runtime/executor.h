#pragma once
/// Runs device programs on the devices of a backend, with one arena per device and state. On the CPU a
/// device is a thread, the first one the caller's (and one more each for started collectives), on CUDA a
/// pair of streams of a GPU.
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "alpa/lower/device_program.h"
#include "alpa/tensor/array.h"

namespace alpa {

/// When collectives run on a thread or stream of their own beside the work that follows them. Results are
/// bitwise the same.
enum class Overlap : std::uint8_t {
  automatic,  ///< CUDA: always; CPU: if there are more cores than devices (threads that share one gain
              ///< nothing)
  always,
  never,
};

/// CUDA: when a step of all devices is captured as one graph, which is one launch. Results are bitwise the
/// same.
enum class Capture : std::uint8_t {
  automatic,  ///< unless this process has several cards: NVIDIA warns of deadlocks when one thread captures
              ///< the collectives of several
  always,
  never,  ///< instructions are queued one by one, without waiting
};

struct ExecutorOptions {
  int threads_per_device = 0;  ///< 0: usable cores / devices, at least 1
  Overlap overlap = Overlap::automatic;
  /// A non-finite metric is an Error naming it and the step. On CUDA a NaN then also passes every relu;
  /// without, a product followed by relu may turn it into 0, as cuBLASLt does, and is sometimes faster.
  bool check_finite = false;
  std::int64_t bucket_bytes = 1 << 20;  ///< for `bucket_collectives`, per device
  Capture capture = Capture::automatic;
  /// CUDA, steps of one micro-batch: a layer's parameters are updated on a stream of low priority as soon
  /// as their gradients are there, beside the products of the layers before it. Else one kernel updates all
  /// of them at the end. Results are bitwise the same. Which is faster no card has shown yet.
  bool overlap_updates = false;
  /// CUDA: every step runs instruction by instruction, so that the one that fails is named; slow. The first
  /// step always does.
  bool check_instructions = false;
  /// CUDA: algorithms of matrix products, and whether what follows a product is part of it, are measured
  /// when a program is loaded, and remembered on disk. Else the library's first proposal is taken, with
  /// what follows, which is the same every time.
  bool tune = true;
  bool tf32 = false;  ///< CUDA: products of f32 may round their operands to TF32 (10 bits of mantissa)
};

/// The arenas of all devices: parameters, optimizer state, accumulators and temporaries. Made by
/// `Executor::make_state`.
class DeviceState;

class StepResult;

/// Scalars of a step, by input name, from its number: 1 for the first.
using ScalarsOfStep = std::function<std::map<std::string, double>(std::int64_t step)>;

/// Device programs of the first device of every class (lower/rank_classes.h), and for whom.
struct LoweredProgram {
  std::string backend;
  bool overlap = false;
  int threads = 1;  ///< per device
  std::vector<DeviceProgram> firsts;
};

/// What an executor with these options makes of `program` before it loads it.
LoweredProgram lower_program(const SpmdProgram& program, const ExecutorOptions& options,
                             std::string_view backend, const PipelineSchedule& schedule = {});

/// Thread rule: calls of one executor exclude each other, so steps that several threads run on one state
/// follow one another, each with a number of its own; several executors may run at once.
class Executor {
 public:
  /// Lowers `program` for every device and loads it. `program` is final: partitioned, fused, bucketed; one
  /// of several meshes needs a schedule. `lowered` is used if it was made of `program` for such an
  /// executor, and not made again. Throws Error if the backend, "cpu" or "cuda", has no such devices here,
  /// Bug if the devices would wait for each other (`verify_schedules`).
  explicit Executor(SpmdProgram program, ExecutorOptions options = {}, const std::string& backend = "cpu",
                    const PipelineSchedule& schedule = {}, LoweredProgram lowered = {});
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  /// New arenas; state inputs filled by their initialisers, each device its own shard, from (seed, name,
  /// global index). Throws Error if a device's arena can't be had.
  std::shared_ptr<DeviceState> make_state(std::uint64_t seed) const;

  /// Starts one step: `batch` by input name (whole arrays; copied, or used up, when this returns),
  /// `scalars` by input name. On CUDA it returns while the step runs, and the next one's inputs travel
  /// meanwhile; at most three steps are under way. On the CPU it returns when the step is over. Nothing is
  /// allocated on devices (but for what oneDNN allocates inside). Throws Error naming an unknown or missing
  /// input, wrong type or shape, before anything runs. If a device fails, all stop and one Error (Bug, if
  /// it was one) names device, instruction, operator, region and micro-batch where they are known; `state`
  /// is then unusable (each later call, `read` and `write` too, says so), the executor is not, unless the
  /// failure was the GPU's.
  StepResult start(DeviceState& state, const std::map<std::string, Array>& batch,
                   const std::map<std::string, double>& scalars);
  /// The same with scalars that depend on the step's number. `scalars` is called once, before the step
  /// starts, and must not call this executor.
  StepResult start(DeviceState& state, const std::map<std::string, Array>& batch,
                   const ScalarsOfStep& scalars);
  /// The same as the first, and waits: the metrics by name.
  std::map<std::string, double> run(DeviceState& state, const std::map<std::string, Array>& batch,
                                    const std::map<std::string, double>& scalars);

  /// Steps started on `state` so far.
  std::int64_t steps(const DeviceState& state) const;
  /// Whole content of a state input, gathered; and its replacement; after all steps that were started.
  /// Throws Error naming the known names, or if `state` is unusable.
  Array read(const DeviceState& state, const std::string& name) const;
  void write(DeviceState& state, const std::string& name, const Array& array) const;

  const SpmdProgram& program() const;
  /// Of the devices of this process, in the order of the program's meshes.
  const DeviceProgram& device_program(int index) const;
  /// Peak bytes per device, maximum over devices: as planned (some kernels need scratch for every thread of
  /// a device), and as measured on `state`, see DeviceMemory::bytes_in_use.
  std::int64_t planned_bytes() const;
  std::int64_t measured_bytes(const DeviceState& state) const;
  /// Calls of each kind of collective in the last step and, by the formulas of `traffic`, the bytes sent
  /// for the tensors that were really exchanged; of the device with the most.
  std::map<std::string, Traffic> measured_traffic() const;

 private:
  friend class StepResult;
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

/// A step that may still be running. Keeps its executor alive.
class StepResult {
 public:
  /// The metrics by name; waits for the step. Throws what went wrong in it, or in one before it on the same
  /// devices.
  const std::map<std::string, double>& metrics() const;

 private:
  friend class Executor;
  struct Step;
  StepResult(std::shared_ptr<Executor::Impl> executor, std::shared_ptr<Step> step);
  std::shared_ptr<Executor::Impl> executor_;
  std::shared_ptr<Step> step_;
};

}  // namespace alpa
