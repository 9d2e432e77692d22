// tools/framework_grid.cc — the best plan of a framework's degrees
#include "tools/frameworks.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <map>
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

/// The most virtual stages of a device.
constexpr int kMostVirtual = 8;

/// One point of the grid.
struct Point {
  Degrees degrees;
  double guessed_seconds = 0;  ///< infinite: its memory does not suffice, as guessed
  double seconds = kInfinity;  ///< as planned
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

std::int64_t experts_of(const Subject& subject) {
  return subject.model.decoder ? subject.model.decoder->variant.experts.count : 0;
}

/// Every point with each of the values of a degree. `values`: of a point.
void vary(std::vector<Degrees>& points, int Degrees::*degree,
          const std::function<std::vector<int>(const Degrees&)>& values) {
  std::vector<Degrees> varied;
  for (Degrees point : points)
    for (const int value : values(point)) point.*degree = value, varied.push_back(point);
  points = std::move(varied);
}

/// Degrees whose product tiles the hosts.
std::vector<Degrees> degrees_of(const Framework& framework, const Subject& subject, int layers) {
  const int all = subject.cluster.num_devices(), host = subject.cluster.devices_per_host;
  const std::int64_t experts = experts_of(subject);
  const auto tiles = [&](int devices) {
    return all % devices == 0 && (devices < host ? host % devices == 0 : devices % host == 0);
  };
  const auto values = [](int most, bool has, const auto& suits) {
    std::vector<int> found;
    for (int value = 1; value <= (has ? most : 1); ++value)
      if (suits(value)) found.push_back(value);
    return found;
  };
  std::vector<Degrees> points = {{}};
  vary(points, &Degrees::tensor, [&](const Degrees& /*unused*/) {
    return values(host, framework.tensor, [&](int tensor) {
      return std::has_single_bit(static_cast<unsigned>(tensor)) && host % tensor == 0 &&
             suits_model(subject, tensor);
    });
  });
  vary(points, &Degrees::context, [&](const Degrees& of) {
    const bool has = framework.context && experts == 0 && subject.model.decoder.has_value();
    return values(all / of.tensor, has, [&](int context) {
      return std::has_single_bit(static_cast<unsigned>(context)) && tiles(of.tensor * context) &&
             subject.model.sequence % context == 0;
    });
  });
  vary(points, &Degrees::pipeline, [&](const Degrees& of) {
    const int devices = all / of.tensor / of.context;
    return values(std::min(layers, devices), framework.stages,
                  [&](int stages) { return devices % stages == 0 && tiles(all / stages); });
  });
  vary(points, &Degrees::replicas, [&](const Degrees& of) {
    const int inner = of.tensor * of.context, data = all / of.pipeline / inner;
    return values(data, framework.replicas, [&](int replicas) {
      return data % replicas == 0 && tiles(data / replicas * inner);
    });
  });
  for (Degrees& of : points) of.shards = all / of.pipeline / of.tensor / of.context / of.replicas;
  vary(points, &Degrees::experts, [&](const Degrees& of) {
    return values(of.shards, framework.experts && experts > 0, [&](int split) {
      return of.shards % split == 0 && experts % split == 0 && tiles(split * of.tensor);
    });
  });
  std::vector<Degrees> degrees;
  for (Degrees of : points)
    for (const AxisUse use : framework.shard_uses) of.shard_use = use, degrees.push_back(of);
  return degrees;
}

/// Numbers of micro-batches to choose from.
std::vector<int> numbers_of(const Subject& subject, const TrainingStep& step) {
  const std::string& given = subject.flags.micro_batches;
  return given == "auto" ? micro_batch_choices(step) : std::vector{std::stoi(given)};
}

/// The point with several stages on each device, which shorten its bubble so many times.
void add_virtual(Point point, int layers, std::vector<Point>& points) {
  const int pipeline = point.degrees.pipeline, number = point.degrees.micro_batches;
  if (pipeline == 1 || number % pipeline != 0) return;
  const double bubble = pipeline - 1, whole = point.guessed_seconds;
  for (int stages = 2; stages <= std::min(kMostVirtual, layers / pipeline); stages *= 2) {
    point.degrees.virtual_stages = stages;
    point.guessed_seconds = whole * (number + bubble / stages) / (number + bubble);
    points.push_back(point);
  }
}

Grid grid_of(const Framework& framework, const Subject& subject,
             std::span<const TrainingStep> steps) {
  const Cluster& cluster = subject.cluster;
  const cost::CostModel model = cost::CostModel::of(cluster);
  const std::vector<int> numbers = numbers_of(subject, steps[0]),
                         all = micro_batch_choices(steps[0]);  // two tell what rows need
  const auto budget = static_cast<std::int64_t>(device_bytes(subject.flags, cluster));
  Grid grid;
  for (const bool recomputes : {false, true}) {
    const std::string& remat = subject.flags.remat;
    if (remat == (recomputes ? "none" : "all")) continue;
    const Graph few = steps[recomputes].trace(all.front()),
                many = steps[recomputes].trace(all.back());
    const inter_op::StepNeeds needs(few, many, recomputes, model);
    if (grid.points.empty())
      grid.least_seconds = inter_op::even_share_seconds(few, many, cluster.num_devices(), model);
    const int layers = num_layers(few);
    for (Degrees degrees : degrees_of(framework, subject, layers))
      for (const int number : numbers) {
        if (subject.flags.batch % (std::int64_t{number} * degrees.data()) != 0) continue;
        degrees.micro_batches = number, degrees.recomputes = recomputes;
        const double guessed = inter_op::least_seconds(
            inter_op::guess_stages(needs, number, {kSchedule}, cluster, model, budget,
                                   meshes_of(cluster, degrees, experts_of(subject) > 0)));
        grid.points.push_back({degrees, guessed});
        if (framework.virtual_stages) add_virtual(grid.points.back(), layers, grid.points);
      }
  }
  std::ranges::stable_sort(grid.points, {}, &Point::guessed_seconds);
  return grid;
}

Method method_of(const Degrees& degrees, const Subject& subject) {
  PipeshardParallel method{.num_micro_batches = degrees.micro_batches,
                           .layers = ManualLayers{},
                           .stages = AutoStages{},
                           .schedule = kSchedule};
  if (const int stages = degrees.virtual_stages; stages > 1) {
    method.stages = UniformStages{degrees.pipeline * stages, stages};
    method.schedule = ScheduleKind::interleaved_one_f_one_b;
  }
  const inter_op::GuessedMeshes meshes =
      meshes_of(subject.cluster, degrees, experts_of(subject) > 0);
  method.mesh_shape = meshes.shape, method.axis_uses = meshes.axis_uses;
  return method;
}

/// Each degree in words.
constexpr std::string (*kChoices[])(const Degrees&) = {
    [](const Degrees& of) { return fmt::format("data {}", of.data()); },
    [](const Degrees& of) { return fmt::format("copies {}", of.replicas); },
    [](const Degrees& of) { return fmt::format("experts {}", of.experts); },
    [](const Degrees& of) { return fmt::format("context {}", of.context); },
    [](const Degrees& of) { return fmt::format("tensor {}", of.tensor); },
    [](const Degrees& of) { return fmt::format("pipeline {}", of.pipeline); },
    [](const Degrees& of) { return fmt::format("virtual stages {}", of.virtual_stages); },
    [](const Degrees& of) { return fmt::format("ZeRO {}", zero_stage(of.shard_use)); },
    [](const Degrees& of) { return fmt::format("micro-batches {}", of.micro_batches); },
    [](const Degrees& of) { return recomputed_text(of); }};

/// The points that were planned or guessed with another value of a degree.
std::vector<OtherChoice> others_of(const std::vector<Point>& points, const Degrees& best) {
  std::vector<OtherChoice> others;
  for (const auto& text : kChoices) {
    std::map<std::string, OtherChoice> of_degree;
    for (const Point& point : points) {
      const bool guessed = point.seconds == kInfinity;
      const double seconds = guessed ? point.guessed_seconds : point.seconds;
      OtherChoice& other = of_degree[text(point.degrees)];
      if (other.choice.empty() ||
          std::pair(guessed, seconds) < std::pair(other.guessed, other.seconds))
        other = {text(best), text(point.degrees), seconds, guessed};
    }
    of_degree.erase(text(best));
    const auto first = static_cast<std::ptrdiff_t>(others.size());
    for (auto& [choice, other] : of_degree)
      if (other.seconds < kInfinity) others.push_back(std::move(other));
    std::ranges::sort(others.begin() + first, others.end(), {}, &OtherChoice::seconds);
  }
  return others;
}

}  // namespace

