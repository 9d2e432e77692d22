// src/cuda/staged_group.cc — collectives of processes that share a card, through host memory
#include <deque>
#include <set>
#include <utility>

#include "alpa/base/error.h"
#include "kernels/cuda/combine.h"
#include "src/comm/pieces.h"
#include "staged.h"
#include "staged_memory.h"

namespace alpa::cuda {
namespace {

constexpr std::int64_t kAlignment = 256;

/// The type of operand `t` of member `index`, in another process: `own` is any member's call.
TensorType operand_type(const lower::CollectiveCall& call, const KernelCall& own, std::size_t t,
                        int index) {
  TensorType type = own.inputs[t].type;
  if (!joins(call.kind)) return type;
  const ShardedDim& cut = call.before(t);
  type.shape[cut.dim] = comm::shard_size(own.outputs[t].type.shape[cut.dim], cut.chunk, index);
  return type;
}

class StagedGroup : public CollectiveGroup {
 public:
  StagedGroup(processes::World& world, std::vector<int> ranks, int first_tag)
      : world_(world), copied_out_(make_event()), done_(make_event()) {
    require(ranks.size() <= kMaxMembers,
            "group of {} devices, some of which share a card: 1 to {} can exchange tensors there",
            ranks.size(), kMaxMembers);
    std::set<int> peers(ranks.begin(), ranks.end());
    peers.erase(world.rank());
    for (int index = 0; index < static_cast<int>(ranks.size()); ++index) {
      const bool here = ranks[index] == world.rank();
      members_.push_back({.here = here});
      const int tag = first_tag + index;
      if (!here) messages_.emplace_back(index, ranks[index], tag, /*sends=*/false);
      for (const int peer : peers)
        if (here) messages_.emplace_back(index, peer, tag, /*sends=*/true);
    }
  }

  bool queue(const lower::CollectiveCall& call, std::span<const Member> members) override {
    if (state_ == State::idle && !copy_out(call, members)) return false;
    if (state_ == State::copying && !exchange()) return false;
    for (const Message& message : messages_)
      if (!message.sends && !is_over(message.request, world_)) return false;
    combine(call, members);
    state_ = State::idle;
    return true;
  }

  void check_health() override { world_.require_alive(); }

 private:
  /// State of the collective under way.
  enum class State { idle, copying, exchanging };
  /// A member, and where its operands are in the staging memory.
  struct Staged {
    bool here = false;
    std::int64_t at = 0, bytes = 0;
    KernelCall call = {};  ///< of a member that is not here: operands there, results without data
  };
  /// The operands of one member, from its process to another.
  struct Message {
    Message(int from, int its_peer, int its_tag, bool it_sends)
        : member(from), peer(its_peer), tag(its_tag), sends(it_sends) {}
    int member, peer, tag;
    bool sends;
    processes::Request request;
  };

  /// Queues copies of the operands of members here. False: the memory is still in use.
  bool copy_out(const lower::CollectiveCall& call, std::span<const Member> members) {
    for (const Message& message : messages_)
      if (!is_over(message.request, world_)) return false;
    if (!is_done(done_)) return false;
    place(call, *members[0].tensors);
    for (const Member& member : members) {
      std::int64_t at = members_[member.index].at;
      for (const KernelTensor& tensor : member.tensors->inputs) {
        const std::int64_t bytes = tensor.type.bytes();
        if (bytes > 0)
          check(cudaMemcpyAsync(memory_.host(at), tensor.data, static_cast<std::size_t>(bytes),
                                cudaMemcpyDeviceToHost, member.stream),
                "cudaMemcpyAsync");
        at += comm::aligned(bytes, kAlignment);
      }
      if (&member != &members[0]) order(member.stream, copied_out_.get(), members[0].stream);
    }
    check(cudaEventRecord(copied_out_.get(), members[0].stream), "cudaEventRecord");
    state_ = State::copying;
    return true;
  }

  /// Places all members' operands in the staging memory.
  void place(const lower::CollectiveCall& call, const KernelCall& own) {
    std::int64_t end = 0;
    for (std::size_t index = 0; index < members_.size(); ++index) {
      Staged& member = members_[index];
      member.at = end;
      member.call.inputs = own.inputs;
      member.call.outputs = own.outputs;
      for (KernelTensor& result : member.call.outputs) result.data = nullptr;
      for (std::size_t t = 0; t < own.inputs.size(); ++t) {
        TensorType& type = member.call.inputs[t].type;
        type = operand_type(call, own, t, static_cast<int>(index));
        end += comm::aligned(type.bytes(), kAlignment);
      }
      member.bytes = end - member.at;
    }
    memory_.reserve(end);
    for (Staged& member : members_) {
      std::int64_t at = member.at;
      for (KernelTensor& operand : member.call.inputs) {
        operand.data = end > 0 ? memory_.on_card(at) : nullptr;
        at += comm::aligned(operand.type.bytes(), kAlignment);
      }
    }
  }

  /// Starts the messages. False: the copies are not over.
  bool exchange() {
    if (!is_done(copied_out_)) return false;
    for (Message& message : messages_) {
      const Staged& member = members_[message.member];
      if (member.bytes == 0) continue;
      message.request.set(message.peer, message.tag, memory_.host(member.at), member.bytes,
                          message.sends);
      world_.courier().post(message.request);
    }
    state_ = State::exchanging;
    return true;
  }

  /// Queues the collective on the first member's stream: the others' copies are done by then.
  void combine(const lower::CollectiveCall& call, std::span<const Member> members) {
    const Stream leader = members[0].stream;
    std::vector<Member> all;
    for (std::size_t index = 0; index < members_.size(); ++index)
      all.push_back({static_cast<int>(index), leader, &members_[index].call});
    for (const Member& member : members) all[member.index] = member;
    queue_copies(call, all, leader);
    check(cudaEventRecord(done_.get(), leader), "cudaEventRecord");
    for (const Member& member : members.subspan(1))
      check(cudaStreamWaitEvent(member.stream, done_.get(), 0), "cudaStreamWaitEvent");
  }

  processes::World& world_;
  std::vector<Staged> members_;  ///< by index
  EventHandle copied_out_, done_;
  StagedMemory memory_;
  std::deque<Message> messages_;  // end before their memory
  State state_ = State::idle;
};

}  // namespace

std::unique_ptr<CollectiveGroup> make_staged_group(processes::World& world, std::vector<int> ranks,
                                                   int first_tag) {
  return std::make_unique<StagedGroup>(world, std::move(ranks), first_tag);
}

}  // namespace alpa::cuda
