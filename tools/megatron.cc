// tools/megatron.cc — the grid of Megatron-LM: its best plan, and the command that runs it
#include "tools/megatron.h"

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
#include "src/search/stages/stage_guess.h"

namespace plan {

using namespace alpa;

namespace {

constexpr ScheduleKind kSchedule = ScheduleKind::one_f_one_b;
/// Part of the time limit for one point.
constexpr double kShare = 0.25;

/// One point of the grid.
struct Point {
  int data = 1, tensor = 1, micro_batches = 1;
  bool recomputes = false;
  double least_seconds = 0;    ///< no plan of it takes less
  double guessed_seconds = 0;  ///< infinite: its memory does not suffice, as guessed
};

/// The step with every layer computed again, or none.
TrainingStep step_of(const Subject& subject, bool recomputes) {
  if (subject.model.traced || subject.flags.remat != "auto") return subject.model.step;
  PlanFlags flags = subject.flags;
  flags.remat = recomputes ? "all" : "none";
  return model_of(flags).step;
}

/// True if the degrees divide what they split.
bool suits_model(const Subject& subject, int tensor) {
  const auto& decoder = subject.model.decoder;
  if (!decoder) return true;
  const std::int64_t keys = decoder->key_heads > 0 ? decoder->key_heads : decoder->heads;
  return decoder->heads % tensor == 0 && keys % tensor == 0;
}

/// Shape and uses of the mesh of every stage.
inter_op::GuessedMeshes meshes_of(const Point& point) {
  inter_op::GuessedMeshes meshes;
  const std::pair<int, AxisUse> axes[] = {{point.data, AxisUse::zero2},
                                          {point.tensor, AxisUse::tensor}};
  for (const auto& [size, use] : axes)
    if (size > 1) meshes.shape.push_back(size), meshes.axis_uses.push_back(use);
  if (meshes.shape.empty()) meshes.shape = {1};
  return meshes;
}

/// Data and tensor degrees whose product tiles the hosts.
std::vector<Point> degrees_of(const Subject& subject, int most_stages) {
  const int all = subject.cluster.num_devices(), host = subject.cluster.devices_per_host;
  std::vector<Point> degrees;
  for (int tensor = 1; tensor <= host; tensor *= 2)
    for (int data = 1; data * tensor <= all; ++data) {
      const int devices = data * tensor;
      const bool tiles = all % devices == 0 && host % tensor == 0 &&
                         (devices < host ? host % devices == 0 : devices % host == 0);
      if (tiles && all / devices <= most_stages && suits_model(subject, tensor))
        degrees.push_back({data, tensor});
    }
  return degrees;
}

/// Numbers of micro-batches to choose from.
std::vector<int> numbers_of(const Subject& subject, const TrainingStep& step) {
  if (subject.model.traced) return {subject.model.micro_batches};
  const std::string& given = subject.flags.micro_batches;
  return given == "auto" ? micro_batch_choices(step) : std::vector{std::stoi(given)};
}

/// All points whose devices share rows evenly, the most promising ones first.
std::vector<Point> points_of(const Subject& subject, std::span<const TrainingStep> steps) {
  const Cluster& cluster = subject.cluster;
  const cost::CostModel model = cost::CostModel::of(cluster);
  const std::vector<int> numbers = numbers_of(subject, steps[0]);
  const auto budget = static_cast<std::int64_t>(device_bytes(subject.flags, cluster));
  std::vector<Point> points;
  double share = 0;
  for (const bool recomputes : {false, true}) {
    const std::string& remat = subject.flags.remat;
    if (recomputes ? remat == "none" || subject.model.traced : remat == "all") continue;
    const Graph few = steps[recomputes].trace(numbers.front()),
                many = steps[recomputes].trace(numbers.back());
    const inter_op::StepNeeds needs(few, many, recomputes, model);
    if (points.empty())
      share = inter_op::even_share_seconds(few, many, cluster.num_devices(), model);
    for (Point point : degrees_of(subject, num_layers(few)))
      for (const int number : numbers) {
        if (subject.flags.batch % (std::int64_t{number} * point.data) != 0) continue;
        const int stages = cluster.num_devices() / (point.data * point.tensor);
        point.micro_batches = number, point.recomputes = recomputes;
        point.least_seconds = share * (number + stages - 1) / number;
        point.guessed_seconds = inter_op::least_seconds(inter_op::guess_stages(
            needs, number, {kSchedule}, cluster, model, budget, meshes_of(point)));
        points.push_back(point);
      }
  }
  std::ranges::stable_sort(points, {}, &Point::guessed_seconds);
  return points;
}

Method method_of(const Point& point) {
  PipeshardParallel method{.num_micro_batches = point.micro_batches,
                           .layers = ManualLayers{},
                           .stages = AutoStages{},
                           .schedule = kSchedule};
  const inter_op::GuessedMeshes meshes = meshes_of(point);
  method.mesh_shape = meshes.shape, method.axis_uses = meshes.axis_uses;
  return method;
}

}  // namespace

MegatronPlan best_megatron(const Subject& subject, const Stoppable& stoppable) {
  require(subject.model.has_layers, "Megatron-LM's stages need layers; {} has none",
          subject.model.name);
  const Stopwatch watch;
  const TrainingStep steps[] = {step_of(subject, false), step_of(subject, true)};
  const std::vector<Point> points = points_of(subject, steps);
  const double limit = subject.flags.solver_seconds;
  MegatronPlan best{.result = {.method = "megatron"}};
  double bound = kInfinity, best_seconds = kInfinity;
  std::size_t tried = 0, ruled_out = 0;
  std::string other;
  std::optional<Method> smallest;
  intra_op::NoPlan why = intra_op::NoPlan::proven;  // of all points
  for (const Point& point : points) {
    if (point.least_seconds >= best_seconds) {
      ++ruled_out;
      continue;
    }
    bound = std::min(bound, point.least_seconds);
    if (tried > 0 && watch.seconds() >= limit) {
      why = intra_op::NoPlan::out_of_time;
      continue;
    }
    ++tried;
    try {
      smallest = stoppable(with_common(method_of(point), subject.flags, kShare * limit));
      CompiledStep next = plan_only(steps[point.recomputes], *smallest, subject.cluster);
      if (next.plan.cost.objective_seconds >= best_seconds) continue;
      best_seconds = next.plan.cost.objective_seconds;
      best.result.planned = std::move(next);
      best.data = point.data, best.tensor = point.tensor, best.recomputes = point.recomputes;
    } catch (const intra_op::OverBudget& error) {
      why = std::min(why, error.why);
    } catch (const Error& error) {  // parts that hosts do not have
      other = error.what();
    }
  }
  if (!best.result.planned)
    best.result.failure = smallest ? no_plan_text(subject, *smallest, why) : other;
  best.bound_seconds = std::min(bound, best_seconds);
  best.result.tried =
      fmt::format("{} of {} points planned, {} ruled out", tried, points.size(), ruled_out);
  best.result.planning_seconds = watch.seconds();
  return best;
}

namespace {

/// Layers of the stages as `--pipeline-model-parallel-layout` has them: "Et*20|t*20L".
std::string layout_of(const MegatronPlan& found) {
  std::string layout = "E";
  for (const StagePlan& stage : found.result.planned->plan.stages)
    layout += fmt::format("{}t*{}", stage.first_layer > 0 ? "|" : "",
                          stage.last_layer - stage.first_layer + 1);
  return layout + "L";
}

bool has_equal_stages(const MegatronPlan& found) {
  const std::vector<StagePlan>& stages = found.result.planned->plan.stages;
  return std::ranges::all_of(stages, [&](const StagePlan& stage) {
    return stage.last_layer - stage.first_layer == stages[0].last_layer - stages[0].first_layer;
  });
}

std::string degree_arguments(const Subject& subject, const MegatronPlan& found) {
  const int number = found.result.planned->graph.num_micro_batches;
  std::string text = fmt::format("--tensor-model-parallel-size {}", found.tensor);
  if (found.tensor > 1) text += " --sequence-parallel";
  text += fmt::format(" --pipeline-model-parallel-size {}", found.pipeline());
  if (!has_equal_stages(found))
    text += fmt::format(" --pipeline-model-parallel-layout \"{}\"", layout_of(found));
  return text + fmt::format(" --micro-batch-size {} --global-batch-size {}",
                            subject.flags.batch / number / found.data, subject.flags.batch);
}

std::string memory_arguments(const MegatronPlan& found) {
  std::string text = "--use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather";
  if (found.recomputes)
    text += " --recompute-granularity full --recompute-method uniform --recompute-num-layers 1";
  return text;
}

std::string size_arguments(const models::DecoderOptions& o, std::int64_t sequence) {
  std::string text =
      fmt::format("--num-layers {} --hidden-size {} --ffn-hidden-size {} --num-attention-heads {}",
                  o.layers, o.hidden, o.feed_forward > 0 ? o.feed_forward : 4 * o.hidden, o.heads);
  if (o.key_heads > 0 && o.key_heads != o.heads)
    text += fmt::format(" --group-query-attention --num-query-groups {}", o.key_heads);
  return text + fmt::format(" --seq-length {} --max-position-embeddings {}", sequence,
                            std::max(sequence, o.sequence));
}

std::string kind_arguments(const models::DecoderOptions& o) {
  std::string text = "--position-embedding-type learned_absolute";
  if (o.kind == models::DecoderKind::llama) {
    text = fmt::format(
        "--swiglu --normalization RMSNorm --position-embedding-type rope --rotary-base {:.0f} "
        "--disable-bias-linear",
        o.rotary_base);
    if (o.query_bias) text += " --add-qkv-bias";
  }
  if (!o.tied_head) text += " --untie-embeddings-and-output-weights";
  return text + fmt::format(" --hidden-dropout {} --attention-dropout {}", o.dropout, o.dropout);
}

std::string number_arguments(const Subject& subject) {
  std::string text = fmt::format("--vocab-size {}", subject.model.decoder->vocabulary);
  if (subject.flags.precision == "bf16_mixed") text += " --bf16";
  if (subject.flags.precision == "f16_mixed") text += " --fp16";
  return text + " --optimizer " + subject.flags.optimizer;
}

}  // namespace

void require_megatron(const Subject& subject) {
  require(subject.model.decoder.has_value(),
          "--for megatron: {} is no decoder that Megatron-LM's pretrain_gpt.py trains; take gpt, "
          "llama or a folder of Hugging Face's",
          subject.model.name);
  const std::string& optimizer = subject.flags.optimizer;
  require(optimizer == "adam" || optimizer == "sgd",
          "--for megatron: --optimizer is {}, but Megatron-LM has adam and sgd", optimizer);
  const models::DecoderOptions& o = *subject.model.decoder;
  require(!o.projection_bias, "--for megatron: attention of {} has a bias at its projection alone",
          subject.model.name);
}

std::vector<std::string> megatron_arguments(const Subject& subject, const MegatronPlan& found) {
  return {degree_arguments(subject, found), memory_arguments(found),
          size_arguments(*subject.model.decoder, subject.model.sequence),
          kind_arguments(*subject.model.decoder), number_arguments(subject)};
}

std::string megatron_text(const Subject& subject, const MegatronPlan& found,
                          const CompiledStep& unrestricted) {
  if (!found.result.planned) return fmt::format("for megatron: {}\n", found.result.failure);
  const CompiledStep& planned = *found.result.planned;
  const int number = planned.graph.num_micro_batches;
  const double seconds = planned.plan.cost.objective_seconds;
  std::string text = fmt::format(
      "{:<12}data {} x tensor {} x pipeline {}; {} micro-batches of {} rows on each of the data "
      "degrees; {} recomputed\n",
      "megatron", found.data, found.tensor, found.pipeline(), number,
      subject.flags.batch / number / found.data, found.recomputes ? "every layer" : "nothing");
  text += fmt::format(
      "{:<12}{} a step, {:.2f} times that of the plan above; no plan of the grid "
      "takes less than {}; {} in {}\n",
      "seconds", seconds_text(seconds), seconds / unrestricted.plan.cost.objective_seconds,
      seconds_text(found.bound_seconds), found.result.tried,
      seconds_text(found.result.planning_seconds));
  text += fmt::format("{:<12}{}\n", "memory", memory_of_device_text(subject, planned));
  text += fmt::format("{:<12}torchrun --nproc_per_node {} --nnodes {} pretrain_gpt.py", "command",
                      subject.cluster.devices_per_host, subject.cluster.num_hosts);
  for (const std::string& line : megatron_arguments(subject, found))
    text += fmt::format(" \\\n{:<12}{}", "", line);
  return text + "\n";
}

nlohmann::ordered_json megatron_json(const Subject& subject, const MegatronPlan& found,
                                     const CompiledStep& unrestricted) {
  if (!found.result.planned) return {{"launcher", "megatron"}, {"failure", found.result.failure}};
  const CompiledStep& planned = *found.result.planned;
  nlohmann::ordered_json json = result_json(subject, found.result);
  const double seconds = planned.plan.cost.objective_seconds;
  json.update(
      {{"launcher", "megatron"},
       {"data", found.data},
       {"tensor", found.tensor},
       {"pipeline", found.pipeline()},
       {"micro_batch_rows", subject.flags.batch / planned.graph.num_micro_batches / found.data},
       {"recomputes", found.recomputes},
       {"ratio", seconds / unrestricted.plan.cost.objective_seconds},
       {"bound_seconds", found.bound_seconds},
       {"arguments", megatron_arguments(subject, found)}});
  return json;
}

}  // namespace plan
