// src/cuda/nccl_group.cc — collectives through NCCL: packs tensors into one dense block per shard
// where necessary, and exchanges the blocks. What NCCL cannot combine is gathered.
#include "nccl_group.h"

#include <algorithm>

#include "alpa/base/error.h"
#include "kernels/cuda/combine.h"
#include "kernels/cuda/shard_blocks.h"
#include "nccl_calls.h"
#include "src/lower/memory_rules.h"

namespace alpa::cuda {
namespace {

ncclRedOp_t nccl_op(Combiner combiner) {
  invariant(combiner != Combiner::log_sum_exp, "NCCL has no log_sum_exp");
  return combiner == Combiner::sum ? ncclSum : ncclMax;
}

int element_of(const TensorType& type) { return static_cast<int>(size_of(type.dtype)); }

/// One tensor of a member as blocks: in the tensor, or packed in the workspace.
struct Packed {
  ShardBlocks blocks;
  const KernelTensor* tensor = nullptr;
  std::byte* data = nullptr;

  bool moved() const { return data != tensor->data; }
  std::byte* block(int j) const { return data + blocks.begin_of(j) * element_of(tensor->type); }
  std::int64_t elements(int j) const { return blocks.elements_of(j); }
};

void copy(const BlockCopies& copies, const std::byte* from, std::byte* to, Stream stream) {
  for (int i = 0; i < copies.count; ++i)
    check(static_cast<cudaError_t>(run_copy(copies.copies[i], from, to, stream)), "packing blocks");
}

void pack(const Packed& packed, Stream stream) {
  if (packed.moved())
    copy(pack_blocks(packed.blocks, element_of(packed.tensor->type)), packed.tensor->data,
         packed.data, stream);
}

void unpack(const Packed& packed, Stream stream) {
  if (packed.moved())
    copy(unpack_blocks(packed.blocks, element_of(packed.tensor->type)), packed.data,
         packed.tensor->data, stream);
}

/// Combines `parts` of `whole` along the tree of comm/combine.h into the places that `box` has in
/// `target`. kMaxMembers neighbours are a subtree; its result goes to the first of them.
void combine(DType dtype, Combiner combiner, std::vector<void*> parts, const CopyLaunch& whole,
             const CopyLaunch& box, void* target, Stream stream) {
  const auto run = [&](std::span<void*> some, const CopyLaunch& places, void* to) {
    check(static_cast<cudaError_t>(run_combine(
              dtype, combiner, places, static_cast<int>(some.size()), some.data(), 1, &to, stream)),
          "run_combine");
  };
  while (parts.size() > kMaxMembers) {
    std::vector<void*> firsts;
    for (std::size_t p = 0; p < parts.size(); p += kMaxMembers) {
      const std::size_t n = std::min<std::size_t>(kMaxMembers, parts.size() - p);
      run(std::span(parts).subspan(p, n), whole, parts[p]);
      firsts.push_back(parts[p]);
    }
    parts = std::move(firsts);
  }
  run(parts, box, target);
}

class NcclGroup : public CollectiveGroup {
 public:
  NcclGroup(int size, std::vector<NcclRank> ranks, const StillWell& still_well)
      : size_(size), still_well_(still_well), ranks_(std::move(ranks)) {}

  ~NcclGroup() override {
    for (NcclRank& rank : ranks_) leave_communicator(rank.comm, blocks());
  }

  void queue(const lower::CollectiveCall& call, std::span<const Member> members) override {
    invariant(members.size() == ranks_.size(), "NCCL group: {} of {} members of this process",
              members.size(), ranks_.size());
    const SameDevice same;
    for_each(call, members, [&](const NcclRank& rank, const Member& member, const Tensor& t) {
      if (t.from.tensor == nullptr) return;
      check(cudaSetDevice(rank.ordinal), "cudaSetDevice");
      pack(t.from, member.stream);
    });
    grouped([&] {
      for_each(call, members, [&](const NcclRank& rank, const Member& member, const Tensor& t) {
        exchange(call, rank, t, member.stream);
      });
    });
    wait_until_begun();
    for_each(call, members, [&](const NcclRank& rank, const Member& member, const Tensor& t) {
      const bool gathers = lower::nccl_gathers(call);
      if (t.to.tensor == nullptr && !gathers) return;
      check(cudaSetDevice(rank.ordinal), "cudaSetDevice");
      gathers ? combine_gathered(call, rank, t, member.stream) : unpack(t.to, member.stream);
    });
  }

