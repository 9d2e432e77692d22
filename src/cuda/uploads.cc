// src/cuda/uploads.cc — packs step inputs into pinned memory and copies them to the devices
#include "uploads.h"

#include <algorithm>

#include "src/ir/input.h"
#include "src/lower/kernel_call.h"
#include "src/lower/staging.h"
#include "src/tensor/element.h"
#include "src/tensor/kernel.h"
#include "status.h"

namespace alpa::cuda {
namespace {

/// Threads that pack: memory is busy with fewer than a large machine has.
constexpr int kPackingThreads = 8;

std::int64_t aligned(std::int64_t bytes) { return (bytes + 255) / 256 * 256; }

}  // namespace

Uploads::Uploads(const spmd::SpmdProgram& program, const LoadedDevices& devices)
    : program_(program), devices_(devices), team_(std::min(kPackingThreads, usable_cores())) {
  for (std::size_t rank = 0; rank < devices.size(); ++rank) plan(static_cast<int>(rank));
  pinned_ = allocate_pinned(lower::kStagedSteps * part_bytes_);
}

/// Parts of an input in a step: one for every micro-batch, or one that all share.
int Uploads::copies_of(int input) const {
  const Graph& graph = program_.graph;
  return graph.inputs[input].kind == InputKind::batch ? graph.num_micro_batches : 1;
}

void Uploads::plan(int rank) {
  const LoadedDevice& device = *devices_[rank];
  const lower::StagingLayout& layout = device.staging();
  headers_.push_back(part_bytes_);
  transfers_.push_back({{part_bytes_, 0, layout.header_bytes}});
  part_bytes_ += aligned(layout.header_bytes);
  std::vector<int> seen;
  for (const lower::InstructionList& list : device.program().lists)
    for (const lower::Instruction& instruction : list.instructions) {
      if (instruction.kind != lower::Instruction::Kind::load) continue;
      const int input = lower::loaded_input(program_, instruction);
      if (program_.graph.inputs[input].kind == InputKind::scalar) continue;
      if (std::find(seen.begin(), seen.end(), input) != seen.end()) continue;
      seen.push_back(input);
      const KernelTensor part = lower::kernel_tensor(device.program(), instruction.outputs[0]);
      const std::int64_t bytes = part.type.bytes() * copies_of(input);
      if (bytes > 0)
        transfers_[rank].push_back({place_piece(input, part), layout.of_input[input], bytes});
    }
}

/// Offset of the piece in a part; devices that need the same data share it.
std::int64_t Uploads::place_piece(int input, const KernelTensor& part) {
  for (const Piece& piece : pieces_)
    if (piece.input == input && piece.offset == part.offset && piece.type == part.type)
      return piece.at;
  Piece piece{input, part.offset, part.type, {}, 0, part_bytes_};
  piece.box = BoxCopy::make(part.global_shape, part.offset, part.type.shape,
                            Shape(part.offset.size(), 0), part.type.shape);
  piece.micro_batch_stride = TensorType{part.type.dtype, part.global_shape}.bytes();
  part_bytes_ += aligned(part.type.bytes() * copies_of(input));
  pieces_.push_back(std::move(piece));
  return pieces_.back().at;
}

void Uploads::pack(const runtime::StepInputs& inputs, int slot) {
  std::byte* const begin = static_cast<std::byte*>(pinned_.get()) + slot * part_bytes_;
  for (std::size_t rank = 0; rank < devices_.size(); ++rank)
    pack_header(inputs, static_cast<int>(rank), begin + headers_[rank]);
  for (const Piece& piece : pieces_)
    for (int m = 0; m < copies_of(piece.input); ++m)
      copy(piece.box, inputs.batch[piece.input] + m * piece.micro_batch_stride,
           begin + piece.at + m * piece.type.bytes(), size_of(piece.type.dtype), team_);
}

void Uploads::pack_header(const runtime::StepInputs& inputs, int rank, std::byte* header) const {
  auto* contexts = reinterpret_cast<StepContext*>(header);
  for (std::size_t list = 0; list < devices_[rank]->program().lists.size(); ++list)
    contexts[list] = {inputs.seed, inputs.step,
                      devices_[rank]->first_micro_batch(static_cast<int>(list))};
  const lower::StagingLayout& layout = devices_[rank]->staging();
  for (std::size_t i = 0; i < program_.graph.inputs.size(); ++i) {
    const Input& input = program_.graph.inputs[i];
    if (input.kind == InputKind::scalar && layout.of_input[i] >= 0)
      store_element(program_.graph.type(input.value).dtype, header + layout.of_input[i],
                    inputs.scalars[i]);
  }
}

void Uploads::queue(int slot, const runtime::DeviceMemory& memory,
                    const std::vector<Stream>& streams) const {
  const std::byte* const begin = static_cast<const std::byte*>(pinned_.get()) + slot * part_bytes_;
  for (std::size_t rank = 0; rank < devices_.size(); ++rank) {
    const LoadedDevice& device = *devices_[rank];
    std::byte* const staging = device.address(memory.arenas[rank], device.program().staging) +
                               slot * device.staging().bytes;
    check(cudaSetDevice(device.card().ordinal), "cudaSetDevice");
    for (const Transfer& t : transfers_[rank])
      check(cudaMemcpyAsync(staging + t.to, begin + t.from, t.bytes, cudaMemcpyHostToDevice,
                            streams[rank]),
            "cudaMemcpyAsync");
  }
}

}  // namespace alpa::cuda
