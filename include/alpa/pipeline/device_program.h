#pragma once
/// The static instruction list of one device: what the interpreter runs, nothing decided at run time.
#include <cstdint>
#include <string>
#include <vector>

#include "alpa/spmd/program.h"

namespace alpa {

/// A local tensor of one device. Offsets are assigned by `plan_memory`.
struct Buffer {
  TensorType type;             ///< local
  Shape offset, global_shape;  ///< place in the whole tensor
  std::int64_t arena_offset = -1;
};

struct Instruction {
  enum class Kind : std::uint8_t {
    compute,     ///< call the node's kernel
    collective,  ///< run on the calling thread
    start,       ///< hand the collective to the communication thread
    wait,        ///< until the collective started by instruction `awaits` is done
  } kind = Kind::compute;
  int node = -1;                   ///< of the SpmdProgram's graph, for names, operator and attributes
  std::vector<int> inputs, outputs;  ///< buffer ids
  std::vector<int> group;          ///< collectives: ranks that take part, this device among them
  int awaits = -1;                 ///< wait: index of the `start` in the same list
};

struct DeviceProgram {
  int rank = 0;
  std::vector<Buffer> buffers;
  std::vector<int> buffer_of_value;          ///< per value of the program's graph
  std::vector<Instruction> accumulate;       ///< once per micro-batch (empty if there is one micro-batch only)
  std::vector<Instruction> apply;            ///< once per step; with one micro-batch it holds everything
  std::vector<int> zeroed;                   ///< accumulators, cleared when a step starts
  std::int64_t arena_bytes = 0;              ///< exact peak, known before running
  std::int64_t workspace_offset = 0;         ///< kernels' scratch, shared, inside the arena
};

/// The instruction list of device `rank`. Collectives whose result is needed only after other work become start … wait pairs if `overlap`.
DeviceProgram emit(const SpmdProgram& program, int rank, bool overlap);

/// Text form of a device program.
std::string to_string(const DeviceProgram& device, const SpmdProgram& program);

}  // namespace alpa