  void check_health() override {
    for (const NcclRank& rank : ranks_) check_communicator(rank.comm, rank.index, size_);
  }

  void abort() noexcept override {
    for (NcclRank& rank : ranks_)
      if (rank.comm != nullptr) ncclCommAbort(std::exchange(rank.comm, nullptr));
  }

 private:
  bool blocks() const { return still_well_ == nullptr; }

  void wait_until_begun() const {
    if (blocks()) return;
    for (const NcclRank& rank : ranks_)
      cuda::wait_until_begun(rank.comm, rank.index, size_, still_well_);
  }

  /// The blocks of one tensor that a member sends and receives; `from` or `to` is empty
  /// where no blocks are needed. `gathered`: workspace for the operands of all ranks, if they are
  /// to be combined here.
  struct Tensor {
    const KernelTensor *in, *out;
    Packed from, to;
    std::byte* gathered = nullptr;
  };

  ShardBlocks blocks_of(const KernelTensor& tensor, const ShardedDim& cut) const {
    return shard_blocks(tensor.type.shape, cut.dim, cut.chunk, size_);
  }

  /// Blocks of `tensor`; packed ones take workspace at `scratch`, which advances.
  Packed packed(const KernelTensor& tensor, const ShardedDim& cut, std::byte*& scratch) const {
    Packed result{blocks_of(tensor, cut), &tensor, tensor.data};
    const std::int64_t bytes = block_scratch_bytes(result.blocks, tensor.type);
    if (bytes > 0) result.data = std::exchange(scratch, scratch + bytes);
    return result;
  }

  /// visit(rank, member, tensor) for all tensors of all members.
  template <class Visit>
  void for_each(const lower::CollectiveCall& call, std::span<const Member> members,
                const Visit& visit) const {
    for (std::size_t m = 0; m < members.size(); ++m) {
      invariant(members[m].index == ranks_[m].index, "NCCL group: member {} where {} is expected",
                members[m].index, ranks_[m].index);
      std::byte* scratch = members[m].tensors->workspace;
      for (std::size_t t = 0; t < members[m].tensors->inputs.size(); ++t) {
        Tensor tensor{&members[m].tensors->inputs[t], &members[m].tensors->outputs[t], {}, {}};
        const bool gathers = lower::nccl_gathers(call);
        if (gathers)
          tensor.gathered =
              std::exchange(scratch, scratch + gathered_scratch_bytes(tensor.in->type, size_));
        if (gathers && splits(call.kind))
          tensor.from = {blocks_of(*tensor.in, call.dims[t]), tensor.in, tensor.in->data};
        else if (splits(call.kind))
          tensor.from = packed(*tensor.in, call.dims[t], scratch);
        if (joins(call.kind)) tensor.to = packed(*tensor.out, call.before(t), scratch);
        visit(ranks_[m], members[m], tensor);
      }
    }
  }

  void exchange(const lower::CollectiveCall& call, const NcclRank& rank, const Tensor& t,
                Stream stream) const {
    if (lower::nccl_gathers(call)) return gather(rank, t, stream);
    switch (call.kind) {
      case CollectiveKind::all_reduce: return all_reduce(call, rank, t, stream);
      case CollectiveKind::reduce_scatter: return reduce_scatter(call, rank, t, stream);
      case CollectiveKind::all_gather: return all_gather(rank, t, stream);
      case CollectiveKind::all_to_all: return all_to_all(rank, t, stream);
      default: bug("{} is no collective of a mesh", name_of(call.kind));
    }
  }

