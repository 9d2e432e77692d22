// src/report/plan_text.cc — a plan and its stages in words
#include "plan_text.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "alpa/base/text.h"
#include "plan_summary.h"

namespace alpa {
namespace {

std::string transfer_text(const StageTransfer& transfer) {
  return fmt::format("stage {} to {}: {} in {} tensors per {}, {}, {}", transfer.from, transfer.to,
                     bytes_text(transfer.bytes), transfer.tensors,
                     transfer.once ? "step" : "micro-batch", seconds_text(transfer.seconds),
                     fmt::join(transfer.strategies, ", "));
}

}  // namespace

std::string memory_text(const StageMemory& memory, const std::function<std::string(double)>& text) {
  const auto bytes = [&](std::int64_t n) { return text(static_cast<double>(n)); };
  return fmt::format("state {}, accumulators {}, activations {} of {} in flight, temporaries {}",
                     bytes(memory.state), bytes(memory.accumulators), bytes(memory.activations),
                     memory.in_flight, bytes(memory.temporaries));
}

bool has_bound(const Plan& plan) {
  return plan.cost.lower_bound_seconds > 0 || plan.cost.objective_seconds <= 0;
}

std::string proof_text(const Plan& plan) {
  if (!plan.schedule || plan.method == kFollow) return intra_op::proof_text(plan.method, plan.cost);
  if (has_bound(plan)) {
    const std::string of_all = intra_op::proof_text(plan.method, plan.cost);
    PlanCost variant = plan.cost;
    variant.lower_bound_seconds = std::max(plan.variant_bound_seconds, variant.lower_bound_seconds);
    const std::string alone = intra_op::proof_words(variant);
    if (alone == intra_op::proof_words(plan.cost)) return of_all;
    const int parts = plan.stages.front().graph.num_micro_batches;
    return fmt::format("{}; {} for {} micro-batch{}", of_all, alone, parts, parts == 1 ? "" : "es");
  }
  const auto worst = std::max_element(
      plan.stages.begin(), plan.stages.end(),
      [](const auto& a, const auto& b) { return a.plan.cost.gap() < b.plan.cost.gap(); });
  return fmt::format("not compared with other stages, each alone {}",
                     intra_op::proof_words(worst->plan.cost));
}

std::string to_string(const Plan& plan) {
  if (!plan.schedule) return to_string(plan.sharding());
  std::string text = fmt::format(
      "pipeline of {} stages, {}, {} micro-batches: {} per step predicted, bubble {:.0f} %, {}",
      plan.stages.size(), name_of(*plan.schedule), plan.stages.front().graph.num_micro_batches,
      seconds_text(plan.cost.objective_seconds), 100 * plan.bubble, proof_text(plan));
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const StagePlan& stage = plan.stages[s];
    text += fmt::format(
        "\nstage {}     layers {} to {} on mesh {}: {} forward and {} backward per micro-batch, {} "
        "per step\n            {} per device of {}: {}",
        s, stage.first_layer, stage.last_layer, shape_text(stage.plan.mesh),
        seconds_text(stage.seconds.forward), seconds_text(stage.seconds.backward),
        seconds_text(stage.seconds.apply), bytes_text(static_cast<double>(stage.memory.total())),
        bytes_text(static_cast<double>(stage.memory.limit)), memory_text(stage.memory, bytes_text));
  }
  for (const StageTransfer& transfer : plan.transfers)
    text += "\ntransfer    " + transfer_text(transfer);
  return text;
}

std::string meshes_text(const Plan& plan) {
  std::string text;
  for (const StagePlan& stage : plan.stages)
    text += (text.empty() ? "" : " + ") + shape_text(stage.plan.mesh);
  return text;
}

std::string explain(const Plan& plan, const cost::CostModel& model, Detail detail,
                    std::int64_t memory_bytes) {
  if (!plan.schedule)
    return explain(plan.sharding(), plan.stages.front().graph, model, detail, memory_bytes);
  std::string text = to_string(plan) + "\n";
  for (std::size_t s = 0; s < plan.stages.size(); ++s)
    text += fmt::format("\nStage {}\n{}", s,
                        explain(plan.stages[s].plan, plan.stages[s].graph, model, detail));
  return text;
}

}  // namespace alpa
