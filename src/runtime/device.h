#pragma once
/// One CPU device: its program as calls that are ready to run. Thread rule: `advance` and `wait`
/// belong to the device's thread, which may be that of other devices, too; `communicate`, once per
/// step, to its communication thread. Everything else happens between steps.
#include <atomic>
#include <chrono>
#include <exception>
#include <optional>
#include <vector>

#include "arena_guard.h"
#include "groups.h"
#include "lanes.h"
#include "src/base/spin_wait.h"
#include "src/base/thread_team.h"
#include "src/comm/group.h"
#include "src/lower/device_program.h"
#include "src/runtime/devices.h"
#include "src/runtime/step_times.h"
#include "src/tensor/box_copy.h"
#include "stall.h"

namespace alpa::runtime {

/// The first thing that went wrong in a step. Thread-safe.
class Failure {
 public:
  struct Record {
    StepPlace place;
    std::exception_ptr thrown;
  };

  bool any() const { return failed_.load(std::memory_order_acquire); }
  /// Keeps the first record. Allocates nothing: memory may be what ran out.
  void record(Record record) noexcept;
  /// The first record. Call it after the step, and only if `any()`.
  const Record& first() const { return record_; }
  void forget() noexcept;

 private:
  std::atomic<bool> claimed_{false}, failed_{false};
  Record record_;
};

/// A device's view of the other devices.
struct Surroundings {
  const spmd::SpmdProgram& program;
  Groups& groups;                ///< of the device threads
  Groups& communication_groups;  ///< of the communication threads
  Lanes& lanes;
  Failure& failure;
  int devices;  ///< of this process
};

class Device {
 public:
  /// `index`: among the devices of this process.
  Device(lower::DeviceProgram program, Surroundings surroundings, int index, int num_threads,
         int running_threads);
  /// Records the times of the device's instructions from the next step on.
  void record_times();

  const lower::DeviceProgram& program() const { return program_; }
  ThreadTeam& team() { return team_; }
  /// True if the device needs its communication thread.
  bool communicates() const;

  /// Points every call into `arena`.
  void place(std::byte* arena);
  /// Resets the counters of what was started and done; before each step. `inputs` outlive it.
  void prepare_step(const StepInputs& inputs);
  /// Runs the step until it must wait for another device, or is over. Returns whether it got on.
  bool advance();
  bool over() const { return state_ != State::running; }
  /// The step failed or was stopped (then the failure is recorded).
  bool failed() const { return state_ == State::failed; }
  /// Waits for what `advance` stopped at, at most for `limit`.
  void wait(std::optional<std::chrono::nanoseconds> limit);
  /// Runs the collectives the step starts; returns when all are done or the step is stopped.
  bool communicate();
  /// Wakes both threads if they wait for each other.
  void stop();

  /// Position of the device in its step, as StepPosition::code. Any thread may call it.
  std::uint64_t position() const { return position_.load(std::memory_order_relaxed); }

  /// Bytes outside of the arena for collectives with devices of other processes.
  std::int64_t exchange_bytes() const {
    return around_.groups.reserved_bytes(program_.device) +
           around_.communication_groups.reserved_bytes(program_.device);
  }
  /// Boxes sent and received in the last step.
  const comm::Counts& messages() const { return messages_; }
  /// Times of the last step's instructions; empty without `record_times`.
  DeviceTimes times() const { return {times_.times(), communication_times_.times()}; }

 private:
  /// One instruction, ready to run.
  struct Operation {
    const lower::Instruction* instruction = nullptr;
    void (*run)(const KernelCall&) = nullptr;  ///< compute
    KernelCall call;                           ///< tensors of every kind of instruction
    BoxCopy box;                               ///< copy and load
    int input = -1;                            ///< load: index among the graph's inputs
    std::int64_t micro_batch_stride = 0;       ///< load: bytes of the array between micro-batches
    Membership membership;                     ///< collectives
    /// start and wait: number of the started collective in its list
    int ticket = -1;
    Lane* lane = nullptr;                ///< send and receive
    std::vector<int> numbers;            ///< send and receive: in the lane, of every run in a step
    int runs = 0;                        ///< send and receive: how many of them were handed over
    int room = 0, slots = 1;             ///< send and receive: of packed boxes in the lane
    const Operation* awaited = nullptr;  ///< wait: for a send or receive
  };

  /// A list, ready to run.
  struct List {
    std::vector<Operation> operations;
    std::vector<int> started;  ///< positions of `start`
    std::vector<int> slotted;  ///< positions of what touches buffers with several slots
    int first_position = 0;    ///< as live_ranges counts
  };

  List load_list(int list);
  void load_messages();
  void point(Operation& operation, int micro_batch);
  Operation load_operation(const lower::Instruction& instruction, int ticket);
  void check_scratch(const lower::Instruction& instruction, const KernelDef& kernel,
                     const KernelCall& call);
  void load_input(Operation& operation);
  void advance_step();
  void begin_step();
  void begin_run(int run);
  bool advance_list(List& list);
  void begin(Operation& operation, int position);
  void start(Operation& operation);
  bool proceed(const Operation& operation);
  void end(int position);
  void hand_over(Operation& operation);
  int awaited_message(const Operation& wait) const;
  int awaited_ticket(const Operation& wait) const { return first_ticket_ + wait.ticket + 1; }
  bool reached(const SpinWait::Word& counter, int count) const;
  void run_load(const Operation& operation);
  void run_copy(const Operation& operation, const std::byte* from);
  void clear_accumulators();
  void await(const SpinWait::Word& counter, int count,
             std::optional<std::chrono::nanoseconds> limit = {});
  void communicate_all();
  void communicate_list(const List& list, int first_ticket);

  /// A thread's position, for error messages.
  struct Progress {
    const lower::Instruction* instruction = nullptr;
    int micro_batch = 0;
  };
  /// Runs `part`; records what it throws with the place where it was. Returns
  /// true if it threw nothing.
  template <class Part>
  bool guarded(const Progress& progress, Part&& part);
  StepPlace place_of(const Progress& progress) const;

  lower::DeviceProgram program_;
  Surroundings around_;
  int index_;
  ThreadTeam team_;
  StepContext context_;
  std::vector<List> lists_;
  comm::Counts messages_{};
  ArenaGuard guard_;
  std::byte* arena_ = nullptr;
  SpinWait spin_wait_;
  static constexpr std::uint32_t kStopped = 0x80000000u;
  SpinWait::Word issued_{0},
      finished_{0};  ///< collectives started and done in this step; flag kStopped: give up
  Progress at_, communicating_;
  TimeRecorder times_, communication_times_;
  const StepInputs* inputs_ = nullptr;  ///< of the step under way
  enum class State : std::uint8_t { running, over, failed };
  State state_ = State::over;
  int run_ = -1;            ///< number in the schedule
  std::size_t next_ = 0;    ///< instruction of the run's list
  int first_ticket_ = 0;    ///< of the run
  bool under_way_ = false;  ///< that instruction has begun
  bool moved_ = false;      ///< an instruction has begun or ended since `advance` was called
  std::atomic<std::uint64_t> position_{0};
};

}  // namespace alpa::runtime
