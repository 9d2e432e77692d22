#pragma once
/// Operators on random tensors, loaded and queued as the executor does it, and the
/// seconds they take on the card.
#include <cuda_runtime.h>
#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "alpa/base/error.h"
#include "interleave.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/random.h"
#include "src/cuda/discovery.h"
#include "src/cuda/handles.h"
#include "src/cuda/kernel.h"
#include "src/cuda/matmul.h"
#include "src/cuda/status.h"
#include "src/ops/all_ops.h"
#include "src/spmd/program.h"

namespace alpa::bench {

/// True if there is a card; else a line says why not.
inline bool have_card() {
  try {
    return cuda::device_count() > 0;
  } catch (const Error& error) {
    fmt::print("skipped: {}\n", error.what());
    return false;
  }
}

/// The first card, whose products `products` are.
inline cuda::Gpu first_card(cuda::Matmuls& products) {
  const CudaDevice properties = cuda::device(0);
  return {0, properties.major * 10 + properties.minor, &products};
}

/// Fills memory of the card with numbers of [from, to): zeros are faster than any real ones.
inline void randomize(void* data, DType dtype, std::int64_t elements, double from = -1,
                      double to = 1) {
  static const cuda::DeviceBlock step = [] {
    cuda::DeviceBlock block = cuda::allocate_device(sizeof(cuda::StepNumbers));
    cuda::check(cudaMemset(block.get(), 0, sizeof(cuda::StepNumbers)), "cudaMemset");
    return block;
  }();
  static std::uint64_t stream = 0;
  const std::int64_t begin = 0;
  cuda::RandomLaunch launch;
  require(cuda::plan_random(launch, cuda::Distribution::uniform, dtype, ++stream, from, to, 1,
                            &elements, &begin, &elements),
          "plan_random");
  cuda::check(static_cast<cudaError_t>(cuda::run_random(
                  launch, static_cast<const cuda::StepNumbers*>(step.get()), data, nullptr)),
              "run_random");
}

/// Memory for a tensor, random if it is of floating point. Never freed: a
/// benchmark needs it to its end.
inline std::byte* random_tensor(const TensorType& type) {
  auto* const data = static_cast<std::byte*>(cuda::allocate_device(type.bytes()).release());
  if (is_floating(type.dtype))
    randomize(data, type.dtype, type.elements());
  else
    cuda::check(cudaMemset(data, 0x5a, type.bytes()), "cudaMemset");
  return data;
}

/// Places the tensors of each row one after another in a block of random numbers.
inline void place_side_by_side(KernelCall& call, const std::vector<TensorRow>& rows) {
  constexpr std::int64_t kAlignment = 256;
  for (const TensorRow& row : rows) {
    std::vector<KernelTensor>& tensors = row.results ? call.outputs : call.inputs;
    const TensorType& type = tensors[row.first].type;
    const std::int64_t distance = (type.bytes() + kAlignment - 1) / kAlignment * kAlignment,
                       elements = distance / static_cast<std::int64_t>(size_of(type.dtype));
    std::byte* const block =
        random_tensor({type.dtype, {static_cast<std::int64_t>(row.count) * elements}});
    for (std::size_t i = 0; i < row.count; ++i)
      tensors[row.first + i].data = block + static_cast<std::int64_t>(i) * distance;
  }
}

/// Queues `op` on tensors of its own.
using Queue = std::function<void(cuda::Stream stream)>;

/// `side_by_side`: tensors lie so that a group of products is one launch.
inline Queue loaded(const OpDef& op, const Attributes& attributes,
                    const std::vector<TensorType>& operands, const cuda::Gpu& card,
                    bool side_by_side = false) {
  const auto call = std::make_shared<KernelCall>();
  const auto kept = std::make_shared<Attributes>(attributes);
  const auto tensor = [](const TensorType& type) {
    return KernelTensor{nullptr, type, Shape(type.shape.size(), 0), type.shape};
  };
  call->attributes = kept.get();
  for (const TensorType& type : operands) call->inputs.push_back(tensor(type));
  for (const TensorType& type : result_types(op, {operands, attributes}))
    call->outputs.push_back(tensor(type));
  if (side_by_side) place_side_by_side(*call, cuda::rows_side_by_side(op.name, attributes));
  for (auto* tensors : {&call->inputs, &call->outputs})
    for (KernelTensor& placed : *tensors)
      if (placed.data == nullptr) placed.data = random_tensor(placed.type);
  call->workspace = static_cast<std::byte*>(
      cuda::allocate_device(cuda::scratch_bytes(op.name, *call) + 1).release());
  return [call, kept, launch = cuda::find_kernel(op)(op, *call, card)](cuda::Stream stream) {
    launch(*call, stream);
  };
}

/// Keeps the card busy for a while: it clears `bytes` on `stream`, at some 3 GB a millisecond, so
/// that the host can queue what comes next before it begins.
inline void hold_back(std::int64_t bytes, cuda::Stream stream) {
  constexpr std::int64_t kBlock = std::int64_t{1} << 25;
  static const cuda::DeviceBlock block = cuda::allocate_device(kBlock);
  for (; bytes > 0; bytes -= kBlock)
    cuda::check(cudaMemsetAsync(block.get(), 0, std::min(bytes, kBlock), stream),
                "cudaMemsetAsync");
}

/// Seconds of the card for one of `runs` runs in a row on the default stream, without the host's.
/// The card clears `held_bytes` before them.
inline double timed(const Queue& run, std::int64_t held_bytes, int runs = 1) {
  static const cuda::EventHandle begin = cuda::make_event(true), end = cuda::make_event(true);
  hold_back(held_bytes, nullptr);
  cuda::check(cudaEventRecord(begin.get(), nullptr), "cudaEventRecord");
  for (int i = 0; i < runs; ++i) run(nullptr);
  cuda::check(cudaEventRecord(end.get(), nullptr), "cudaEventRecord");
  return cuda::seconds_between(begin.get(), end.get()) / runs;
}

}  // namespace alpa::bench
