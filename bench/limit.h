#pragma once
/// What a step on one CPU device cannot be faster than: its products at the best rate that
/// libraries reach on their shapes, and its other bytes at the rate at which the machine copies.
#include <dnnl.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "interleave.h"
#include "kernels/cpu/kernels.h"
#include "kernels/plan/einsum_plan.h"
#include "on_request.h"
#include "src/base/thread_team.h"
#include "src/lower/lower_program.h"
#include "src/lower/step_counts.h"

namespace alpa::bench {

/// Seconds before each run in which oneDNN's own threads, which the limit uses, go to sleep.
inline constexpr double kPause = 0.05;

/// Products and copies that take as long as the limit of a step. Not shared between threads.
class Limit {
 public:
  explicit Limit(const CompiledStep& planned) {
    const lower::DeviceProgram& device = planned.lowered->firsts.front();
    for (int l = 0; l < static_cast<int>(device.lists.size()); ++l)
      for (const lower::Instruction& instruction : device.lists[l].instructions)
        add(planned.program->graph, device, instruction, lower::runs_of(device, l));
    if (other_flops_ > 0) {
      const Shape cube{kSide, kSide};
      add_product("ik,kj->ij", {{f32, cube}, {f32, cube}, {f32, cube}},
                  std::max(1.0, other_flops_ / (2.0 * kSide * kSide * kSide)));
    }
    for (auto& [key, product] : products_) choose(product);
  }

  void run() {
    for (auto& [key, product] : products_)
      for (int i = 0; i < product.times; ++i) product.best();
    for (double left = copied_bytes_ / 2; left > 0; left -= kCopied)
      copy(static_cast<std::int64_t>(std::min<double>(left, kCopied)));
  }

 private:
  static constexpr std::int64_t kSide = 512;         ///< of products that stand for others
  static constexpr std::int64_t kCopied = 32 << 20;  ///< bytes of a copy, more than caches hold
  static constexpr int kTrials = 5;

  struct Product {
    int times = 0;
    Attributes attributes;
    KernelCall call;
    std::vector<std::byte> memory;
    std::function<void()> best;
    kernels::EinsumPlan plan;
  };

  void add(const Graph& graph, const lower::DeviceProgram& device,
           const lower::Instruction& instruction, int runs) {
    const std::optional<lower::KindCount> count = lower::count_of(graph, device, instruction);
    if (!count) return;
    if (count->kind == "einsum") {
      std::vector<TensorType> types;
      for (int buffer : {instruction.inputs[0], instruction.inputs[1], instruction.outputs[0]})
        types.push_back(device.buffers[buffer].type);
      return add_product(graph.nodes[instruction.node].attributes.string("equation"), types, runs);
    }
    // Attention and convolutions are products in other clothes.
    if (count->kind.starts_with("attention") || count->kind.starts_with("conv"))
      other_flops_ += runs * count->flops;
    else
      copied_bytes_ += runs * count->bytes;
  }

  void add_product(const std::string& equation, const std::vector<TensorType>& types,
                   double times) {
    std::string key = equation;
    for (const TensorType& type : types) key += " " + to_string(type);
    auto& product = products_[key];
    if (!product.call.attributes) prepare(product, equation, types);
    product.times += static_cast<int>(times);
  }

  void prepare(Product& product, const std::string& equation,
               const std::vector<TensorType>& types) {
    product.attributes = {{"equation", equation}};
    product.plan = kernels::plan_einsum(equation, types[0].shape, types[1].shape, types[2].shape);
    KernelCall& call = product.call;
    for (const TensorType& type : types)
      (call.inputs.size() < 2 ? call.inputs : call.outputs)
          .push_back({nullptr, type, Shape(type.shape.size(), 0), type.shape});
    call.attributes = &product.attributes;
    call.team = &team_;
    call.threads = team_.size();
    call.prepared = cpu::einsum.prepare(call);
    std::int64_t bytes = cpu::einsum.workspace_bytes(call) + 64;
    for (const TensorType& type : types) bytes += (type.bytes() + 63) / 64 * 64;
    product.memory.resize(static_cast<std::size_t>(bytes));
    std::byte* at = product.memory.data();
    at += (64 - reinterpret_cast<std::uintptr_t>(at) % 64) % 64;
    for (auto* tensors : {&call.inputs, &call.outputs})
      for (KernelTensor& tensor : *tensors) {
        tensor.data = at;
        at += (tensor.type.bytes() + 63) / 64 * 64;
      }
    call.workspace = at;
  }

