#pragma once
/// The interface between the executor and the backends that run device programs: CPU threads
/// (src/runtime), or CUDA streams (src/cuda, in a separate library).
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "src/comm/group.h"
#include "src/lower/device_program.h"
#include "src/runtime/device_state.h"
#include "src/runtime/placement.h"
#include "src/runtime/step_times.h"

namespace alpa::runtime {

/// Inputs of a step; the same for all devices.
struct StepInputs {
  /// per graph input, null for scalars and state: the whole array, host memory
  std::vector<const std::byte*> batch;
  std::vector<double> scalars;  ///< per graph input
  std::uint64_t seed = 0;
  std::int64_t step = 0;
};

/// Arguments of `make_devices`.
struct DevicesRequest {
  const spmd::SpmdProgram& program;  ///< outlives them
  std::vector<lower::DeviceProgram>
      programs;                ///< of this process, memory planned by the backend's rules
  int threads_per_device = 1;  ///< CPU
  int running_threads = std::numeric_limits<int>::max();  ///< CPU: of those of a device, at most
  bool tf32 = false;                ///< CUDA: f32 products may round their operands to TF32
  bool tune = true;                 ///< CUDA: choose matrix products by measured time
  bool check_instructions = false;  ///< CUDA: wait after every instruction of every step
  /// CUDA: capture steps as graphs; nullopt: only on one card
  std::optional<bool> capture = {};
  bool keeps_nan = false;     ///< CUDA: relu of a NaN is NaN, not 0
  bool record_times = false;  ///< note when the instructions of a step run
  double stall_seconds = 0;   ///< as ExecutorOptions has it
  /// Placement of the whole program's devices; `programs` are those in this process.
  Placement placement = {};
  /// With several processes: the programs of all devices of the launch, which outlive this.
  std::span<const lower::DeviceProgram> everyone = {};
};

/// The devices of this process with their programs loaded, numbered as in DevicesRequest::programs.
/// Thread rule: one call at a time. Everything that fails is thrown as Error (Bug, if it was one)
/// naming device, instruction, operator, region and micro-batch where they are known.
class Devices {
 public:
  virtual ~Devices() = default;
  Devices(const Devices&) = delete;
  Devices& operator=(const Devices&) = delete;

  virtual const lower::DeviceProgram& program(int index) const = 0;

  /// Allocates arenas with undefined content, of at least `least_bytes` each: other programs may
  /// work in them, too. Throws Error naming device and bytes if allocation fails.
  virtual std::unique_ptr<DeviceMemory> allocate(std::int64_t least_bytes = 0) = 0;
  /// Writes or reads a buffer of device `index` from or to host memory, after all started steps.
  virtual void write(DeviceMemory& memory, int index, int buffer, const std::byte* from) = 0;
  /// A buffer with slots is read for one micro-batch.
  virtual void read(const DeviceMemory& memory, int index, int buffer, int micro_batch,
                    std::byte* to) = 0;
  /// Host address of a buffer, if the host can read and write it; else null.
  virtual std::byte* host_address(const DeviceMemory& /*memory*/, int /*index*/,
                                  int /*buffer*/) const {
    return nullptr;
  }

  /// The most steps in flight at once.
  virtual int depth() const = 0;
  /// Starts one step; `inputs` may be reused once this returns. At most `depth()` steps may be
  /// started and not finished.
  virtual void start(DeviceMemory& memory, const StepInputs& inputs) = 0;
  /// Waits for the oldest started step. Returns the graph's metrics in order, each from the first
  /// device that reports it; NaN if no device of this process does. After an exception no step is
  /// in flight, and the content of their memory is undefined.
  virtual std::vector<double> finish() = 0;

  /// True if a device never came back from a step that stalled. No further step can run; the
  /// devices and the memory of that step must never be destroyed.
  virtual bool lost() const { return false; }

  /// Counts of device `index` in the last started step: per group, its size and the counts.
  virtual std::vector<std::pair<int, comm::Counts>> counts(int index) const = 0;

  /// Bytes outside of the arenas for messages with other processes, of all devices here.
  virtual std::int64_t exchange_bytes() const { return 0; }

  /// Times of the instructions of device `index` in the last step, if they are recorded.
  virtual DeviceTimes times(int /*index*/) const { return {}; }

 protected:
  Devices() = default;
};

/// The position of a step in a device program, for error messages.
struct StepPlace {
  int device = 0;  ///< index among this process's devices
  const lower::Instruction* instruction =
      nullptr;  ///< in the device's lists; null: before the first one
  int micro_batch = 0;
};
/// "device 2: instruction 1 'dense0/add' (add, forward, micro-batch 2 of 2)"; of a step in stages
/// "stage 1, device 2: instruction …".
std::string to_string(const StepPlace& place, const lower::DeviceProgram& device,
                      const spmd::SpmdProgram& program);

/// Devices that are threads of this process.
std::unique_ptr<Devices> make_cpu_devices(DevicesRequest request);

}  // namespace alpa::runtime
