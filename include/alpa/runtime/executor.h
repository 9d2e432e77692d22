#pragma once
/// Runs device programs: one thread per device (and one for its started collectives), one arena per device and state.
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "alpa/pipeline/device_program.h"
#include "alpa/tensor/array.h"

namespace alpa {

struct ExecutorOptions {
  int threads_per_device = 0;      ///< 0: usable cores / devices, at least 1
  bool overlap = true;             ///< communication thread for started collectives
  bool check_finite = false;       ///< a non-finite metric is an Error naming it and the step
  std::int64_t bucket_bytes = 1 << 20;
};

/// The arenas of all devices: parameters, optimizer state, accumulators and temporaries. Made by `Executor::make_state`.
class DeviceState;

class Executor {
 public:
  /// Lowers `program` for every device and starts their threads. Throws Error if a device's arena can't be had.
  Executor(SpmdProgram program, ExecutorOptions options);
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  /// New arenas; state inputs filled by their initialisers, each device its own shard, from (seed, name, global index).
  std::shared_ptr<DeviceState> make_state(std::uint64_t seed) const;

  /// One step: `batch` by input name (whole arrays), `scalars` by input name. Returns the metrics by name. Allocates nothing on device
  /// threads. Throws Error naming an unknown or missing input, wrong type or shape. If a device fails, all stop and one Error names device,
  /// region, micro-batch, instruction and operator; `state` is then unusable (each later run says so), the executor is not.
  std::map<std::string, double> run(DeviceState& state, const std::map<std::string, Array>& batch, const std::map<std::string, double>& scalars);

  /// Whole content of a state input, gathered; and its replacement. Throws Error naming the known names.
  Array read(const DeviceState& state, const std::string& name) const;
  void write(DeviceState& state, const std::string& name, const Array& array) const;

  const SpmdProgram& program() const;
  const DeviceProgram& device_program(int rank) const;
  /// Peak bytes per device, maximum over devices: as planned, and as measured since the last `make_state` by the device allocator.
  std::int64_t planned_bytes() const;
  std::int64_t measured_bytes(const DeviceState& state) const;
  /// Bytes each kind of collective really sent in the last step, from the group's own counters (per device, maximum).
  std::map<std::string, Traffic> measured_traffic() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace alpa
