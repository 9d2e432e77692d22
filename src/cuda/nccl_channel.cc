// src/cuda/nccl_channel.cc — messages between two cards: boxes that are not dense pass through
// scratch
#include <utility>

#include "channel.h"
#include "kernels/cuda/message_box.h"
#include "nccl_calls.h"
#include "nccl_group.h"

namespace alpa::cuda {
namespace {

/// A box of one side, where NCCL reads or writes it.
struct Dense {
  MessageBox box;
  std::byte* data;
  bool moved;

  Dense(const MessageEnd& end, const lower::Message& message)
      : box(message_box(end.tensor, message.begin, message.extent)), moved(!box.is_dense()) {
    data = moved ? end.workspace
                 : end.tensor.data +
                       box.begin * static_cast<std::int64_t>(size_of(end.tensor.type.dtype));
  }
};

class NcclChannel : public Channel {
 public:
  NcclChannel(std::span<const NcclRank> sides, const StillWell& still_well)
      : still_well_(still_well) {
    for (const NcclRank& side : sides) sides_[side.index] = Side{side.ordinal, side.comm};
  }

  ~NcclChannel() override {
    for (Side& side : sides_) leave_communicator(side.comm, blocks());
  }

  void queue(const lower::Message& message, const MessageEnd* from, const MessageEnd* to) override {
    const SameDevice same;
    std::optional<Dense> sent, received;
    if (from) sent.emplace(*from, message);
    if (to) received.emplace(*to, message);
    const std::int64_t elements = (sent ? sent : received)->box.elements;
    const DType dtype = (from ? from : to)->tensor.type.dtype;
    if (elements == 0) return;
    if (sent && sent->moved)
      copy(*sides_[0].ordinal, copy_of(sent->box, packed(sent->box), dtype), from->tensor.data,
           sent->data, from->stream);
    exchange(elements, nccl_type(dtype), sent ? sent->data : nullptr, from ? from->stream : nullptr,
             received ? received->data : nullptr, to ? to->stream : nullptr);
    if (received && received->moved)
      copy(*sides_[1].ordinal, copy_of(packed(received->box), received->box, dtype), received->data,
           to->tensor.data, to->stream);
  }

  void check_health() override {
    for_each_side([](int side, const Side& own) { check_communicator(own.comm, side, 2); });
  }

  void abort() noexcept override {
    for (Side& side : sides_)
      if (side.comm != nullptr) ncclCommAbort(std::exchange(side.comm, nullptr));
  }

 private:
  struct Side {
    std::optional<int> ordinal;  ///< of its card; nullopt: in another process
    ncclComm_t comm = nullptr;
  };

  bool blocks() const { return still_well_ == nullptr; }

  /// visit(number, side) for those of this process.
  template <class Visit>
  void for_each_side(Visit&& visit) {
    for (int side = 0; side < 2; ++side)
      if (sides_[side].ordinal) visit(side, sides_[side]);
  }

  void wait_until_begun() {
    if (blocks()) return;
    for_each_side(
        [&](int side, const Side& own) { cuda::wait_until_begun(own.comm, side, 2, still_well_); });
  }

  void exchange(std::int64_t elements, ncclDataType_t type, const std::byte* from, Stream sender,
                std::byte* to, Stream receiver) {
    grouped([&] {
      if (sender != nullptr)
        check_begun(ncclSend(from, elements, type, 1, sides_[0].comm, sender), "ncclSend");
      if (receiver != nullptr)
        check_begun(ncclRecv(to, elements, type, 0, sides_[1].comm, receiver), "ncclRecv");
    });
    wait_until_begun();
  }

  static void copy(int ordinal, const CopyLaunch& launch, const std::byte* from, std::byte* to,
                   Stream stream) {
    check(cudaSetDevice(ordinal), "cudaSetDevice");
    check(static_cast<cudaError_t>(run_copy(launch, from, to, stream)), "packing a message");
  }

  Side sides_[2];  ///< the sender, the receiver
  const StillWell still_well_;
};

}  // namespace

std::unique_ptr<Channel> make_nccl_channel(std::span<const NcclRank> sides,
                                           const StillWell& still_well) {
  return std::make_unique<NcclChannel>(sides, still_well);
}

}  // namespace alpa::cuda
