#pragma once
/// Uploads a step's inputs: the host packs them into pinned memory, then they are copied into the
/// staging buffers while the previous step still runs.
#include <vector>

#include "mesh_queue.h"
#include "src/base/thread_team.h"
#include "src/runtime/devices.h"
#include "src/tensor/box_copy.h"

namespace alpa::cuda {

class Uploads {
 public:
  /// Pinned memory for the inputs of as many steps as staging buffers hold.
  Uploads(const spmd::SpmdProgram& program, const LoadedDevices& devices);

  /// Packs the inputs into part `slot` of the pinned memory, whose last upload must be over.
  void pack(const runtime::StepInputs& inputs, int slot);
  /// Queues the copies from there to part `slot` of the staging buffers in
  /// `memory`, on `streams` (per rank).
  void queue(int slot, const runtime::DeviceMemory& memory,
             const std::vector<Stream>& streams) const;

 private:
  /// The part of a batch or shared input that one or several devices need: a box of every
  /// micro-batch, one after the other.
  struct Piece {
    int input = -1;
    Shape offset;
    TensorType type;  ///< of one micro-batch's part
    BoxCopy box;
    std::int64_t micro_batch_stride = 0;  ///< bytes of the whole array
    std::int64_t at = 0;                  ///< in a part of the pinned memory
  };
  struct Transfer {
    std::int64_t from = 0, to = 0, bytes = 0;  ///< in a part of pinned memory; in a slot
  };

  void plan(int rank);
  int copies_of(int input) const;
  std::int64_t place_piece(int input, const KernelTensor& part);
  void pack_header(const runtime::StepInputs& inputs, int rank, std::byte* header) const;

  const spmd::SpmdProgram& program_;
  const LoadedDevices& devices_;
  std::vector<Piece> pieces_;
  std::vector<std::int64_t> headers_;             ///< per rank: offset of its header in a part
  std::vector<std::vector<Transfer>> transfers_;  ///< per rank
  std::int64_t part_bytes_ = 0;
  PinnedBlock pinned_;
  ThreadTeam team_;
};

}  // namespace alpa::cuda
