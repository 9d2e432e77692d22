// src/cuda/nccl_channel.cc — messages between two cards: boxes that are not
// dense pass through scratch
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
  NcclChannel(int from_ordinal, int to_ordinal) : ordinals_{from_ordinal, to_ordinal} {
    const SameDevice same;
    const std::string id = make_nccl_id();
    try {
      grouped([&] {
        for (int side = 0; side < 2; ++side)
          join_communicator(comms_[side], 2, id, side, ordinals_[side]);
      });
    } catch (...) {
      abort();
      throw;
    }
  }

  ~NcclChannel() override {
    for (ncclComm_t comm : comms_)
      if (comm != nullptr) ncclCommDestroy(comm);
  }

  void queue(const lower::Message& message, const MessageEnd& from, const MessageEnd& to) override {
    const SameDevice same;
    const Dense sent(from, message), received(to, message);
    const DType dtype = from.tensor.type.dtype;
    if (sent.box.elements == 0) return;
    if (sent.moved)
      copy(ordinals_[0], copy_of(sent.box, packed(sent.box), dtype), from.tensor.data, sent.data,
           from.stream);
    grouped([&] {
      check(ncclSend(sent.data, sent.box.elements, nccl_type(dtype), 1, comms_[0], from.stream),
            "ncclSend");
      check(ncclRecv(received.data, sent.box.elements, nccl_type(dtype), 0, comms_[1], to.stream),
            "ncclRecv");
    });
    if (received.moved)
      copy(ordinals_[1], copy_of(packed(received.box), received.box, dtype), received.data,
           to.tensor.data, to.stream);
  }

  void check_health() override {
    for (int side = 0; side < 2; ++side) check_communicator(comms_[side], side, 2);
  }

  void abort() noexcept override {
    for (ncclComm_t& comm : comms_)
      if (comm != nullptr) ncclCommAbort(std::exchange(comm, nullptr));
  }

 private:
  static void copy(int ordinal, const CopyLaunch& launch, const std::byte* from, std::byte* to,
                   Stream stream) {
    check(cudaSetDevice(ordinal), "cudaSetDevice");
    check(static_cast<cudaError_t>(run_copy(launch, from, to, stream)), "packing a message");
  }

  int ordinals_[2];
  ncclComm_t comms_[2] = {};
};

}  // namespace

std::unique_ptr<Channel> make_nccl_channel(int from_ordinal, int to_ordinal) {
  return std::make_unique<NcclChannel>(from_ordinal, to_ordinal);
}

}  // namespace alpa::cuda
