// src/cuda/copy_channel.cc — messages between logical devices of one card
#include "channel.h"
#include "kernels/cuda/message_box.h"
#include "status.h"

namespace alpa::cuda {
namespace {

class CopyChannel : public Channel {
 public:
  void queue(const lower::Message& box, const MessageEnd* from, const MessageEnd* to) override {
    const KernelTensor &sent = from->tensor, &received = to->tensor;
    const CopyLaunch copy = copy_of(message_box(sent, box.begin, box.extent),
                                    message_box(received, box.begin, box.extent), sent.type.dtype);
    check(static_cast<cudaError_t>(run_copy(copy, sent.data, received.data, to->stream)),
          "run_copy");
  }
};

}  // namespace

std::unique_ptr<Channel> make_copy_channel() { return std::make_unique<CopyChannel>(); }

}  // namespace alpa::cuda
