#pragma once
/// Collectives among the devices of one group, an abstract interface for several transports. Every
/// member calls the same functions in the same order with its own tensors. Reductions combine along
/// the tree of combine.h, so results are bitwise the same on all members and in every run.
#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "alpa/mesh/collective.h"
#include "alpa/mesh/sharding_spec.h"
#include "src/processes/courier.h"
#include "src/tensor/kernel.h"

namespace alpa::comm {

/// Thrown by collectives on every member after `Group::abort`, or if the launch has failed.
using processes::Aborted;

/// Totals of one member's calls of one kind.
struct Count {
  std::int64_t calls = 0;
  /// Bytes of this member's operands (all_gather: results). The ring formulas of cost/collective.h,
  /// applied to this number, compare with a plan's traffic.
  std::int64_t payload_bytes = 0;
  /// Bytes actually moved between this member's buffers and others': read from theirs and, for
  /// all_reduce, also written into theirs. Over equal shards this equals the traffic of a ring:
  /// all_reduce 2(n-1)/n·payload, the others (n-1)/n·payload. An all_reduce that processes do in
  /// one hop counts the same.
  std::int64_t moved_bytes = 0;
};

/// Counts of collectives by their kind, and of messages to devices of other meshes.
struct Counts {
  std::array<Count, kNumCollectives> collectives{};
  Count sent;

  Count& operator[](CollectiveKind kind) { return collectives[static_cast<std::size_t>(kind)]; }
  const Count& operator[](CollectiveKind kind) const {
    return collectives[static_cast<std::size_t>(kind)];
  }
  void add_sent(std::int64_t calls, std::int64_t bytes) {
    sent.calls += calls, sent.payload_bytes += bytes, sent.moved_bytes += bytes;
  }
};

/// A member's part in a collective; whatever it refers to must stay until the collective is over.
/// Tensors are the member's local ones; only data and local type are read. Nominal chunk sizes are
/// passed because uneven dimensions have short or empty shards at the end. `in` and `out` have
/// equal lengths. `dims`, `from_dim`: as `lower::CollectiveCall` has them.
struct Call {
  CollectiveKind kind = CollectiveKind::all_reduce;
  std::span<const KernelTensor> in, out;
  Combiner combiner = Combiner::sum;
  std::span<const ShardedDim> dims = {};
  ShardedDim from_dim = {};
};

/// The tensors of one call share one rendezvous. If members make different calls, or with tensors
/// that do not match, every member throws Bug. Unless stated otherwise, `out` must not overlap
/// `in`.
class Group {
 public:
  virtual ~Group() = default;
  virtual int size() const = 0;

  /// A call without waiting, so that one thread may have several members of this process, if there
  /// is no other process: `begin`, then `proceed` until it returns true. Both throw what the call
  /// throws, which is then over.
  virtual void begin(int member, const Call& call) = 0;
  virtual bool proceed(int member) = 0;
  /// Waits until `proceed` gets on, at most for `limit`.
  virtual void wait(int member, std::optional<std::chrono::nanoseconds> limit = {}) = 0;

  /// A whole call.
  void run(int member, const Call& call) {
    begin(member, call);
    while (!proceed(member)) wait(member);
  }
  /// Combines elementwise over all members into each member's `out` (which may be its `in`).
  void all_reduce(int member, std::span<const KernelTensor> in, std::span<const KernelTensor> out,
                  Combiner combiner) {
    run(member, {CollectiveKind::all_reduce, in, out, combiner});
  }
  /// Combines over all members; member j keeps shard j of each tensor's dimension.
  void reduce_scatter(int member, std::span<const KernelTensor> in,
                      std::span<const KernelTensor> out, std::span<const ShardedDim> dims,
                      Combiner combiner) {
    run(member, {CollectiveKind::reduce_scatter, in, out, combiner, dims});
  }
  /// Member j's `in` becomes shard j of its dimension in every member's `out`.
  void all_gather(int member, std::span<const KernelTensor> in, std::span<const KernelTensor> out,
                  std::span<const ShardedDim> dims) {
    run(member, {CollectiveKind::all_gather, in, out, Combiner::sum, dims});
  }
  /// `in` is whole in dimension `split` and a shard in dimension `gathered`; `out` is the reverse.
  void all_to_all(int member, const KernelTensor& in, const KernelTensor& out, ShardedDim split,
                  ShardedDim gathered) {
    run(member,
        {CollectiveKind::all_to_all, {&in, 1}, {&out, 1}, Combiner::sum, {&split, 1}, gathered});
  }

  /// Makes room for such a call between processes; before the first one, and by the thread that
  /// makes it. Tensors need no memory yet.
  virtual void reserve(int member, const Call& call) = 0;
  /// Bytes of that room, for the largest call of `member`.
  virtual std::int64_t reserved_bytes(int member) const = 0;

  /// Makes all present and future calls of all members throw Aborted, except a call at which all
  /// members have already arrived, which completes. May be called from any thread.
  virtual void abort() = 0;

  /// Calls and bytes of `member` since `reset_counts`. Must not be called while the
  /// member is in a collective.
  virtual const Counts& counts(int member) const = 0;
  virtual void reset_counts(int member) = 0;
};

/// Processes of the members of a group.
struct GroupPlaces {
  std::vector<int> ranks;                 ///< of the process of each member
  int rank = 0;                           ///< of this process, which has at least one
  int first_tag = 0;                      ///< of `tags_of_group`, the same in all these processes
  processes::Courier* courier = nullptr;  ///< null if all members are in this process
};

/// Members of this process share memory, as in a thread group. Those of others get messages:
/// partial results, one per subtree of members that their process holds (combine.h), finished
/// slices, and shards. A process whose launch fails throws Aborted.
std::unique_ptr<Group> make_group(const GroupPlaces& places);

/// Number of tags that a group of processes `ranks` needs.
int tags_of_group(const std::vector<int>& ranks);

/// A group of `size` threads of this process. They share memory, so shards are read in place,
/// without staging or allocation. Throws Error if size < 1.
std::unique_ptr<Group> make_thread_group(int size);

}  // namespace alpa::comm
