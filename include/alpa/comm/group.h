#pragma once
/// Collectives among the devices of one group: the one abstraction with virtual functions (threads, MPI,
/// NCCL, copies on one GPU). Every member calls the same functions in the same order with its own tensors.
/// Reductions combine in rank order, so results are bitwise the same on all members and from run to run.
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string_view>

#include "alpa/mesh/sharding_spec.h"
#include "alpa/tensor/kernel.h"

namespace alpa::comm {

/// Thrown out of a collective on every member after `Group::abort`.
class Aborted : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

enum class Operation : std::uint8_t {
  all_reduce,
  reduce_scatter,
  all_gather,
  all_to_all,
  broadcast,
  send,
  receive,
  barrier
};
inline constexpr int kNumOperations = 8;

/// "all_reduce", …
std::string_view name_of(Operation operation);

/// What one member's calls of one kind amounted to.
struct Count {
  std::int64_t calls = 0;
  /// Bytes of this member's tensors: the operand, for all_gather the result. The ring formulas
  /// (cost/collective.h) of this number are what a ring would send, and are comparable with a plan's
  /// traffic.
  std::int64_t payload_bytes = 0;
  /// Bytes that really crossed between this member's buffers and others': read from theirs, and for
  /// all_reduce also written into theirs. Over equal shards this is what a ring sends: all_reduce
  /// 2(n-1)/n·payload, the others (n-1)/n·payload.
  std::int64_t moved_bytes = 0;
};

using Counts = std::array<Count, kNumOperations>;

/// Local tensors of the calling member; only data and local type are read. Nominal chunk sizes are passed
/// because uneven dimensions leave short or empty shards at the end. Where tensors come in spans, those of
/// one call share one rendezvous, and the spans of a call are of one length. A member that calls something
/// else than the others, or with tensors that do not fit theirs, makes every member throw Bug. Unless said
/// otherwise `out` must not overlap `in`.
class Group {
 public:
  virtual ~Group() = default;
  virtual int size() const = 0;

  /// Element-wise combination over all members, written to each member's `out` (each may be its `in`).
  virtual void all_reduce(int member, std::span<const KernelTensor> in, std::span<const KernelTensor> out,
                          Combiner combiner) = 0;
  /// Combination over all members; member j keeps shard j of each tensor's dimension.
  virtual void reduce_scatter(int member, std::span<const KernelTensor> in,
                              std::span<const KernelTensor> out, std::span<const ShardedDim> dims,
                              Combiner combiner) = 0;
  /// Member j's `in` becomes shard j of its dimension in everybody's `out`.
  virtual void all_gather(int member, std::span<const KernelTensor> in, std::span<const KernelTensor> out,
                          std::span<const ShardedDim> dims) = 0;
  /// `in` is whole in dimension `split` and a shard in `gathered`; `out` the other way round.
  virtual void all_to_all(int member, const KernelTensor& in, const KernelTensor& out, ShardedDim split,
                          ShardedDim gathered) = 0;
  /// `tensor` of member `root` to all.
  virtual void broadcast(int member, const KernelTensor& tensor, int root) = 0;
  virtual void barrier(int member) = 0;

  /// Makes every present and future call of every member throw Aborted; a call whose members have all
  /// arrived completes. May be called from any thread.
  virtual void abort() = 0;

  /// Calls and bytes of `member` since `reset_counts`. Not while the member is in a call.
  virtual const Counts& counts(int member) const = 0;
  virtual void reset_counts(int member) = 0;
};

/// A group of `size` threads of this process; they share memory, so shards are read in place and nothing is
/// staged or allocated. Throws Error if size < 1.
std::unique_ptr<Group> make_thread_group(int size);

}  // namespace alpa::comm
