// src/cuda/staged_channel.cc — messages of processes that share a card, through host memory
#include "kernels/cuda/message_box.h"
#include "staged.h"
#include "staged_memory.h"

namespace alpa::cuda {
namespace {

void copy_box(const MessageBox& from, const MessageBox& to, DType dtype, const std::byte* source,
              std::byte* target, Stream stream) {
  check(static_cast<cudaError_t>(run_copy(copy_of(from, to, dtype), source, target, stream)),
        "packing a message");
}

class StagedChannel : public Channel {
 public:
  StagedChannel(processes::World& world, int peer, int tag)
      : world_(world), peer_(peer), tag_(tag), copied_(make_event()) {}

  bool queue(const lower::Message& message, const MessageEnd* from, const MessageEnd* to) override {
    const KernelTensor& tensor = (from ? from : to)->tensor;
    const MessageBox box = message_box(tensor, message.begin, message.extent);
    const DType dtype = tensor.type.dtype;
    if (box.elements == 0) return true;
    const std::int64_t bytes = box.elements * static_cast<std::int64_t>(size_of(dtype));
    if (!is_over(request_, world_) || !is_done(copied_)) return false;
    if (!std::exchange(begun_, true)) {
      memory_.reserve(bytes);
      if (from)
        copy_box(box, packed(box), dtype, tensor.data, memory_.on_card(), from->stream);
      else
        post(bytes, /*sends=*/false);
      if (from) check(cudaEventRecord(copied_.get(), from->stream), "cudaEventRecord");
      return false;
    }
    if (from) {
      post(bytes, /*sends=*/true);
    } else {
      copy_box(packed(box), box, dtype, memory_.on_card(), tensor.data, to->stream);
      check(cudaEventRecord(copied_.get(), to->stream), "cudaEventRecord");
    }
    begun_ = false;
    return true;
  }

  void check_health() override { world_.require_alive(); }

 private:
  void post(std::int64_t bytes, bool sends) {
    request_.set(peer_, tag_, memory_.host(), bytes, sends);
    world_.courier().post(request_);
  }

  processes::World& world_;
  const int peer_, tag_;
  EventHandle copied_;  ///< between the box and the staging memory
  StagedMemory memory_;
  processes::Request request_;  // ends before its memory
  bool begun_ = false;
};

}  // namespace

std::unique_ptr<Channel> make_staged_channel(processes::World& world, int peer, int tag) {
  return std::make_unique<StagedChannel>(world, peer, tag);
}

}  // namespace alpa::cuda
