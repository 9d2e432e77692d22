#pragma once
/// The static instruction lists of one device, and the schedule that runs them. No
/// decision is left to run time.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/plan/schedules/schedule.h"
#include "src/spmd/program.h"

namespace alpa::lower {

/// A local tensor of one device. Offsets are assigned by `plan_memory`.
struct Buffer {
  TensorType type;             ///< local
  Shape offset, global_shape;  ///< position in the whole tensor
  /// shares the memory of this buffer, which owns it: the same bytes, or their next
  /// content; -1: owns its memory
  int alias_of = -1;
  std::int64_t arena_offset = -1;  ///< of the first copy
  /// Copies, one per micro-batch in flight. An alias uses its owner's copies.
  int slots = 1;
  /// from one copy to the next; set by `plan_memory` if there are several
  std::int64_t slot_bytes = 0;

  /// Arena offset of the buffer in micro-batch `micro_batch`; -1 if it has no memory.
  std::int64_t arena_offset_of(int micro_batch) const {
    return arena_offset < 0 ? -1 : arena_offset + micro_batch % slots * slot_bytes;
  }
};

/// Parameters of a collective on this device.
struct CollectiveCall {
  CollectiveKind kind{};
  Combiner combiner = Combiner::sum;
  /// devices that take part, this one among them, in the order of their shards
  std::vector<int> group;
  /// per tensor: the dimension split afterwards; all_gather: split before
  std::vector<ShardedDim> dims;
  ShardedDim from_dim;  ///< all_to_all: the dimension split before

