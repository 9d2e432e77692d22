#pragma once
/// Messages between the processes of a launch: what collectives, lanes and the protocol of a world
/// are built on. MPI implements it (src/mpi); tests have launches in memory, where the "processes"
/// are groups of threads of one (tests/support/memory_wire.h). Thread rule: one thread at a time
/// calls an object (courier.h). No call waits.
#include <cstddef>
#include <cstdint>
#include <span>

namespace alpa::processes {

/// `receive` from whichever peer sends first.
inline constexpr int kAnyPeer = -1;

class Wire {
 public:
  virtual ~Wire() = default;
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;

  virtual int rank() const = 0;  ///< of this process, from 0
  virtual int size() const = 0;  ///< number of processes
  /// Processes with equal numbers share a host; of this process. From 0, by lowest rank.
  virtual int host() const = 0;
  /// Tags are from 0 to this.
  virtual int max_tag() const = 0;

  /// Starts a message to or from `peer` and returns its ticket (≥ 0). Both sides name the same
  /// number of bytes; `data` must stay until the ticket is completed. Messages with equal sender,
  /// receiver and tag arrive in the order in which they were started.
  virtual int send(int peer, int tag, const std::byte* data, std::int64_t bytes) = 0;
  virtual int receive(int peer, int tag, std::byte* data, std::int64_t bytes) = 0;

  /// Makes progress. Writes tickets that have been completed since the last call, at most
  /// `tickets.size()`, and returns their number. A completed ticket's number may be given again.
  virtual int completed(std::span<int> tickets) = 0;

  /// The launch has failed: the memory of messages under way may go. No other process reads it any
  /// more where the wire can tell; MPI cannot. Only `abort` and `leave` follow.
  virtual void forget_messages() noexcept {}

  /// Ends all processes of the launch at once, with this exit status. May return.
  virtual void abort(int status) noexcept = 0;

  /// Leaves the launch; collective. False: not all have called it yet, call again; messages get on
  /// meanwhile. When all have, those still under way are given up. After `abort` or a lost peer it
  /// need not be called.
  virtual bool leave() = 0;

 protected:
  Wire() = default;
};

}  // namespace alpa::processes
