// src/comm/thread_group.cc — collectives between threads of one process. Every member publishes its
// tensors, all meet, each reads what it needs from the others' memory, all meet again.
#include <algorithm>
#include <vector>

#include "alpa/base/error.h"
#include "combine.h"
#include "rendezvous.h"
#include "src/comm/group.h"
#include "src/tensor/box_copy.h"

namespace alpa::comm {
namespace {

using At = std::array<std::int64_t, BoxCopy::kMaxRank>;

/// Data that a member publishes to the others during a call.
struct Published {
  CollectiveKind kind = CollectiveKind::all_reduce;
  std::span<const KernelTensor> in, out;
};

struct alignas(64) Member {
  Published shown;
  Counts counts{};
  std::vector<Part> sources;  ///< of one combination; sized once
  std::vector<std::byte*> targets;
};

std::int64_t total_bytes(std::span<const KernelTensor> tensors) {
  std::int64_t bytes = 0;
  for (const KernelTensor& tensor : tensors) bytes += tensor.type.bytes();
  return bytes;
}

std::int64_t total_elements(std::span<const KernelTensor> tensors) {
  std::int64_t elements = 0;
  for (const KernelTensor& tensor : tensors) elements += tensor.type.elements();
  return elements;
}

/// Zeros except for `value` at `dim`, for a tensor of rank `rank`.
Extents origin(At& at, int rank, int dim, std::int64_t value) {
  at.fill(0);
  at[dim] = value;
  return {at.data(), static_cast<std::size_t>(rank)};
}

class ThreadGroup final : public Group {
 public:
  explicit ThreadGroup(int size) : members_(size), meeting_(size) {
    for (Member& member : members_) {
      for (int m = 0; m < size; ++m) member.sources.push_back({nullptr, m, m + 1});
      member.targets.resize(size);
    }
  }

  int size() const override { return static_cast<int>(members_.size()); }

  void all_reduce(int member, std::span<const KernelTensor> in, std::span<const KernelTensor> out,
                  Combiner combiner) override {
    call(member, {CollectiveKind::all_reduce, in, out}, [&] {
      const std::int64_t moved = combine_slice(member, in, combiner);
      count(member, CollectiveKind::all_reduce, total_bytes(in), moved);
    });
  }

  void reduce_scatter(int member, std::span<const KernelTensor> in,
                      std::span<const KernelTensor> out, std::span<const ShardedDim> dims,
                      Combiner combiner) override {
    call(member, {CollectiveKind::reduce_scatter, in, out}, [&] {
      for (std::size_t t = 0; t < in.size(); ++t) combine_shard(member, t, dims[t], combiner);
      count(member, CollectiveKind::reduce_scatter, total_bytes(in),
            (size() - 1) * total_bytes(out));
    });
  }

  void all_gather(int member, std::span<const KernelTensor> in, std::span<const KernelTensor> out,
                  std::span<const ShardedDim> dims) override {
    call(member, {CollectiveKind::all_gather, in, out}, [&] {
      for (std::size_t t = 0; t < in.size(); ++t) gather(t, out[t], dims[t]);
      count(member, CollectiveKind::all_gather, total_bytes(out),
            total_bytes(out) - total_bytes(in));
    });
  }

  void all_to_all(int member, const KernelTensor& in, const KernelTensor& out, ShardedDim split,
                  ShardedDim gathered) override {
    call(member, {CollectiveKind::all_to_all, {&in, 1}, {&out, 1}}, [&] {
      std::int64_t own = 0;
      for (int other = 0; other < size(); ++other) {
        const KernelTensor& shard = members_[other].shown.in[0];
        const std::int64_t bytes = exchange(member, other, shard, out, split, gathered);
        if (other == member) own = bytes;
      }
      count(member, CollectiveKind::all_to_all, in.type.bytes(), out.type.bytes() - own);
    });
  }

  void abort() override { meeting_.abort(); }

  const Counts& counts(int member) const override { return members_[member].counts; }
  void reset_counts(int member) override { members_[member].counts = {}; }

 private:
  /// Publishes, meets, does the member's part and meets again; all members
  /// leave even if it fails.
  template <class Work>
  void call(int member, Published shown, Work&& work) {
    members_[member].shown = shown;
    meeting_.enter();
    try {
      check(member);
      work();
    } catch (...) {
      meeting_.leave();
      throw;
    }
    meeting_.leave();
  }

  void check(int member) const {
    const Published& own = members_[member].shown;
    for (const Member& other : members_)
      invariant(
          other.shown.kind == own.kind && other.shown.in.size() == own.in.size() &&
              other.shown.out.size() == own.in.size(),
          "collectives do not match: member {} calls {} of {} tensors while another calls {} of {}",
          member, name_of(own.kind), own.in.size(), name_of(other.shown.kind),
          other.shown.in.size());
  }

  void count(int member, CollectiveKind kind, std::int64_t payload, std::int64_t moved) {
    Count& count = members_[member].counts[static_cast<int>(kind)];
    ++count.calls;
    count.payload_bytes += payload;
    count.moved_bytes += moved;
  }

