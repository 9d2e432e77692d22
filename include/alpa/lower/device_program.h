#pragma once
/// The static instruction lists of one device and the schedule that runs them: nothing is decided at run
/// time.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "alpa/pipeline/schedule.h"
#include "alpa/spmd/program.h"

namespace alpa {

/// A local tensor of one device. Offsets are assigned by `plan_memory`.
struct Buffer {
  TensorType type;             ///< local
  Shape offset, global_shape;  ///< place in the whole tensor
  int alias_of =
      -1;  ///< lies in the memory of this buffer, which is its own: same bytes, or its next content
  std::int64_t arena_offset = -1;  ///< of the first copy
  /// Copies, one for each micro-batch in flight; those of an alias are its owner's.
  int slots = 1;
  std::int64_t slot_bytes = 0;  ///< from one copy to the next; set by `plan_memory` if there are several

  /// Where micro-batch `micro_batch` has the buffer in the arena; -1 if it has no memory.
  std::int64_t arena_offset_of(int micro_batch) const {
    return arena_offset < 0 ? -1 : arena_offset + micro_batch % slots * slot_bytes;
  }
};

/// How a collective runs on this device.
struct CollectiveCall {
  CollectiveKind kind = CollectiveKind::all_reduce;
  Combiner combiner = Combiner::sum;
  std::vector<int> group;  ///< devices that take part, this one among them, in the order of their shards
  std::vector<ShardedDim> dims;  ///< per tensor: what is split afterwards, for all_gather before
  ShardedDim from_dim;           ///< all_to_all: what is split before
};

/// What a device sends to another one, or receives from it: a box of a tensor. Messages of one lane, which
/// is a sender, a receiver and a number, arrive in the order in which they are sent; both sides name the
/// same boxes in the same order.
struct Message {
  int peer = -1;        ///< the other device
  int lane = 0;         ///< one per region of transfers, whose micro-batches every mesh runs in order
  Shape begin, extent;  ///< the box, in the whole tensor
};

struct Instruction {
  enum class Kind : std::uint8_t {
    load,        ///< the micro-batch's slice of a batch input, or a scalar input, into the output
    compute,     ///< call the node's kernel
    copy,        ///< the part of the input that lies where the output lies
    fill,        ///< every element of the output becomes `value`
    collective,  ///< run on the calling thread
    start,       ///< hand the collective to the lane of collectives
    wait,        ///< until what instruction `awaits` started is done
    send,  ///< hand a box of the input to the lane to `message.peer`; the input stays as it is until then
    receive,  ///< hand a box of the output to the lane from `message.peer`, which will write it
  } kind = Kind::compute;
  int node = -1;                     ///< of the SpmdProgram's graph, for names, operator and attributes
  std::vector<int> inputs, outputs;  ///< buffer ids
  CollectiveCall call;               ///< collective and start
  Message message;                   ///< send and receive
  double value = 0;                  ///< fill
  int awaits = -1;                   ///< wait: index of the start, send or receive in its list
  int awaits_list = -1;              ///< wait: that list; -1: the one of the wait
  /// wait: all of its runs in this step but the latest so many are done; 0 for the last one. What would
  /// overwrite a copy that may not be sent yet waits for the run that sent it, `slots` micro-batches ago.
  int behind = 0;
  int workspace = -1;  ///< buffer of scratch, added by `plan_memory`; -1: none needed
  /// compute: may run beside the instructions behind it, to the end of the list; they neither write what it
  /// reads nor touch what it writes
  bool aside = false;
};

struct InstructionList {
  std::string name;  ///< "accumulate", "apply", "forward", …
  std::vector<Instruction> instructions;
};

/// One run of a list: the `micro_batch` that its loads, random numbers and slots are of.
struct ListRun {
  int list = 0, micro_batch = 0;
  bool operator==(const ListRun&) const = default;
};

/// A metric that the device has when the step is over.
struct Reported {
  int metric = -1, buffer = -1;  ///< index among the graph's metrics
};

struct DeviceProgram {
  int device = 0;          ///< id, unique in the cluster
  int mesh = 0, rank = 0;  ///< which mesh of the program it is in, and its place there
  std::vector<Buffer> buffers;
  std::vector<int>
      buffer_of_value;  ///< per value of the program's graph; -1 if the device never touches it
  std::vector<InstructionList> lists;
  std::vector<ListRun> schedule;   ///< one step: these runs, one after the other
  std::vector<int> kept;           ///< state: lives from step to step
  std::vector<int> zeroed;         ///< accumulators, cleared when a step starts
  std::vector<Reported> reported;  ///< by metric; read when the step is over
  int staging = -1;  ///< buffer where inputs of steps wait, if the backend has one; among `kept`, too
  std::int64_t guard_bytes = 0;  ///< after every copy of a buffer, written by nobody; debug and sanitizers
  std::int64_t arena_bytes = 0;  ///< exact peak, known before running
};

/// The program of a device of one of the meshes. Without a schedule (programs of one mesh) forward and
/// backward nodes are list "accumulate", run for every micro-batch, before list "apply"; with one
/// micro-batch all is "apply". With a schedule there are lists "forward", "backward" and "apply", and
/// values that one hands to another have as many slots as the schedule keeps micro-batches in flight; what
/// is sent has two, so that one can be computed while the other travels. Transfers are sends and receives;
/// no run waits for what it sends, but what would overwrite a slot waits until that was taken. Every
/// collective is a start … wait pair if `overlap` and there is work to do before its result is needed; at
/// most two are in flight, because a started one keeps its operands alive. Values that only reshape another
/// lie in its memory. An update is written straight into its state's memory where the old content is dead
/// by then or the kernel works in place, else copied there at the end. Throws Bug if no mesh has the
/// device, or if the schedule does not run every region of every micro-batch of its mesh once,
/// micro-batches in order.
DeviceProgram emit(const SpmdProgram& program, int device, bool overlap,
                   const PipelineSchedule& schedule = {});

/// Throws Bug unless the programs of all devices run to their end together: every message has its receiver,
/// who expects the same box, collectives are called by all members, and nobody waits for one who waits for
/// him; the message says who waits for whom.
void verify_schedules(std::span<const DeviceProgram> devices, const SpmdProgram& program);

/// Text form of a device program.
std::string to_string(const DeviceProgram& device, const SpmdProgram& program);

/// "load", "compute", …
std::string_view name_of(Instruction::Kind kind);

/// The buffer whose memory `buffer` lies in: itself if it is no alias.
int memory_of(const DeviceProgram& device, int buffer);

/// How often a list runs in one step.
int runs_of(const DeviceProgram& device, int list);

/// Instructions of all lists together: positions count them list by list.
int num_positions(const DeviceProgram& device);
/// Position of the first instruction of a list.
int first_position(const DeviceProgram& device, int list);

/// When a buffer's memory is in use, by positions; -1 is the start of the step, one past the last its end.
/// What a started collective or a message being received touches is in use until its wait; what is sent,
/// and what one list hands to another while others run in between, all the time.
struct LiveRange {
  int begin = 0, end = -1;  ///< inclusive; end < begin: never
  bool empty() const { return end < begin; }
  bool overlaps(const LiveRange& other) const { return begin <= other.end && other.begin <= end; }
};

/// Per buffer that owns memory (empty for aliases): from first write to last use, its aliases included.
/// State lives always, accumulators from the start of the step until their last use, but at least through
/// all micro-batches, metrics to the end. What every run of a list fills anew lives within that list.
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

/// The instruction at a position, and the list it is in.
const Instruction& instruction_at(const DeviceProgram& device, int position);
int list_at(const DeviceProgram& device, int position);

/// True if `instruction`'s kernel may write output `output` over input `input`: same local type, and the
/// operator allows it.
bool may_overwrite(const DeviceProgram& device, const SpmdProgram& program, const Instruction& instruction,
                   std::size_t input, std::size_t output);

}  // namespace alpa
