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
  int alias_of =
      -1;  ///< lies in the memory of this buffer, which is its own: same bytes, or its next content
  std::int64_t arena_offset = -1;
};

/// How a collective runs on this device.
struct CollectiveCall {
  CollectiveKind kind = CollectiveKind::all_reduce;
  Combiner combiner = Combiner::sum;
  std::vector<int> group;  ///< ranks that take part, this device among them, in the order of their shards
  std::vector<ShardedDim> dims;  ///< per tensor: what is split afterwards, for all_gather before
  ShardedDim from_dim;           ///< all_to_all: what is split before
};

struct Instruction {
  enum class Kind : std::uint8_t {
    load,        ///< the micro-batch's slice of a batch input, or a scalar input, into the output
    compute,     ///< call the node's kernel
    copy,        ///< the part of the input that lies where the output lies
    fill,        ///< every element of the output becomes `value`
    collective,  ///< run on the calling thread
    start,       ///< hand the collective to the communication thread
    wait,        ///< until the collective started by instruction `awaits` is done
  } kind = Kind::compute;
  int node = -1;                     ///< of the SpmdProgram's graph, for names, operator and attributes
  std::vector<int> inputs, outputs;  ///< buffer ids
  CollectiveCall call;               ///< collective and start
  double value = 0;                  ///< fill
  int awaits = -1;                   ///< wait: index of the `start` in the same list
  int workspace = -1;                ///< buffer of scratch, added by `plan_memory`; -1: none needed
  /// compute: may run beside the instructions behind it, to the end of the list; they neither write what it
  /// reads nor touch what it writes
  bool aside = false;
};

struct DeviceProgram {
  int rank = 0;
  std::vector<Buffer> buffers;
  std::vector<int>
      buffer_of_value;  ///< per value of the program's graph; -1 if the device never touches it
  std::vector<Instruction> accumulate;  ///< once per micro-batch (empty if there is one micro-batch only)
  std::vector<Instruction> apply;       ///< once per step; with one micro-batch it holds everything
  std::vector<int> kept;                ///< state: lives from step to step
  std::vector<int> zeroed;              ///< accumulators, cleared when a step starts
  std::vector<int> reported;            ///< per metric of the graph; read when the step is over
  int staging = -1;  ///< buffer where inputs of steps wait, if the backend has one; among `kept`, too
  std::int64_t guard_bytes = 0;  ///< after every buffer, written by nobody; debug and sanitizer builds
  std::int64_t arena_bytes = 0;  ///< exact peak, known before running
};

/// The instruction list of device `rank`. Every collective is a start … wait pair if `overlap` and there is
/// work to do before its result is needed; at most two are in flight, because a started one keeps its
/// operands alive. Values that only reshape another lie in its memory. An update is written straight into
/// its state's memory where the old content is dead by then or the kernel works in place, else copied there
/// at the end.
DeviceProgram emit(const SpmdProgram& program, int rank, bool overlap);

/// Text form of a device program.
std::string to_string(const DeviceProgram& device, const SpmdProgram& program);

/// "load", "compute", …
std::string_view name_of(Instruction::Kind kind);

/// The buffer whose memory `buffer` lies in: itself if it is no alias.
int memory_of(const DeviceProgram& device, int buffer);

/// When a buffer's memory is in use: positions count the instructions of `accumulate`, then those of
/// `apply`; -1 is the start of the step, one past the last its end. What a started collective touches is in
/// use until its wait.
struct LiveRange {
  int begin = 0, end = -1;  ///< inclusive; end < begin: never
  bool empty() const { return end < begin; }
  bool overlaps(const LiveRange& other) const { return begin <= other.end && other.begin <= end; }
};

/// Per buffer that owns memory (empty for aliases): from first write to last use, its aliases included.
/// State lives always, accumulators from the start of the step until their last use, but at least through
/// all micro-batches, metrics to the end.
std::vector<LiveRange> live_ranges(const DeviceProgram& device);

/// Where the memory of every buffer is used, from one walk over a device program. Buffers are given as
/// `memory_of` names them.
class MemoryUses {
 public:
  explicit MemoryUses(const DeviceProgram& device);

  /// Position of the first instruction that has a result there; -1: none.
  int first_write(int memory) const { return of_[memory].first_write; }
  /// True if the memory is read or written after the instruction at `position`, or by a collective that is
  /// still under way there. What that instruction touches itself, also until its own wait, does not count.
  bool used_after(int memory, int position) const;
  /// `memory` lies in `owner` from now on: its uses are the owner's.
  void move(int memory, int owner);

 private:
  struct Flight {
    int start, wait;  ///< positions; what runs aside is awaited at the end
  };
  struct Uses {
    int first_write = -1, last = -1;
    std::vector<Flight> flights;  ///< of started collectives and what runs aside
  };
  std::vector<Uses> of_;
};

/// The instruction at a position, as live_ranges counts them.
const Instruction& instruction_at(const DeviceProgram& device, int position);

/// True if `instruction`'s kernel may write output `output` over input `input`: same local type, and the
/// operator allows it.
bool may_overwrite(const DeviceProgram& device, const SpmdProgram& program, const Instruction& instruction,
                   std::size_t input, std::size_t output);

}  // namespace alpa