  /// How operand `t` is split, if the kind `joins`.
  const ShardedDim& before(std::size_t t) const { return gathers(kind) ? dims[t] : from_dim; }
};

/// A box of a tensor that a device sends to another or receives from it. A lane is a sender, a
/// receiver and a number. Messages of one lane arrive in the order in which they are sent; both
/// sides name the same boxes in the same order.
struct Message {
  int peer = -1;  ///< the other device
  /// one per region and pair of stages, whose micro-batches every mesh runs in order
  int lane = 0;
  Shape begin, extent;  ///< the box, in the whole tensor
  /// send: the box was received in the same run; the device is in the middle of a broadcast
  bool passed_on = false;
};

/// True if the boxes of two messages of one tensor have common elements.
bool boxes_meet(const Message& a, const Message& b);

struct Instruction {
  enum class Kind : std::uint8_t {
    load,        ///< the micro-batch's slice of a batch input, or a scalar input, into the output
    compute,     ///< call the node's kernel
    copy,        ///< the part of the input at the output's position in the whole tensor
    fill,        ///< every element of the output becomes `value`
    collective,  ///< run on the calling thread
    start,       ///< start the collective on its own thread or stream
    wait,        ///< for completion of the operation that instruction `awaits` started
    /// send a box of the input to `message.peer`; the input must not change until it is sent
    send,
    receive,  ///< receive a box of the output from `message.peer`
  } kind = Kind::compute;
  /// of the SpmdProgram's graph, for names, operator and attributes
  int node = -1;
  std::vector<int> inputs = {}, outputs = {};  ///< buffer ids
  CollectiveCall call = {};                    ///< collective and start
  Message message = {};                        ///< send and receive
  double value = 0;                            ///< fill
  int awaits = -1;       ///< wait: index of the start, send or receive in its list
  int awaits_list = -1;  ///< wait: the list of that instruction; -1: the same list
  /// wait: for the run of that instruction `behind` micro-batches before the waiting run's own, and
  /// those before it. So a slot is overwritten once the run that sent it has completed, often
  /// `slots` micro-batches ago. kAllRuns: for all runs so far.
  int behind = 0;
  static constexpr int kAllRuns = -1;
  int workspace = -1;  ///< buffer of scratch, added by `plan_memory`; -1: none needed
  /// compute: may run concurrently with the rest of the list, which neither writes its operands nor
  /// touches its results
  bool overlapped = false;
};

struct InstructionList {
  std::string name;  ///< "accumulate", "apply", "forward", …
  std::vector<Instruction> instructions;
};

/// One run of a list for micro-batch `micro_batch`, which selects loads, random numbers and slots.
struct ListRun {
  int list = 0, micro_batch = 0;
  bool operator==(const ListRun&) const = default;
};

/// A metric that the device holds at the end of the step.
struct Reported {
  int metric = -1, buffer = -1;  ///< index among the graph's metrics
};

/// An output of the step that the device holds when the step is over: of every
/// micro-batch in a slot of its own.
struct Returned {
  int output = -1, buffer = -1;  ///< index among the graph's outputs
};

struct DeviceProgram {
  int device = 0;          ///< id, unique in the cluster
  int mesh = 0, rank = 0;  ///< its (first) mesh, and its rank in that mesh
  std::vector<Buffer> buffers;
  /// per value of the program's graph; -1 if the device never touches it
  std::vector<int> buffer_of_value;
  std::vector<InstructionList> lists;
  std::vector<ListRun> schedule;   ///< the runs of one step, in order
  bool begins = false;             ///< the first list runs once, before the micro-batches
  std::vector<int> kept;           ///< state: lives from step to step
  std::vector<int> zeroed;         ///< accumulators, cleared when a step starts
  std::vector<Reported> reported;  ///< by metric; read at the end of the step
  std::vector<Returned> returned;  ///< by output; read at the end of the step
  int staging = -1;  ///< buffer of uploaded step inputs, if the backend has one; also in `kept`
  /// unused bytes after every copy of a buffer, checked in debug and sanitizer builds
  std::int64_t guard_bytes = 0;
  std::int64_t arena_bytes = 0;  ///< exact peak, known before running
};

/// The program of one device. Without a schedule (programs of one mesh), forward and backward
/// nodes form list "accumulate", which runs for every micro-batch before list "apply"; with one
/// micro-batch everything is in "apply". With a schedule the lists are "forward", "backward"
/// and "apply" (src/lower/lists.h). "begin" comes before them: what it makes stays the whole step.
/// A value passed between lists has one slot per micro-batch
/// in flight; a value that is sent has at least two, so that one is computed while the other is
/// in transit. Transfers become sends and receives. A run does not wait for its own sends; an
/// instruction that overwrites a slot waits until the slot has been sent. With `overlap`, a
/// collective is a start … wait pair if there is work before its result is needed; at most two
/// are in flight, because each keeps its operands alive. A reshaped value shares its operand's
/// memory. An update is written directly into its state's memory if the old content is no
/// longer needed or the kernel works in place. Otherwise it is copied at the end. Throws Error
/// if the schedule has no backward runs, but the program backward nodes. Throws Bug if no mesh
/// has the device, or unless the schedule runs every region of every micro-batch of its mesh
/// once, micro-batches in order.
DeviceProgram emit(const spmd::SpmdProgram& program, int device, bool overlap,
                   const pipeline::PipelineSchedule& schedule = {});

/// Throws Bug unless the programs of all devices complete together: every message has a receiver
/// that expects the same box, all members call each collective, and no devices wait for each other.
/// Also unless each device does everything once, on the right content (src/lower/verify_device.h).
/// The text names device, list, instruction and node, and which device waits for which. Programs
/// without messages are not checked.
void verify_schedules(std::span<const DeviceProgram> devices, const spmd::SpmdProgram& program);

/// Text form of a device program.
std::string to_string(const DeviceProgram& device, const spmd::SpmdProgram& program);

/// "load", "compute", …
std::string_view name_of(Instruction::Kind kind);

/// The buffer that owns the memory of `buffer`: itself unless it is an alias.
int memory_of(const DeviceProgram& device, int buffer);

/// Number of runs of a list in one step.
int runs_of(const DeviceProgram& device, int list);

/// Number of instructions in all lists. Positions number them list by list.
int num_positions(const DeviceProgram& device);
/// Position of the first instruction of a list.
int first_position(const DeviceProgram& device, int list);

/// When a buffer's memory is in use, by positions; -1 is the start of the step, num_positions its
/// end. Buffers of a started collective or of a receive are in use until its wait. Sent buffers,
/// and those passed between lists while other lists run, are always in use.
struct LiveRange {
  int begin = 0, end = -1;  ///< inclusive; end < begin: never
  bool empty() const { return end < begin; }
  bool overlaps(const LiveRange& other) const { return begin <= other.end && other.begin <= end; }
};

/// Per buffer that owns memory (empty for aliases): from first write to last use, aliases included.
/// State is always live. Accumulators live from the start of the step to their last use, at least
/// through all micro-batches; metrics and outputs to the end. Buffers that every run of a list
/// fills anew live within that list.
std::vector<LiveRange> live_ranges(const DeviceProgram& device);

/// All uses of each buffer's memory, from one walk over a device program. `memory` arguments
/// are results of `memory_of`.
class MemoryUses {
 public:
  explicit MemoryUses(const DeviceProgram& device);

  /// Position of the first instruction that writes the memory; -1: none.
  int first_write(int memory) const { return of_[memory].first_write; }
  /// True if the memory is used after the instruction at `position`, or by a collective still in
  /// flight there. Uses by that instruction itself, up to its own wait, do not count.
  bool used_after(int memory, int position) const;
  /// Makes `memory` an alias of `owner`: its uses become the owner's.
  void move(int memory, int owner);

 private:
  struct Flight {
    int start, wait;  ///< positions; concurrent updates are awaited at the end
  };
  struct Uses {
    int first_write = -1, last = -1;
    std::vector<Flight> flights;  ///< of started collectives and concurrent updates
  };
  std::vector<Uses> of_;
};

/// The instruction at a position, and its list.
const Instruction& instruction_at(const DeviceProgram& device, int position);
int list_at(const DeviceProgram& device, int position);

/// True if `instruction`'s kernel may write output `output` over input `input`: same local type,
/// and the operator allows it.
bool may_overwrite(const DeviceProgram& device, const spmd::SpmdProgram& program,
                   const Instruction& instruction, std::size_t input, std::size_t output);

}  // namespace alpa::lower
