// kernels/cpu/in_chunks.cc — sums over rows, chunk by chunk, and the tree over the chunks
#include "kernels/cpu/in_chunks.h"

#include <bit>

#include "alpa/base/error.h"
#include "src/base/thread_team.h"

namespace alpa::cpu {
namespace {

std::int64_t padded(std::int64_t bytes) { return (bytes + 63) / 64 * 64; }

/// A call of one chunk. Where a result is not of rows, sums of ever fewer chunks follow each other,
/// as in a binary counter: the first in the result itself, the others in the workspace.
struct Chunks {
  mutable KernelCall part;       ///< pointers are set for every run; a call belongs to one thread
  std::vector<std::int64_t> at;  ///< of every result that is a sum, in the memory of a level
  std::int64_t level_bytes = 0;
  int levels = 0;  ///< of the tree

  bool is_sum(std::size_t output) const { return (part.sums.outputs >> output & 1) == 0; }
  std::int64_t workspace() const { return levels * level_bytes; }
};

/// The tensor's rows of one chunk.
KernelTensor chunk_of(KernelTensor tensor, int chunks) {
  std::int64_t& rows = tensor.type.shape.at(0);
  invariant(rows % chunks == 0, "{} rows in {} chunks", rows, chunks);
  rows /= chunks;
  return tensor;
}

Chunks plan_chunks(const KernelCall& call, const KernelDef& at_once) {
  Chunks chunks;
  const int count = call.sums.chunks;
  invariant(std::has_single_bit(static_cast<unsigned>(count)), "{} chunks", count);
  chunks.levels = std::countr_zero(static_cast<unsigned>(count));
  chunks.part = call;
  KernelCall& part = chunks.part;
  for (std::size_t i = 0; i < part.inputs.size(); ++i)
    if (call.sums.inputs >> i & 1) part.inputs[i] = chunk_of(part.inputs[i], count);
  for (std::size_t i = 0; i < part.outputs.size(); ++i) {
    if (!chunks.is_sum(i)) part.outputs[i] = chunk_of(part.outputs[i], count);
    const TensorType& type = part.outputs[i].type;
    chunks.at.push_back(chunks.level_bytes);
    if (!chunks.is_sum(i)) continue;
    invariant(type.dtype == f32 || type.dtype == i32, "{} in chunks", to_string(type));
    chunks.level_bytes += padded(type.bytes());
  }
  part.prepared = at_once.prepare ? at_once.prepare(part) : nullptr;
  return chunks;
}

template <class T>
void add(const KernelCall& call, std::byte* to, const std::byte* from, std::int64_t n) {
  T* const sums = reinterpret_cast<T*>(to);
  const T* const more = reinterpret_cast<const T*>(from);
  call.team->for_each(n, 1 << 14, [&](std::int64_t i) { sums[i] += more[i]; });
}

/// Where result `output`, which is a sum, is at one level of the tree.
std::byte* sums_at(const KernelCall& call, const Chunks& chunks, std::size_t output, int level) {
  if (level == 0) return call.outputs[output].data;
  return call.workspace + (level - 1) * chunks.level_bytes + chunks.at[output];
}

void run_chunk(const KernelCall& call, const Chunks& chunks, const KernelDef& at_once, int chunk,
               int level) {
  KernelCall& part = chunks.part;
  const auto move = [&](KernelTensor& to, const KernelTensor& whole) {
    to.data = whole.data + chunk * to.type.bytes();
    to.offset.at(0) = whole.offset[0] + chunk * to.type.shape[0];
  };
  for (std::size_t i = 0; i < call.inputs.size(); ++i)
    if (call.sums.inputs >> i & 1)
      move(part.inputs[i], call.inputs[i]);
    else
      part.inputs[i].data = call.inputs[i].data;
  for (std::size_t i = 0; i < call.outputs.size(); ++i)
    if (chunks.is_sum(i))
      part.outputs[i].data = sums_at(call, chunks, i, level);
    else
      move(part.outputs[i], call.outputs[i]);
  part.workspace = call.workspace + chunks.workspace();
  part.team = call.team;
  at_once.run(part);
}

/// The sums of a level are added to those of the level before.
void merge(const KernelCall& call, const Chunks& chunks, int level) {
  for (std::size_t i = 0; i < call.outputs.size(); ++i) {
    if (!chunks.is_sum(i)) continue;
    const TensorType& type = call.outputs[i].type;
    std::byte* const to = sums_at(call, chunks, i, level - 1);
    const std::byte* const from = sums_at(call, chunks, i, level);
    (type.dtype == f32 ? add<float> : add<std::uint32_t>)(call, to, from, type.elements());
  }
}

}  // namespace

namespace detail {

std::shared_ptr<const void> prepare_chunks(const KernelCall& call, const KernelDef& at_once) {
  if (call.sums.chunks > 1) return std::make_shared<Chunks>(plan_chunks(call, at_once));
  return at_once.prepare ? at_once.prepare(call) : nullptr;
}

std::int64_t chunks_workspace(const KernelCall& call, const KernelDef& at_once) {
  const auto own = [&](const KernelCall& of) {
    return at_once.workspace_bytes ? at_once.workspace_bytes(of) : 0;
  };
  if (call.sums.chunks <= 1) return own(call);
  const Chunks chunks = plan_chunks(call, at_once);
  return chunks.workspace() + own(chunks.part);
}

void run_chunks(const KernelCall& call, const KernelDef& at_once) {
  if (call.sums.chunks <= 1) return at_once.run(call);
  const Chunks& chunks = *static_cast<const Chunks*>(call.prepared.get());
  int level = 0;
  for (int chunk = 0; chunk < call.sums.chunks; ++chunk, ++level) {
    run_chunk(call, chunks, at_once, chunk, level);
    for (int pairs = chunk; pairs & 1; pairs >>= 1, --level) merge(call, chunks, level);
  }
}

}  // namespace detail
}  // namespace alpa::cpu
