// tools/plan_methods.cc — the best plan of each method that is compared
#include "tools/plan_methods.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>

#include "models/common/training.h"
#include "src/base/timing.h"
#include "src/compile/variant_choice.h"
#include "tools/frameworks.h"

namespace plan {

using namespace alpa;

namespace {

constexpr std::array kMethods{"data",  "zero2",    "zero3",      "intra-zero2",
                              "pp-dp", "megatron", "inter-only", "intra-only"};

/// A method is given up when this many numbers of micro-batches in a row are no better.
constexpr int kWorseInARow = 2;

constexpr double kLeastSeconds = 0.1;

/// Bytes of a device under the smallest plan that the method has: every layer computed again, in
/// micro-batches that are as small as can be.
std::int64_t least_bytes(const Subject& subject, Method method) {
  std::visit([](auto& o) { o.memory_budget_bytes = std::numeric_limits<std::int64_t>::max() / 2; },
             method);
  return plan_only(subject.model.step_with("all"), method, subject.cluster).memory_bytes;
}

}  // namespace

Method with_common(Method method, const PlanFlags& flags, double seconds) {
  std::visit(
      [&](auto& options) {
        options.memory_budget_bytes = flags.memory_budget;
        options.solver_seconds = std::max(seconds, kLeastSeconds);
        options.plan_cache_dir = flags.plan_cache;
      },
      method);
  return method;
}

std::string no_plan_text(const Subject& subject, const Method& method, intra_op::NoPlan why) {
  if (why == intra_op::NoPlan::out_of_time)
    return fmt::format("found no plan that fits within {} s", subject.flags.solver_seconds);
  if (why == intra_op::NoPlan::not_found) return "found no plan that fits";
  const auto bytes = static_cast<double>(least_bytes(subject, method));
  const double limit = device_bytes(subject.flags, subject.cluster);
  return bytes > limit
             ? fmt::format("does not fit: needs {} of {}", size_text(bytes), size_text(limit))
             : "does not fit";
}

namespace {

/// Numbers of micro-batches whose rows keep `parts` devices busy; at least the first.
std::vector<int> numbers_of(const Subject& subject, int parts) {
  if (subject.model.traced) return {subject.model.micro_batches};
  const std::string& given = subject.flags.micro_batches;
  if (given != "auto") return {std::stoi(given)};
  std::vector<int> numbers;
  for (const int number : micro_batch_choices(subject.model.step))
    if (numbers.empty() || subject.flags.batch / number >= parts) numbers.push_back(number);
  return numbers;
}

/// The best plan of one mesh over all numbers of micro-batches.
MethodResult best_on_mesh(MethodResult result, const Subject& subject, const Stoppable& stoppable,
                          const Method& kind) {
  const Stopwatch watch;
  const double limit = subject.flags.solver_seconds;
  int worse = 0, tried = 0;
  Method last = kind;
  std::string other;
  intra_op::NoPlan why = intra_op::NoPlan::proven;  // of all numbers
  const std::vector<int> numbers = numbers_of(
      subject, kind.index() == Method(ShardParallel{}).index() ? 1 : subject.cluster.num_devices());
  for (const int number : numbers) {
    if (worse == kWorseInARow) break;
    if (tried > 0 && watch.seconds() >= limit) {
      why = intra_op::NoPlan::out_of_time;
      break;
    }
    last = with_common(kind, subject.flags, limit - watch.seconds());
    std::visit([&](auto& o) { o.num_micro_batches = number; }, last);
    ++tried;
    try {
      CompiledStep next = plan_only(subject.model.step, stoppable(last), subject.cluster);
      const bool better = !result.planned || next.plan.cost.objective_seconds <
                                                 result.planned->plan.cost.objective_seconds;
      worse = better ? 0 : worse + 1;
      if (better) result.planned = std::move(next);
    } catch (const intra_op::OverBudget& error) {
      other.clear();
      why = std::min(why, error.why);
    } catch (const Error& error) {  // such as fewer rows than devices
      other = error.what();
    }
  }
  if (!result.planned) result.failure = other.empty() ? no_plan_text(subject, last, why) : other;
  result.planning_seconds = watch.seconds();
  return result;
}

/// A stage per device, of equal FLOPs.
Method stage_per_device(const Subject& subject) {
  const int devices = subject.cluster.num_devices();
  PipeshardParallel method{.num_micro_batches = kAutoMicroBatches,
                           .layers = AutoLayers{devices},
                           .stages = UniformStages{devices}};
  method.mesh_shape = {1};
  if (subject.model.traced) {
    method.layers = ManualLayers{};
    method.num_micro_batches = subject.model.micro_batches;
  } else if (subject.flags.micro_batches != "auto") {
    method.num_micro_batches = std::stoi(subject.flags.micro_batches);
  }
  return with_common(method, subject.flags, subject.flags.solver_seconds);
}

/// Stages that are searched for, each with data parallelism alone. Nothing is gathered, so what is
/// not split by the batch is whole on every device of a stage.
Method data_parallel_stages(const Subject& subject) {
  require(subject.model.has_layers, "--compare pp-dp needs layers; the graph has none");
  PlanFlags flags = subject.flags;
  flags.method = "pipeline";
  flags.stages = flags.mesh = "auto";
  auto method = std::get<PipeshardParallel>(method_of(flags, subject.model));
  AutoStages stages;
  for (int size = 1; size <= subject.cluster.num_devices(); ++size)
    stages.mesh_shapes.push_back({size});
  method.stages = stages;
  method.batch_mesh_axis = 0;
  method.allow_all_gather = method.allow_all_to_all = false;
  return with_common(method, subject.flags, subject.flags.solver_seconds);
}

/// One search, whose failure is the result.
MethodResult searched(const std::string& name, const Subject& subject, const Method& method) {
  try {
    return planned_with(name, subject, method);
  } catch (const Error& error) {  // such as fewer layers than devices
    return {.method = name, .failure = error.what()};
  }
}

}  // namespace

std::vector<std::string> parse_methods(const std::string& text) {
  std::vector<std::string> methods;
  for (const std::string& word : cli::parts_of_list(text)) {
    require(std::ranges::find(kMethods, word) != kMethods.end(),
            "--compare: \"{}\" is no method to compare; these are {}", excerpt(word),
            fmt::join(kMethods, ", "));
    require(std::ranges::find(methods, word) == methods.end(), "--compare: {} is given twice",
            word);
    methods.push_back(word);
  }
  return methods;
}

MethodResult planned_with(const std::string& name, const Subject& subject, const Method& method) {
  const Stopwatch watch;
  MethodResult result{.method = name};
  try {
    result.planned = plan_only(subject.model.step, method, subject.cluster);
  } catch (const intra_op::OverBudget& error) {
    result.failure = no_plan_text(subject, method, error.why);
  }
  result.planning_seconds = watch.seconds();
  return result;
}

MethodResult best_of(const std::string& name, const Subject& subject, const Stoppable& stoppable) {
  MethodResult result{.method = name};
  if (name == "megatron") return best_of_grid(find_framework(name), subject, stoppable).result;
  if (name == "inter-only") return searched(name, subject, stoppable(stage_per_device(subject)));
  if (name == "pp-dp") return searched(name, subject, stoppable(data_parallel_stages(subject)));
  const bool planned = name == "intra-only" || name == "intra-zero2";
  const Method one =
      planned ? ShardParallel{.shard_optimizer_state = name == "intra-zero2"} : parse_method(name);
  return best_on_mesh(std::move(result), subject, stoppable, one);
}

}  // namespace plan
