// tools/framework_grid.cc — the best plan of a framework's degrees
#include "tools/frameworks.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <span>

#include "src/base/infinity.h"
#include "src/base/timing.h"
#include "src/compile/variant_choice.h"
#include "src/ir/stages.h"
#include "src/plan/cost/cost_model.h"
#include "src/search/space/auto_shard_options.h"
#include "src/search/stages/even_share.h"

namespace plan {

using namespace alpa;

namespace {

constexpr ScheduleKind kSchedule = ScheduleKind::one_f_one_b;
/// Part of the time limit for one point.
constexpr double kShare = 0.25;
/// Points are left out whose guess is so many times the best plan.
constexpr double kFarGuess = 1.3;

/// One point of the grid.
struct Point {
  int replicas = 1, shards = 1, tensor = 1;
  AxisUse shard_use = AxisUse::zero2;
  int micro_batches = 1;
  bool recomputes = false;
  double guessed_seconds = 0;  ///< infinite: its memory does not suffice, as guessed
};

/// All points whose devices share rows evenly, the most promising ones first.
struct Grid {
  std::vector<Point> points = {};
  double least_seconds = 0;  ///< that any plan takes, whatever its degrees
};

/// The step with every layer computed again, or none, unless --remat says it.
TrainingStep step_of(const Subject& subject, bool recomputes) {
  if (subject.flags.remat != "auto") return subject.model.step;
  return subject.model.step_with(recomputes ? "all" : "none");
}

/// True if the degrees divide what they split.
bool suits_model(const Subject& subject, int tensor) {
  const auto& decoder = subject.model.decoder;
  if (!decoder) return true;
  const std::int64_t keys = decoder->key_heads > 0 ? decoder->key_heads : decoder->heads;
  return decoder->heads % tensor == 0 && keys % tensor == 0;
}

inter_op::GuessedMeshes meshes_of(const Point& point, const Cluster& cluster) {
  return plan::meshes_of(cluster, point.replicas, point.shards, point.tensor, point.shard_use);
}

/// Degrees whose product tiles the hosts.
std::vector<Point> degrees_of(const Framework& framework, const Subject& subject, int layers) {
  const int all = subject.cluster.num_devices(), host = subject.cluster.devices_per_host;
  const auto tiles = [&](int devices) {
    return all % devices == 0 && (devices < host ? host % devices == 0 : devices % host == 0);
  };
  std::vector<Point> degrees;
  for (int tensor = 1; tensor <= (framework.tensor ? host : 1); tensor *= 2)
    for (int data = 1; data * tensor <= all; ++data) {
      const int stages = all / (data * tensor);
      if (host % tensor != 0 || !tiles(data * tensor) || !suits_model(subject, tensor) ||
          stages > (framework.stages ? layers : 1))
        continue;
      for (int replicas = 1; replicas <= (framework.replicas ? data : 1); ++replicas)
        for (const AxisUse use : framework.shard_uses)
          if (data % replicas == 0 && tiles(data / replicas * tensor))
            degrees.push_back({replicas, data / replicas, tensor, use});
    }
  return degrees;
}

/// Numbers of micro-batches to choose from.
std::vector<int> numbers_of(const Subject& subject, const TrainingStep& step) {
  const std::string& given = subject.flags.micro_batches;
  return given == "auto" ? micro_batch_choices(step) : std::vector{std::stoi(given)};
}

Grid grid_of(const Framework& framework, const Subject& subject,
             std::span<const TrainingStep> steps) {
  const Cluster& cluster = subject.cluster;
  const cost::CostModel model = cost::CostModel::of(cluster);
  const std::vector<int> numbers = numbers_of(subject, steps[0]);
  const auto budget = static_cast<std::int64_t>(device_bytes(subject.flags, cluster));
  Grid grid;
  for (const bool recomputes : {false, true}) {
    const std::string& remat = subject.flags.remat;
    if (remat == (recomputes ? "none" : "all")) continue;
    const Graph few = steps[recomputes].trace(numbers.front()),
                many = steps[recomputes].trace(numbers.back());
    const inter_op::StepNeeds needs(few, many, recomputes, model);
    if (grid.points.empty())
      grid.least_seconds = inter_op::even_share_seconds(few, many, cluster.num_devices(), model);
    for (Point point : degrees_of(framework, subject, num_layers(few)))
      for (const int number : numbers) {
        const int data = point.replicas * point.shards;
        if (subject.flags.batch % (std::int64_t{number} * data) != 0) continue;
        point.micro_batches = number, point.recomputes = recomputes;
        point.guessed_seconds = inter_op::least_seconds(inter_op::guess_stages(
            needs, number, {kSchedule}, cluster, model, budget, meshes_of(point, cluster)));
        grid.points.push_back(point);
      }
  }
  std::ranges::stable_sort(grid.points, {}, &Point::guessed_seconds);
  return grid;
}

Method method_of(const Point& point, const Cluster& cluster) {
  PipeshardParallel method{.num_micro_batches = point.micro_batches,
                           .layers = ManualLayers{},
                           .stages = AutoStages{},
                           .schedule = kSchedule};
  const inter_op::GuessedMeshes meshes = meshes_of(point, cluster);
  method.mesh_shape = meshes.shape, method.axis_uses = meshes.axis_uses;
  return method;
}

}  // namespace

inter_op::GuessedMeshes meshes_of(const Cluster& cluster, int replicas, int shards, int tensor,
                                  AxisUse shard_use) {
  // Shards beyond a host: collectives go by its links first.
  const int of_host = std::max(1, cluster.devices_per_host / tensor);
  const int inner = replicas == 1 && shards % of_host == 0 ? of_host : shards;
  inter_op::GuessedMeshes meshes;
  const std::pair<int, AxisUse> axes[] = {{replicas, AxisUse::data},
                                          {shards / inner, shard_use},
                                          {inner, shard_use},
                                          {tensor, AxisUse::tensor}};
  for (const auto& [size, use] : axes)
    if (size > 1) meshes.shape.push_back(size), meshes.axis_uses.push_back(use);
  if (meshes.shape.empty()) meshes.shape = {1};
  return meshes;
}

FrameworkPlan best_of_grid(const Framework& framework, const Subject& subject,
                           const Stoppable& stoppable) {
  require(!subject.model.traced && !subject.model.fixed_rows,
          "{}: degrees need a model whose batch can be split; {} has rows of its own, so take a "
          "model of alpa or a folder of Hugging Face's",
          framework.name, subject.model.name);
  const Stopwatch watch;
  const TrainingStep steps[] = {step_of(subject, false), step_of(subject, true)};
  const Grid grid = grid_of(framework, subject, steps);
  require(!grid.points.empty(),
          "--for {}: no degrees give all {} devices whole rows of a batch of {}; take a batch that "
          "more devices divide",
          framework.name, subject.cluster.num_devices(), subject.flags.batch);
  const double limit = subject.flags.solver_seconds;
  FrameworkPlan best{.result = {.method = std::string(framework.name)}};
  double best_seconds = kInfinity;
  std::size_t tried = 0, far = 0;
  std::string other;
  std::optional<Method> smallest;
  intra_op::NoPlan why = intra_op::NoPlan::proven;  // of all points
  for (const Point& point : grid.points) {
    if (point.guessed_seconds > kFarGuess * best_seconds) {
      ++far;
      continue;
    }
    if (tried > 0 && watch.seconds() >= limit) {
      why = intra_op::NoPlan::out_of_time;
      continue;
    }
    ++tried;
    try {
      // The first plan may take all of the time.
      const double most = best.result.planned ? kShare * limit : limit - watch.seconds();
      smallest = stoppable(with_common(method_of(point, subject.cluster), subject.flags, most));
      CompiledStep next = plan_only(steps[point.recomputes], *smallest, subject.cluster);
      if (next.plan.cost.objective_seconds >= best_seconds) continue;
      best_seconds = next.plan.cost.objective_seconds;
      best.result.planned = std::move(next);
      best.replicas = point.replicas, best.shards = point.shards, best.tensor = point.tensor;
      best.shard_use = point.shard_use, best.recomputes = point.recomputes;
    } catch (const intra_op::OverBudget& error) {
      why = std::min(why, error.why);
    } catch (const Error& error) {  // parts that hosts do not have
      other = error.what();
    }
  }
  if (!best.result.planned)
    best.result.failure = smallest ? no_plan_text(subject, *smallest, why) : other;
  best.bound_seconds = std::min(grid.least_seconds, best_seconds);
  best.result.tried = fmt::format("{} of {} points planned, {} left out by their guesses", tried,
                                  grid.points.size(), far);
  best.result.planning_seconds = watch.seconds();
  return best;
}

}  // namespace plan