  static void gather(const NcclRank& rank, const Tensor& t, Stream stream) {
    const TensorType& type = t.in->type;
    if (type.elements() == 0) return;
    check_begun(ncclAllGather(t.in->data, t.gathered, type.elements(), nccl_type(type.dtype),
                              rank.comm, stream),
                "ncclAllGather");
  }

  void combine_gathered(const lower::CollectiveCall& call, const NcclRank& rank, const Tensor& t,
                        Stream stream) const {
    const TensorType& type = t.in->type;
    const CopyLaunch whole = whole_box(type.elements());
    const CopyLaunch box = splits(call.kind) ? block_copy(t.from.blocks, 1, rank.index) : whole;
    if (box.elements == 0) return;
    std::vector<void*> parts;
    for (int j = 0; j < size_; ++j) parts.push_back(t.gathered + j * type.bytes());
    combine(type.dtype, call.combiner, parts, whole, box, t.out->data, stream);
  }

  static void all_reduce(const lower::CollectiveCall& call, const NcclRank& rank, const Tensor& t,
                         Stream stream) {
    const TensorType& type = t.in->type;
    if (type.elements() == 0) return;
    check_begun(ncclAllReduce(t.in->data, t.out->data, type.elements(), nccl_type(type.dtype),
                              nccl_op(call.combiner), rank.comm, stream),
                "ncclAllReduce");
  }

  /// Shards of different sizes are reduced one by one, each to its rank.
  void reduce_scatter(const lower::CollectiveCall& call, const NcclRank& rank, const Tensor& t,
                      Stream stream) const {
    const Packed& from = t.from;
    const ncclDataType_t type = nccl_type(t.in->type.dtype);
    const ncclRedOp_t op = nccl_op(call.combiner);
    if (from.blocks.even() && from.elements(0) > 0)
      return check_begun(
          ncclReduceScatter(from.data, t.out->data, from.elements(0), type, op, rank.comm, stream),
          "ncclReduceScatter");
    for (int j = 0; j < size_; ++j)
      if (from.elements(j) > 0)
        check_begun(ncclReduce(from.block(j), t.out->data, from.elements(j), type, op, j, rank.comm,
                               stream),
                    "ncclReduce");
  }

  /// Shards of different sizes are sent one by one, each from its rank.
  void all_gather(const NcclRank& rank, const Tensor& t, Stream stream) const {
    const Packed& to = t.to;
    const ncclDataType_t type = nccl_type(t.in->type.dtype);
    if (to.blocks.even() && to.elements(0) > 0)
      return check_begun(
          ncclAllGather(t.in->data, to.data, to.elements(0), type, rank.comm, stream),
          "ncclAllGather");
    for (int j = 0; j < size_; ++j)
      if (to.elements(j) > 0)
        check_begun(
            ncclBroadcast(t.in->data, to.block(j), to.elements(j), type, j, rank.comm, stream),
            "ncclBroadcast");
  }

  void all_to_all(const NcclRank& rank, const Tensor& t, Stream stream) const {
    const ncclDataType_t type = nccl_type(t.in->type.dtype);
    for (int j = 0; j < size_; ++j) {
      if (t.from.elements(j) > 0)
        check_begun(ncclSend(t.from.block(j), t.from.elements(j), type, j, rank.comm, stream),
                    "ncclSend");
      if (t.to.elements(j) > 0)
        check_begun(ncclRecv(t.to.block(j), t.to.elements(j), type, j, rank.comm, stream),
                    "ncclRecv");
    }
  }

  const int size_;
  const StillWell still_well_;  ///< null: all ranks are in this process
  std::vector<NcclRank> ranks_;
};

}  // namespace

std::string make_nccl_id() {
  ncclUniqueId id;
  static_assert(sizeof id.internal == kNcclIdBytes);
  check(ncclGetUniqueId(&id), "ncclGetUniqueId");
  return {id.internal, sizeof id.internal};
}

std::unique_ptr<CollectiveGroup> make_nccl_group(int size, std::vector<NcclRank> ranks,
                                                 const StillWell& still_well) {
  return std::make_unique<NcclGroup>(size, std::move(ranks), still_well);
}

}  // namespace alpa::cuda
