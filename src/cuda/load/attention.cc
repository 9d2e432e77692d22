// src/cuda/load/attention.cc — loads attention, its gradient, attention over a cache, and
// rotary position embeddings
#include "kernels/cuda/attention.h"

#include <array>

#include "kernels/cuda/convolution_plan.h"
#include "kernels/cuda/rotary.h"
#include "src/cuda/dnn_attention.h"
#include "src/cuda/loads.h"

namespace alpa::cuda {
namespace {

using kernels::AttentionShape;

const StepNumbers* step_of(const KernelCall& call) {
  return reinterpret_cast<const StepNumbers*>(call.step);
}

/// The kernels of our own.
Launch load_plain(const AttentionLaunch& launch) {
  if (!launch.is_gradient)
    return [s = launch.shape](const KernelCall& now, Stream stream) {
      const auto in = [&](int i) { return now.inputs[i].data; };
      check_queued(run_attention(s,
                                 {in(0), in(1), in(2), kernels::hidden_keys(now, 3),
                                  now.outputs[0].data, now.outputs[1].data},
                                 step_of(now), stream),
                   "attention");
    };
  return [s = launch.shape](const KernelCall& now, Stream stream) {
    const auto in = [&](int i) { return now.inputs[i].data; };
    check_queued(
        run_attention_grad(s,
                           {in(0), in(1), in(2), in(3), in(4), in(5), kernels::hidden_keys(now, 6),
                            aligned(now.workspace, kDnnAlignment), now.outputs[0].data,
                            now.outputs[1].data, now.outputs[2].data},
                           step_of(now), stream),
        "gradient of attention");
  };
}

/// Attention through cuDNN, with the variant packs of its pieces.
struct DnnAttention {
  explicit DnnAttention(const AttentionLaunch& launch)
      : launch(launch), piece(attention_piece(launch)), scratch(attention_scratch(launch)) {
    packs.resize(launch.shape.batch / piece.shape.batch *
                 (launch.shape.key_heads / piece.shape.key_heads));
  }

  AttentionLaunch launch;
  AttentionPiece piece;
  AttentionScratch scratch;
  DnnAttentionNumbers numbers{piece};
  std::shared_ptr<const DnnPlan> plan;
  std::vector<DnnPacks> packs;

  void queue(const KernelCall& now, Stream stream);
  void queue_piece(const KernelCall& now, std::int64_t row, std::int64_t key_head, DnnPacks& packs,
                   Stream stream) const;
};

void DnnAttention::queue(const KernelCall& now, Stream stream) {
  const AttentionShape &all = launch.shape, &one = piece.shape;
  std::size_t number = 0;
  for (std::int64_t row = 0; row < all.batch; row += one.batch)
    for (std::int64_t head = 0; head < all.key_heads; head += one.key_heads)
      queue_piece(now, row, head, packs[number++], stream);
}

void DnnAttention::queue_piece(const KernelCall& now, std::int64_t row, std::int64_t key_head,
                               DnnPacks& packs, Stream stream) const {
  const AttentionShape& s = launch.shape;
  const std::int64_t head = key_head * s.group;
  std::array<std::pair<std::int64_t, void*>, kDnnQueries> tensors;
  std::size_t count = 0;
  const auto put = [&](std::int64_t number, const KernelTensor& tensor, std::int64_t element) {
    const auto bytes = static_cast<std::int64_t>(size_of(tensor.type.dtype));
    tensors[count++] = {number, tensor.data + element * bytes};
  };
  const std::int64_t of_queries = (row * s.queries * s.heads + head) * s.width,
                     of_keys = (row * s.keys * s.key_heads + key_head) * s.width,
                     of_statistics = (row * s.heads + head) * s.queries;
  const std::size_t first = launch.is_gradient ? 1 : 0;  // dy is ahead of q
  put(kDnnQ, now.inputs[first], of_queries);
  put(kDnnK, now.inputs[first + 1], of_keys);
  put(kDnnV, now.inputs[first + 2], of_keys);
  put(kDnnO, launch.is_gradient ? now.inputs[4] : now.outputs[0], of_queries);
  put(kDnnLse, launch.is_gradient ? now.inputs[5] : now.outputs[1], of_statistics);
  std::byte* const memory = aligned(now.workspace, kDnnAlignment);
  if (launch.is_gradient) {
    put(kDnnDo, now.inputs[0], of_queries);
    put(kDnnDq, now.outputs[0], of_queries);
    put(kDnnDk, now.outputs[1], of_keys), put(kDnnDv, now.outputs[2], of_keys);
    tensors[count++] = {kDnnDelta, memory};
    if (!s.repeats) tensors[count++] = {kDnnSums, memory + scratch.sums};
  }
  for (const auto& number : numbers.tensors) tensors[count++] = number;
  const DnnTensors all = std::span(tensors).first(count);
  plan->run(packs.of(all, memory + scratch.workspace), stream);
}

}  // namespace

Launch load_attention(const OpDef&, const KernelCall& call, const Gpu& card) {
  const AttentionLaunch launch = attention_launch(call);
  const std::string refusal = dnn_refusal(launch);
  if (card.dnn != nullptr && !refusal.empty()) say_plain(kAttentionRuns, refusal);
  if (card.dnn == nullptr || !suits_dnn(launch)) return load_plain(launch);
  const auto loaded = std::make_shared<DnnAttention>(launch);
  loaded->plan = card.dnn->load(
      attention_problem(loaded->piece, loaded->scratch.workspace_bytes, loaded->numbers),
      card.node);
  if (!loaded->plan) return load_plain(launch);
  return [loaded](const KernelCall& now, Stream stream) { loaded->queue(now, stream); };
}

Launch load_cached_attention(const OpDef&, const KernelCall& call, const Gpu&) {
  return [s = kernels::cached_attention_shape(call)](const KernelCall& now, Stream stream) {
    const auto in = [&](int i) { return now.inputs[i].data; };
    check_queued(run_attention(s,
                               {in(0),
                                in(1),
                                in(2),
                                {},
                                now.outputs[0].data,
                                nullptr,
                                now.inputs[3].as<std::int32_t>()},
                               step_of(now), stream),
                 "attention over a cache");
  };
}

Launch load_rotary(const OpDef&, const KernelCall& call, const Gpu&) {
  return [shape = kernels::rotary_shape(call)](const KernelCall& now, Stream stream) {
    check_queued(run_rotary(shape, now.inputs[0].data, now.inputs[1].as<std::int32_t>(),
                            now.outputs[0].data, stream),
                 "rotary position embedding");
  };
}

}  // namespace alpa::cuda
