#pragma once
/// Runs device programs: one thread per device (and one for its started collectives), one arena per device
/// and state.
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "alpa/pipeline/device_program.h"
#include "alpa/tensor/array.h"

namespace alpa {

/// When collectives run on a thread of their own beside the work that follows them. Results are bitwise the
/// same.
enum class Overlap : std::uint8_t {
  automatic,  ///< if there are more cores than devices: threads that share a core gain nothing
  always,
  never,
};

struct ExecutorOptions {
  int threads_per_device = 0;  ///< 0: usable cores / devices, at least 1
  Overlap overlap = Overlap::automatic;
  bool check_finite = false;            ///< a non-finite metric is an Error naming it and the step
  std::int64_t bucket_bytes = 1 << 20;  ///< for `bucket_collectives`, per device
};

/// What `options.overlap` means for so many devices of this process.
bool overlaps(const ExecutorOptions& options, int num_devices);

/// The arenas of all devices: parameters, optimizer state, accumulators and temporaries. Made by
/// `Executor::make_state`.
class DeviceState;

/// Thread rule: calls of one executor exclude each other; several executors may run at once.
class Executor {
 public:
  /// Lowers `program` for every device and starts their threads. `program` is final: partitioned, fused,
  /// bucketed.
  explicit Executor(SpmdProgram program, ExecutorOptions options = {});
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  /// New arenas; state inputs filled by their initialisers, each device its own shard, from (seed, name,
  /// global index). Throws Error if a device's arena can't be had.
  std::shared_ptr<DeviceState> make_state(std::uint64_t seed) const;

  /// One step: `batch` by input name (whole arrays), `scalars` by input name. Returns the metrics by name.
  /// Nothing is allocated on device threads (but for what oneDNN allocates inside). Throws Error naming an
  /// unknown or missing input, wrong type or shape, before anything runs. If a device fails, all stop and
  /// one Error (Bug, if it was one) names device, instruction, operator, region and micro-batch; `state` is
  /// then unusable (each later run says so), the executor is not.
  std::map<std::string, double> run(DeviceState& state, const std::map<std::string, Array>& batch,
                                    const std::map<std::string, double>& scalars);

  /// Whole content of a state input, gathered; and its replacement. Throws Error naming the known names.
  Array read(const DeviceState& state, const std::string& name) const;
  void write(DeviceState& state, const std::string& name, const Array& array) const;

  const SpmdProgram& program() const;
  const DeviceProgram& device_program(int rank) const;
  /// Peak bytes per device, maximum over devices: as planned, and as handed out by the devices' allocators
  /// for `state`.
  std::int64_t planned_bytes() const;
  std::int64_t measured_bytes(const DeviceState& state) const;
  /// Calls of each kind of collective in the last step and, by the formulas of `traffic`, the bytes sent
  /// for the tensors that were really exchanged; of the device with the most.
  std::map<std::string, Traffic> measured_traffic() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace alpa