inter_op::GuessedMeshes meshes_of(const Cluster& cluster, const Degrees& of, bool has_experts) {
  // Experts and tokens hold state as the axis before them does.
  const bool carries = of.experts > 1 || of.context > 1;
  // Shards beyond a host: collectives go by its links first.
  const int of_host = std::max(1, cluster.devices_per_host / of.tensor);
  const int shards = of.shards / of.experts;
  const int inner = of.replicas == 1 && !carries && shards % of_host == 0 ? of_host : shards;
  const struct {
    int size;
    AxisUse use;
    bool always = false;
  } axes[] = {
      {of.replicas, AxisUse::data},   {shards / inner, of.shard_use},
      {inner, of.shard_use, carries}, {of.experts, AxisUse::experts, has_experts && of.tensor > 1},
      {of.context, AxisUse::context}, {of.tensor, AxisUse::tensor}};
  inter_op::GuessedMeshes meshes;
  for (const auto& axis : axes)
    if (axis.size > 1 || axis.always)
      meshes.shape.push_back(axis.size), meshes.axis_uses.push_back(axis.use);
  if (meshes.shape.empty()) meshes.shape = {1};
  return meshes;
}

FrameworkPlan best_of_grid(const Framework& framework, const Subject& subject,
                           const Stoppable& stoppable) {
  require(!subject.model.traced && !subject.model.fixed_rows,
          "{}: degrees need a model whose batch can be split; {} has rows of its own, so take a "
          "model of alpa or a folder of Hugging Face's",
          framework.name, subject.model.name);
  const TrainingStep steps[] = {step_of(subject, false), step_of(subject, true)};
  Grid grid = grid_of(framework, subject, steps);
  require(!grid.points.empty(),
          "--for {}: no degrees give all {} devices whole rows of a batch of {}; take a batch that "
          "more devices divide",
          framework.name, subject.cluster.num_devices(), subject.flags.batch);
  const Stopwatch watch;  // of plans: however long the guesses took, one is tried for all of it
  const double limit = subject.flags.solver_seconds;
  FrameworkPlan best{.result = {.method = std::string(framework.name)}};
  double best_seconds = kInfinity;
  std::size_t tried = 0, far = 0;
  std::string other;
  std::optional<Method> smallest;
  intra_op::NoPlan why = intra_op::NoPlan::proven;  // of all points
  for (Point& point : grid.points) {
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
      smallest = stoppable(with_common(method_of(point.degrees, subject), subject.flags, most));
      CompiledStep next = plan_only(steps[point.degrees.recomputes], *smallest, subject.cluster);
      point.seconds = next.plan.cost.objective_seconds;
      if (point.seconds >= best_seconds) continue;
      best_seconds = point.seconds;
      best.result.planned = std::move(next);
      best.degrees = point.degrees;
    } catch (const intra_op::OverBudget& error) {
      why = std::min(why, error.why);
    } catch (const Error& error) {  // parts that hosts do not have
      other = error.what();
    }
  }
  if (!best.result.planned)
    best.result.failure = smallest ? no_plan_text(subject, *smallest, why) : other;
  if (best.result.planned) best.others = others_of(grid.points, best.degrees);
  best.bound_seconds = std::min(grid.least_seconds, best_seconds);
  best.result.tried = fmt::format("{} of {} points planned, {} left out by their guesses", tried,
                                  grid.points.size(), far);
  best.result.planning_seconds = watch.seconds();
  return best;
}

}  // namespace plan
