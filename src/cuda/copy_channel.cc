// src/cuda/copy_channel.cc — messages between logical devices of one card
#include "channel.h"
#include "kernels/cuda/message_box.h"
#include "status.h"

namespace alpa::cuda {
namespace {

class CopyChannel : public Channel {
 public:
  void queue(const lower::Message& box, const MessageEnd& from, const MessageEnd& to) override {
    const DType dtype = from.tensor.type.dtype;
    const CopyLaunch copy = copy_of(message_box(from.tensor, box.begin, box.extent),
                                    message_box(to.tensor, box.begin, box.extent), dtype);
    check(static_cast<cudaError_t>(run_copy(copy, from.tensor.data, to.tensor.data, to.stream)),
          "run_copy");
  }
};

}  // namespace

std::unique_ptr<Channel> make_copy_channel() { return std::make_unique<CopyChannel>(); }

}  // namespace alpa::cuda