  /// Copies a box and returns its bytes.
  static std::int64_t copy(const KernelTensor& from, Extents from_at, const KernelTensor& to,
                           Extents to_at, Extents extent) {
    invariant(from.type.dtype == to.type.dtype, "collective: {} into {}", to_string(from.type),
              to_string(to.type));
    const BoxCopy box = BoxCopy::make(from.type.shape, from_at, to.type.shape, to_at, extent);
    box.copy(from.data, to.data, size_of(to.type.dtype));
    return box.elements() * static_cast<std::int64_t>(size_of(to.type.dtype));
  }

  /// Copies every member's shard of tensor `t` into `out`.
  void gather(std::size_t t, const KernelTensor& out, ShardedDim sharded) const {
    for (int other = 0; other < size(); ++other) {
      const KernelTensor& shard = members_[other].shown.in[t];
      At from, to;
      copy(shard, origin(from, shard.type.rank(), sharded.dim, 0), out,
           origin(to, out.type.rank(), sharded.dim, other * sharded.chunk), shard.type.shape);
    }
  }

  /// `other`'s part for `member` of an all_to_all; returns its bytes.
  static std::int64_t exchange(int member, int other, const KernelTensor& shard,
                               const KernelTensor& out, ShardedDim split, ShardedDim gathered) {
    At from, to, box;
    const int rank = out.type.rank();
    std::copy(out.type.shape.begin(), out.type.shape.end(), box.begin());
    box[gathered.dim] = shard.type.shape[gathered.dim];
    const Extents extent{box.data(), static_cast<std::size_t>(rank)};
    return copy(shard, origin(from, rank, split.dim, member * split.chunk), out,
                origin(to, rank, gathered.dim, other * gathered.chunk), extent);
  }

  /// This member's slice of the tensors laid end to end, combined and written to all members;
  /// returns the bytes that crossed. Slices begin at multiples of kSliceElements, so that members
  /// do not write into one cache line.
  std::int64_t combine_slice(int member, std::span<const KernelTensor> tensors, Combiner combiner) {
    const std::int64_t total = total_elements(tensors);
    const auto bound = [&](int i) {
      return i == size() ? total : total * i / size() / kSliceElements * kSliceElements;
    };
    std::int64_t first = 0, bytes = 0;
    for (std::size_t t = 0; t < tensors.size(); first += tensors[t++].type.elements()) {
      const std::int64_t begin = std::max(bound(member), first) - first;
      const std::int64_t end = std::min(bound(member + 1) - first, tensors[t].type.elements());
      if (begin < end) bytes += combine_range(member, t, begin, end, combiner);
    }
    return 2 * (size() - 1) * bytes;
  }

  std::int64_t combine_range(int member, std::size_t tensor, std::int64_t begin, std::int64_t end,
                             Combiner combiner) {
    Member& own = members_[member];
    const TensorType& type = own.shown.in[tensor].type;
    const std::int64_t size = static_cast<std::int64_t>(size_of(type.dtype));
    for (std::size_t m = 0; m < members_.size(); ++m) {
      const Published& shown = members_[m].shown;
      invariant(shown.in[tensor].type == type && shown.out[tensor].type == type,
                "all_reduce: {} of member {} with {} of member {}", to_string(type), member,
                to_string(shown.in[tensor].type), m);
      own.sources[m].data = shown.in[tensor].data + begin * size;
      own.targets[m] = shown.out[tensor].data + begin * size;
    }
    combine(type.dtype, combiner, own.sources, own.targets, end - begin);
    return (end - begin) * size;
  }

  /// This member's shard of tensor `t`, combined.
  void combine_shard(int member, std::size_t t, ShardedDim sharded, Combiner combiner) {
    Member& own = members_[member];
    const KernelTensor& out = own.shown.out[t];
    const TensorType& type = own.shown.in[t].type;
    for (const Member& other : members_)
      invariant(other.shown.in[t].type == type && out.type.dtype == type.dtype,
                "reduce_scatter: {} of member {} with {}", to_string(type), member,
                to_string(other.shown.in[t].type));
    At from, to;
    const BoxCopy box =
        BoxCopy::make(type.shape, origin(from, type.rank(), sharded.dim, member * sharded.chunk),
                      out.type.shape, origin(to, type.rank(), sharded.dim, 0), out.type.shape);
    const auto size = static_cast<std::int64_t>(size_of(type.dtype));
    box.for_each_run(0, box.runs(), [&](std::int64_t read, std::int64_t written) {
      for (std::size_t m = 0; m < members_.size(); ++m)
        own.sources[m].data = members_[m].shown.in[t].data + read * size;
      own.targets[0] = out.data + written * size;
      combine(type.dtype, combiner, own.sources, {own.targets.data(), 1}, box.run);
    });
  }

  static constexpr std::int64_t kSliceElements = 64;
  std::vector<Member> members_;
  Rendezvous meeting_;
};

}  // namespace

std::unique_ptr<Group> make_thread_group(int size) {
  require(size >= 1, "thread group of {} members; give at least 1", size);
  return std::make_unique<ThreadGroup>(size);
}

}  // namespace alpa::comm
