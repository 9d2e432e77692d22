#pragma once
/// Collectives among the devices of one group: the one abstraction with virtual functions (threads, MPI, NCCL, copies on one GPU).
/// Every member calls the same functions in the same order with its own tensors. Reductions combine in rank order, so results
/// are bitwise the same on all members and from run to run.
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>

#include "alpa/mesh/sharding_spec.h"
#include "alpa/tensor/kernel.h"

namespace alpa::comm {

/// Thrown out of a collective on every member after `Group::abort`.
class Aborted : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Local tensors of the calling member. KernelTensor::offset says where a shard lies along split dimensions; nominal chunk sizes are
/// passed as `chunk` because uneven dimensions leave short or empty shards at the end.
class Group {
 public:
  virtual ~Group() = default;
  virtual int size() const = 0;

  /// Element-wise combination over all members, written to each member's `out` (may be `in`). Several tensors in one call share one rendezvous.
  virtual void all_reduce(int member, std::span<const KernelTensor> in, std::span<const KernelTensor> out, Combiner combiner) = 0;
  /// Combination over all members; member j keeps [j·chunk, …) of `dim`.
  virtual void reduce_scatter(int member, const KernelTensor& in, const KernelTensor& out, int dim, std::int64_t chunk, Combiner combiner) = 0;
  /// Member j's `in` becomes [j·chunk, …) of `dim` in everybody's `out`.
  virtual void all_gather(int member, const KernelTensor& in, const KernelTensor& out, int dim, std::int64_t chunk) = 0;
  /// `in` is whole in `split_dim` and a shard in `gather_dim`; `out` the other way round.
  virtual void all_to_all(int member, const KernelTensor& in, const KernelTensor& out, int split_dim, std::int64_t split_chunk,
                          int gather_dim, std::int64_t gather_chunk) = 0;
  /// `tensor` of member `root` to all.
  virtual void broadcast(int member, const KernelTensor& tensor, int root) = 0;
  virtual void send(int member, const KernelTensor& tensor, int to) = 0;
  virtual void receive(int member, const KernelTensor& tensor, int from) = 0;
  virtual void barrier(int member) = 0;

  /// Makes every present and future call of every member throw Aborted. May be called from any thread.
  virtual void abort() = 0;
};

/// A group of `size` threads of this process; they share memory, so shards are read in place and nothing is staged.
std::unique_ptr<Group> make_thread_group(int size);

}  // namespace alpa::comm
