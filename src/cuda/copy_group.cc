// src/cuda/copy_group.cc — collectives among logical devices of one card
#include <array>

#include "alpa/base/error.h"
#include "collective_group.h"
#include "handles.h"
#include "kernels/cuda/combine.h"
#include "kernels/plan/strided_copy_plan.h"
#include "status.h"

namespace alpa::cuda {
namespace {

/// The box of `extent` elements that begins at `from_at` along dimension `from_dim` of a tensor of
/// shape `from`, and at `to_at` along `to_dim` of one of shape `to`.
CopyLaunch box_between(const Shape& from, int from_dim, std::int64_t from_at, const Shape& to,
                       int to_dim, std::int64_t to_at, const Shape& extent) {
  const Shape x = kernels::dense_strides(from), y = kernels::dense_strides(to);
  CopyLaunch box;
  require(plan_copy(box, 1, static_cast<int>(extent.size()), extent.data(), x.data(), y.data(),
                    from_at * x[from_dim], to_at * y[to_dim]),
          "collective of tensors with {} dimensions: the kernel takes at most {}", extent.size(),
          kMaxDims);
  return box;
}

/// Pointers to one tensor of several members.
struct Pointers {
  int count = 0;
  std::array<void*, kMaxMembers> data{};

  void add(void* pointer) { data[count++] = pointer; }
};

const KernelTensor& in(const Member& member, std::size_t t) { return member.tensors->inputs[t]; }
const KernelTensor& out(const Member& member, std::size_t t) { return member.tensors->outputs[t]; }

/// Operand `t` of all members.
Pointers sources_of(std::span<const Member> members, std::size_t t) {
  Pointers pointers;
  for (const Member& member : members) pointers.add(in(member, t).data);
  return pointers;
}

/// Result `t` of all members.
Pointers targets_of(std::span<const Member> members, std::size_t t) {
  Pointers pointers;
  for (const Member& member : members) pointers.add(out(member, t).data);
  return pointers;
}

void combine(DType dtype, Combiner op, const CopyLaunch& box, const Pointers& from,
             const Pointers& to, Stream stream) {
  check(static_cast<cudaError_t>(run_combine(dtype, op, box, from.count, from.data.data(), to.count,
                                             to.data.data(), stream)),
        "run_combine");
}

void all_reduce(const lower::CollectiveCall& call, std::span<const Member> members, std::size_t t,
                Stream stream) {
  const TensorType& type = in(members[0], t).type;
  for (const Member& member : members)
    invariant(in(member, t).type == type && out(member, t).type == type, "all_reduce: {} with {}",
              to_string(type), to_string(in(member, t).type));
  combine(type.dtype, call.combiner, whole_box(type.elements()), sources_of(members, t),
          targets_of(members, t), stream);
}

void reduce_scatter(const lower::CollectiveCall& call, std::span<const Member> members,
                    std::size_t t, Stream stream) {
  const Pointers sources = sources_of(members, t);
  const ShardedDim& cut = call.dims[t];
  for (const Member& member : members) {
    const TensorType &whole = in(member, t).type, &part = out(member, t).type;
    const CopyLaunch box = box_between(whole.shape, cut.dim, member.index * cut.chunk, part.shape,
                                       cut.dim, 0, part.shape);
    combine(part.dtype, call.combiner, box, sources, targets_of({&member, 1}, t), stream);
  }
}

void all_gather(const lower::CollectiveCall& call, std::span<const Member> members, std::size_t t,
                Stream stream) {
  const Pointers targets = targets_of(members, t);
  const ShardedDim& cut = call.dims[t];
  for (const Member& member : members) {
    const TensorType &part = in(member, t).type, &whole = out(member, t).type;
    const CopyLaunch box = box_between(part.shape, cut.dim, 0, whole.shape, cut.dim,
                                       member.index * cut.chunk, part.shape);
    combine(part.dtype, Combiner::sum, box, sources_of({&member, 1}, t), targets, stream);
  }
}

void all_to_all(const lower::CollectiveCall& call, std::span<const Member> members, Stream stream) {
  const ShardedDim &split = call.dims[0], &gathered = call.from_dim;
  for (const Member& from : members)
    for (const Member& to : members) {
      const TensorType &source = in(from, 0).type, &target = out(to, 0).type;
      Shape extent = target.shape;
      extent[gathered.dim] = source.shape[gathered.dim];
      const CopyLaunch box =
          box_between(source.shape, split.dim, to.index * split.chunk, target.shape, gathered.dim,
                      from.index * gathered.chunk, extent);
      combine(source.dtype, Combiner::sum, box, sources_of({&from, 1}, 0), targets_of({&to, 1}, 0),
              stream);
    }
}

/// Queues the copies for all members on one stream, which runs after all their work.
void queue_copies(const lower::CollectiveCall& call, std::span<const Member> members,
                  Stream stream) {
  const std::size_t tensors = members[0].tensors->inputs.size();
  for (std::size_t t = 0; t < tensors; ++t) switch (call.kind) {
      case CollectiveKind::all_reduce: all_reduce(call, members, t, stream); break;
      case CollectiveKind::reduce_scatter: reduce_scatter(call, members, t, stream); break;
      case CollectiveKind::all_gather: all_gather(call, members, t, stream); break;
      case CollectiveKind::all_to_all: all_to_all(call, members, stream); break;
      default: bug("{} is no collective of a mesh", name_of(call.kind));
    }
}

class CopyGroup : public CollectiveGroup {
 public:
  explicit CopyGroup(int size) : size_(size), done_(make_event()) {
    require(size >= 1 && size <= kMaxMembers,
            "group of {} logical devices on one card: 1 to {} can exchange tensors there", size,
            kMaxMembers);
    for (int i = 0; i < size; ++i) ready_.push_back(make_event());
  }

  /// The first member's stream does the work, between the others' work before and after.
  void queue(const lower::CollectiveCall& call, std::span<const Member> members) override {
    invariant(static_cast<int>(members.size()) == size_, "copy group: {} of {} members are here",
              members.size(), size_);
    const Stream leader = members[0].stream;
    for (const Member& member : members.subspan(1))
      order(member.stream, ready_[member.index].get(), leader);
    queue_copies(call, members, leader);
    check(cudaEventRecord(done_.get(), leader), "cudaEventRecord");
    for (const Member& member : members.subspan(1))
      check(cudaStreamWaitEvent(member.stream, done_.get(), 0), "cudaStreamWaitEvent");
  }

 private:
  int size_;
  std::vector<EventHandle> ready_;
  EventHandle done_;
};

}  // namespace

std::unique_ptr<CollectiveGroup> make_copy_group(int size) {
  return std::make_unique<CopyGroup>(size);
}

}  // namespace alpa::cuda
