#pragma once
/// The seam between the executor and what runs device programs: threads of the CPU (src/runtime), or
/// streams of CUDA devices (src/cuda, in a library of its own).
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "alpa/comm/group.h"
#include "alpa/lower/device_program.h"
#include "alpa/runtime/device_state.h"

namespace alpa {

/// What a step is run on; the same for all devices.
struct StepInputs {
  std::vector<const std::byte*> batch;  ///< per graph input, null for others: the whole array, host memory
  std::vector<double> scalars;          ///< per graph input
  std::uint64_t seed = 0;
  std::int64_t step = 0;
};

/// What devices are made of.
struct DevicesRequest {
  const SpmdProgram& program;           ///< outlives them
  std::vector<DeviceProgram> programs;  ///< of this process, memory planned by the backend's rules
  int threads_per_device = 1;           ///< CPU
  bool tf32 = false;                    ///< CUDA: f32 products may round their operands to TF32
  bool tune = true;                     ///< CUDA: choose matrix products by measured time
  bool check_instructions = false;      ///< CUDA: wait after every instruction of every step
  std::optional<bool> capture = {};     ///< CUDA: steps become graphs; nothing: on one card
  bool keeps_nan = false;               ///< CUDA: relu of a NaN is NaN, not 0
};

/// The devices of this process with their programs loaded, numbered in the order in which those were given.
/// Thread rule: one call at a time. Everything that
/// fails is thrown as Error (Bug, if it was one) naming device, instruction, operator, region and
/// micro-batch where they are known.
class Devices {
 public:
  virtual ~Devices() = default;
  Devices(const Devices&) = delete;
  Devices& operator=(const Devices&) = delete;

  virtual const DeviceProgram& program(int index) const = 0;

  /// New arenas with undefined content. Throws Error naming the device and the bytes if one can't be had.
  virtual std::unique_ptr<DeviceMemory> allocate() = 0;
  /// Content of a buffer of device `index`, from and to host memory; after everything that was started.
  virtual void write(DeviceMemory& memory, int index, int buffer, const std::byte* from) = 0;
  virtual void read(const DeviceMemory& memory, int index, int buffer, std::byte* to) = 0;

  /// Steps that may be under way at once.
  virtual int depth() const = 0;
  /// Starts one step; the inputs are not looked at any more when it returns. At most `depth()` steps may
  /// have been started and not finished.
  virtual void start(DeviceMemory& memory, const StepInputs& inputs) = 0;
  /// Waits for the oldest started step. Returns the graph's metrics, in its order, each as the first device
  /// that reports it has it; NaN if none of this process does. After an exception no step is under way, and
  /// the memory of those that were is undefined.
  virtual std::vector<double> finish() = 0;

  /// What device `index` exchanged in the last step that was started: per group its size and the counts.
  virtual std::vector<std::pair<int, comm::Counts>> counts(int index) const = 0;

 protected:
  Devices() = default;
};

/// Where a step was, for messages.
struct StepPlace {
  int device = 0;                            ///< number among those of this process
  const Instruction* instruction = nullptr;  ///< of the device's lists; null: nowhere yet
  int micro_batch = 0;
};
/// "device 2: instruction 1 'dense0/add' (add, forward, micro-batch 2 of 2)".
std::string to_string(const StepPlace& place, const DeviceProgram& device, const SpmdProgram& program);

/// Devices that are threads of this process.
std::unique_ptr<Devices> make_cpu_devices(DevicesRequest request);

}  // namespace alpa