  /// The faster of our kernel and of oneDNN's sgemm with its own threads.
  void choose(Product& product) {
    std::vector<Variant> ways{{"kernel", [&product] { cpu::einsum.run(product.call); }}};
    const kernels::MatmulShape& s = product.plan.shape;
    const bool packs = !product.plan.a.packed.empty() || !product.plan.b.packed.empty() ||
                       !product.plan.c_packed.empty();
    if (s.batches() == 1 && !packs && product.call.inputs[0].type.dtype == f32)
      ways.push_back({"sgemm", [&product] { sgemm(product); }});
    interleave(ways, kTrials, 0.001);
    const auto best = std::ranges::min_element(
        ways, {}, [](const Variant& way) { return *std::ranges::min_element(way.seconds); });
    product.best = best->run;
  }

  static void sgemm(Product& product) {
    const kernels::MatmulShape& s = product.plan.shape;
    const bool swapped = product.plan.swapped;
    const auto data = [&](int i) {
      return reinterpret_cast<const float*>(product.call.inputs[i].data);
    };
    const bool ta = s.a_k != 1 && s.k > 1, tb = s.b_n != 1 && s.n > 1;
    dnnl_sgemm(ta ? 'T' : 'N', tb ? 'T' : 'N', s.m, s.n, s.k, 1.0f, data(swapped ? 1 : 0),
               ta ? std::max(s.a_k, s.m) : std::max(s.a_m, s.k), data(swapped ? 0 : 1),
               tb ? std::max(s.b_n, s.k) : std::max(s.b_k, s.n), 0.0f,
               reinterpret_cast<float*>(product.call.outputs[0].data), std::max(s.c_m, s.n));
  }

  void copy(std::int64_t bytes) {
    team_.parallel_for(bytes, 1 << 20, [&](std::int64_t begin, std::int64_t end) {
      std::memcpy(to_.data() + begin, from_.data() + begin, static_cast<std::size_t>(end - begin));
    });
  }

  ThreadTeam team_{usable_cores()};
  std::vector<std::byte> from_ = std::vector<std::byte>(kCopied, std::byte{1}),
                         to_ = std::vector<std::byte>(kCopied);
  std::map<std::string, Product> products_;
  double other_flops_ = 0, copied_bytes_ = 0;
};

/// The limit of this step on one device, as something to time.
inline std::function<void()> limit_of(const TrainingStep& step) {
  const CompiledStep planned = plan_only(step, Serial{}, Cluster::local(1, "cpu"));
  return [limit = std::make_shared<Limit>(planned)] { limit->run(); };
}

/// The step where it is placed, beside its limit on one device.
inline std::vector<Variant> with_limit(const TrainingStep& step, const Placement& place,
                                       const BatchData& batch) {
  const std::string where = place.devices == 1
                                ? "one device"
                                : fmt::format("{} devices, {}", place.devices, place.of_several);
  return {{"limit", limit_of(step)}, {where, runner(step, place, batch)}};
}

/// The step beside its limit, or on request.
inline void time_step(const TrainingStep& step, const Timing& timing, const BatchData& batch) {
  if (timing.on_request) return answer(runner(step, timing.place, batch));
  std::vector<Variant> variants = with_limit(step, timing.place, batch);
  repeat_short_ones(variants);
  interleave(variants, timing.rounds, kPause);
  print(variants);
}

/// A step beside its limit and its form in bf16 mixed, or that form on request.
inline void time_with_half(const TrainingStep& step, const TrainingStep& half, const Timing& timing,
                           const BatchData& batch) {
  if (timing.on_request) return answer(runner(half, timing.place, batch));
  std::vector<Variant> variants = with_limit(step, timing.place, batch);
  variants.push_back({"bf16 mixed", runner(half, timing.place, batch)});
  repeat_short_ones(variants);
  interleave(variants, timing.rounds, kPause);
  print(variants);
}

}  // namespace alpa::bench
