// The planner on transformers: for each case the objective found, the bound proven, the seconds
// taken and the best template, beside the aims. A case is a graph of
// tests/support/planning_suite.h on a part of a cluster.
//   bench_planner                  a short table
//   bench_planner --table full     all aims
//   bench_planner --model gpt --layers 4 --devices 2x4 --mesh 2x4 --seconds 10
// The table `predictions` runs steps on CPU devices, 1x1 or those of --devices, with --profile
// after the machine was measured: what was predicted of them, and what they took (predictions.h).
//   bench_planner --table predictions --devices 1x2 --profile --rounds 15
#include <chrono>
#include <ctime>
#include <optional>

#include "alpa/mesh/cluster.h"
#include "alpa/parallelize.h"
#include "arguments.h"
#include "predictions.h"
#include "report.h"
#include "src/base/infinity.h"
#include "src/plan/cost/cost_model.h"
#include "src/plan/evaluation/evaluate.h"
#include "src/search/sharding/auto_shard.h"
#include "src/search/sharding/templates.h"
#include "tests/support/planning_suite.h"

using namespace alpa;

namespace {

/// Costs are rounded to nanoseconds: a plan may be above a template by this factor.
constexpr double kRounding = 1 + 1e-4;

/// What is planned, and what is asked for.
struct Case {
  std::string model = "gpt";
  int layers = 4;
  std::string devices = "2x4";  ///< hosts x devices of a host
  std::string mesh = "auto";    ///< a shape, or every one with at most two axes
  int micro_batches = 1;
  double budget_share = 0;  ///< of the counted peak of the plan without a budget; 0: no budget
  double aim_seconds = kInfinity, aim_gap = 0.005;
};

struct Effort {
  double seconds = 60, template_seconds = 5;
  /// plans as users do: peaks are those of the lowered program, and its time counts
  bool lower = false;
};

using Cases = std::vector<Case>;

Cases short_table() {
  return {{.model = "gpt", .aim_seconds = 1},
          {.model = "gpt", .devices = "8x8", .aim_seconds = 1},
          {.model = "gpt-vocabulary", .aim_seconds = 2},
          {.model = "gpt", .mesh = "2x2x2", .aim_seconds = 10},
          {.model = "gpt",
           .devices = "1x8",
           .mesh = "8",
           .budget_share = 0.7,
           .aim_seconds = 20,
           .aim_gap = 0.01},
          {.model = "bert", .aim_seconds = 2},
          {.model = "moe", .aim_seconds = 2},
          {.model = "residual-mlp", .aim_seconds = 2}};
}

/// Stacks of three depths on three clusters, the mesh automatic and, if
/// `forced`, the cluster's own, too.
void add_stacks(Cases& cases, const std::string& model, double more_seconds, bool forced) {
  for (const auto& [layers, seconds] : {std::pair{4, 1.0}, {24, 3.0}, {96, 10.0}})
    for (const std::string devices : {"2x4", "4x4", "8x8"})
      for (const std::string& mesh : {std::string("auto"), devices}) {
        if (mesh != "auto" && !forced) continue;
        cases.push_back({.model = model,
                         .layers = layers,
                         .devices = devices,
                         .mesh = mesh,
                         .aim_seconds = seconds + more_seconds});
      }
}

Cases stacks_table() {
  Cases cases;
  add_stacks(cases, "gpt", 0, true);
  add_stacks(cases, "gpt-vocabulary", 1, false);
  return cases;
}

Cases models_table() {
  Cases cases = {{.model = "gpt-operators", .layers = 24, .aim_seconds = 3},
                 {.layers = 12, .mesh = "2x2x2", .aim_seconds = 10}};
  for (const char* model : {"moe", "bert", "residual-mlp"})
    cases.push_back({.model = model, .layers = 12, .aim_seconds = 2});
  return cases;
}

Cases budgets_table() {
  Cases cases;
  for (int layers : {4, 12, 24})
    for (const auto& [devices, mesh] : {std::pair{"1x8", "8"}, {"2x4", "2x4"}})
      for (int micro_batches : {1, 4})
        for (double share : {0.9, 0.7, 0.5})
          cases.push_back({.layers = layers,
                           .devices = devices,
                           .mesh = mesh,
                           .micro_batches = micro_batches,
                           .budget_share = share,
                           .aim_seconds = 20,
                           .aim_gap = 0.01});
  return cases;
}

Cases full_table() {
  Cases cases;
  for (const Cases& part : {stacks_table(), models_table(), budgets_table()})
    cases.insert(cases.end(), part.begin(), part.end());
  return cases;
}

/// Tables by name.
const std::vector<std::pair<std::string, Cases (*)()>> kTables = {{"short", short_table},
                                                                  {"stacks", stacks_table},
                                                                  {"models", models_table},
                                                                  {"budgets", budgets_table},
                                                                  {"full", full_table}};

Cases table_of(const std::string& name) {
  for (const auto& [known, cases] : kTables)
    if (known == name) return cases();
  throw Bug("no table " + name);
}

/// Seconds since its start, of the processor and of the wall.
class Clock {
 public:
  double processor() const {
    return static_cast<double>(std::clock() - processor_) / CLOCKS_PER_SEC;
  }
  double wall() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - wall_).count();
  }

 private:
  std::clock_t processor_ = std::clock();
  std::chrono::steady_clock::time_point wall_ = std::chrono::steady_clock::now();
};

/// A plan, or how many bytes are proven to be missing and what the smallest plan takes;
/// neither: nothing was found.
struct Outcome {
  std::optional<ShardingPlan> plan = {};
  std::int64_t peak_bytes = 0, missing_bytes = 0, smallest_bytes = 0;

  double seconds() const { return plan ? plan->cost.objective_seconds : kInfinity; }
};

/// A case with what planning needs.
struct Program {
  TrainingStep step;
  Cluster cluster;
  ShardParallel method;
  Graph graph = step.trace(method.num_micro_batches);
  std::vector<DeviceMesh> meshes = {};
  cost::CostModel model = cost::CostModel::of(cluster);

  /// Peaks are counted ones.
  Outcome plan(const std::vector<DeviceMesh>& on, intra_op::AutoShardOptions options,
               double seconds) const {
    options.limits.seconds = seconds;
    options.memory_budget_bytes = method.memory_budget_bytes;
    return outcome_of([&]() -> Outcome {
      ShardingPlan plan = intra_op::auto_shard(graph, on, model, options);
      const std::int64_t bytes = intra_op::peak_memory(plan, graph).bytes;
      return {.plan = std::move(plan), .peak_bytes = bytes};
    });
  }

  /// Without limits but the method's.
  Outcome plan(const Effort& effort) const {
    if (!effort.lower) return plan(meshes, {}, effort.seconds);
    ShardParallel timed = method;
    timed.solver_seconds = effort.seconds;
    return outcome_of([&]() -> Outcome {
      CompiledStep planned = plan_only(step, timed, cluster);
      return {.plan = planned.plan.sharding(), .peak_bytes = planned.memory_bytes};
    });
  }

 private:
  template <class Plan>
  static Outcome outcome_of(Plan&& plan) {
    try {
      return plan();
    } catch (const intra_op::OverBudget& error) {
      return {.missing_bytes = error.missing_bytes, .smallest_bytes = error.smallest_bytes};
    } catch (const Error&) {  // a template that cannot be followed, or nothing found in time
      return {};
    }
  }
};

Program program_of(const Case& c, const Cluster& whole) {
  const std::vector<int> hosts = parse_mesh_shape(c.devices);
  require(hosts.size() == 2, "--devices {}: give HOSTSxDEVICES, as in 2x4", c.devices);
  ShardParallel method{.num_micro_batches = c.micro_batches};
  if (c.mesh != "auto") method.mesh_shape = parse_mesh_shape(c.mesh);
  Program program{.step = testing::suite_step(c.model, {.stack = {.layers = c.layers}}),
                  .cluster = whole.submesh(hosts[0], hosts[1]),
                  .method = method};
  const auto shapes = c.mesh == "auto" ? logical_mesh_shapes(program.cluster.num_devices())
                                       : std::vector<std::vector<int>>{method.mesh_shape};
  for (const std::vector<int>& shape : shapes)
    program.meshes.push_back(program.cluster.mesh(shape));
  return program;
}

struct Best {
  double seconds = kInfinity;
  std::string name = "none";
};

/// All templates of each mesh, and the batch on each axis, each planned by itself.
Best best_template(const Program& program, double limit) {
  Best best;
  const auto attempt = [&](const DeviceMesh& mesh, const intra_op::AutoShardOptions& options,
                           const std::string& name) {
    const double seconds = program.plan({mesh}, options, limit).seconds();
    if (seconds < best.seconds) best = {seconds, fmt::format("{} on {}", name, shape_text(mesh))};
  };
  for (const DeviceMesh& mesh : program.meshes) {
    for (const std::vector<AxisUse>& uses : intra_op::templates_of(mesh)) {
      intra_op::AutoShardOptions options;
      options.allowed.axis_uses = uses;
      attempt(mesh, options, intra_op::text_of(uses));
    }
    for (int axis = 0; axis < mesh.num_axes(); ++axis) {
      intra_op::AutoShardOptions options;
      options.allowed.batch_mesh_axis = axis;
      attempt(mesh, options, fmt::format("batch on axis {}", axis));
    }
  }
  return best;
}

/// The aims that a row misses. A proof that nothing keeps the budget is as good as a plan.
std::string missed(const Case& c, const Program& program, const Outcome& outcome, double seconds,
                   const Best& best) {
  const auto budget = program.method.memory_budget_bytes;
  std::string text;
  const auto add = [&](bool is_missed, const char* name) {
    if (is_missed) text += (text.empty() ? "" : ", ") + std::string(name);
  };
  add(seconds > c.aim_seconds, "seconds");
  add(!outcome.plan && outcome.missing_bytes <= 0, "plan");
  add(outcome.plan && budget && outcome.peak_bytes > *budget, "budget");
  add(outcome.plan && outcome.plan->cost.gap() > c.aim_gap, "gap");
  add(outcome.seconds() > best.seconds * kRounding, "template");
  return text;
}

std::string name_of(const Case& c) {
  std::string name =
      fmt::format("{} {} layers on {}, mesh {}", c.model, c.layers, c.devices, c.mesh);
  if (c.micro_batches > 1) name += fmt::format(", {} micro-batches", c.micro_batches);
  if (c.budget_share > 0) name += fmt::format(", {} of the peak", c.budget_share);
  return name;
}

/// The share of what the plan without a budget takes.
std::int64_t budget_of(const Case& c, const Program& program, const Effort& effort) {
  const Outcome free = program.plan(effort);
  require(free.plan.has_value(), "no plan without a budget");
  return static_cast<std::int64_t>(c.budget_share * static_cast<double>(free.peak_bytes));
}

double megabytes(std::int64_t bytes) { return 1e-6 * static_cast<double>(bytes); }

std::vector<bench::Figure> figures_of(const Program& program, const Outcome& outcome) {
  std::vector<bench::Figure> figures = {
      {"graph_nodes", static_cast<double>(program.graph.nodes.size())}};
  if (outcome.plan) {
    const PlanCost& cost = outcome.plan->cost;
    figures.push_back({"objective_ms", 1e3 * cost.objective_seconds});
    figures.push_back({"bound_ms", 1e3 * cost.lower_bound_seconds});
    figures.push_back({"gap", cost.gap()});
    figures.push_back({"solver_nodes", static_cast<double>(outcome.plan->statistics.nodes)});
    figures.push_back(
        {"solver_strategies", static_cast<double>(outcome.plan->statistics.strategies)});
    figures.push_back({"peak_megabytes", megabytes(outcome.peak_bytes)});
  }
  if (const auto budget = program.method.memory_budget_bytes) {
    figures.push_back({"budget_megabytes", megabytes(*budget)});
    figures.push_back({"missing_megabytes", megabytes(outcome.missing_bytes)});
    if (!outcome.plan) figures.push_back({"smallest_megabytes", megabytes(outcome.smallest_bytes)});
  }
  return figures;
}

void measure(const Case& c, const Cluster& cluster, const Effort& effort) {
  Program program = program_of(c, cluster);
  if (c.budget_share > 0) program.method.memory_budget_bytes = budget_of(c, program, effort);
  const Clock clock;
  const Outcome outcome = program.plan(effort);
  const double wall = clock.wall(), processor = clock.processor();
  // Templates keep budgets of counted peaks, not of exact ones.
  const bool comparable = !effort.lower || c.budget_share == 0;
  const Best best = comparable ? best_template(program, effort.template_seconds) : Best{};
  std::vector<bench::Figure> figures = figures_of(program, outcome);
  figures.push_back({"cpu_seconds", processor});
  figures.push_back({"wall_seconds", wall});
  figures.push_back({"template_ms", 1e3 * best.seconds});
  figures.push_back({"over_template", outcome.seconds() / best.seconds});
  figures.push_back({"aim_seconds", c.aim_seconds});
  figures.push_back({"aim_gap", c.aim_gap});
  bench::print_row(name_of(c), figures, {},
                   {{"mesh", outcome.plan ? shape_text(outcome.plan->mesh) : "none"},
                    {"template", best.name},
                    {"missed", missed(c, program, outcome, processor, best)}});
}

/// A case that fails does not end the table, but the program's success.
void measure_all(const Cases& cases, const std::string& cluster_file, const Effort& effort) {
  const Cluster cluster = Cluster::from_file(cluster_file);
  int failures = 0;
  for (const Case& c : cases) {
    try {
      measure(c, cluster, effort);
    } catch (const std::exception& error) {
      fmt::print(stderr, "{}: {}\n", name_of(c), error.what());
      ++failures;
    }
  }
  require(failures == 0, "{} of {} cases failed", failures, cases.size());
}

std::vector<std::string> models() {
  std::vector<std::string> names;
  for (const testing::SuiteModel& model : testing::kPlanningSuite) names.emplace_back(model.name);
  return names;
}

std::vector<std::string> tables() {
  std::vector<std::string> names{"predictions"};
  for (const auto& [name, cases] : kTables) names.push_back(name);
  return names;
}

/// How often steps of the table `predictions` run, and where.
struct Running {
  int rounds = 9;
  bool profiles = false;
};

void measure_predictions(const std::string& devices, const Running& running) {
  const std::vector<int> hosts =
      devices.empty() ? std::vector<int>{1, 1} : parse_mesh_shape(devices);
  require(hosts.size() == 2 && hosts[0] == 1, "--devices {}: give 1x1, 1x2, …: this machine's",
          devices);
  bench::measure_predictions(running.profiles ? profile(hosts[1]) : Cluster::local(hosts[1]),
                             running.rounds);
}

}  // namespace

int main(int argc, char** argv) {
  std::string cluster_file = "clusters/a100_8x8.json", table = "short", devices;
  Case one{.model = "", .aim_seconds = kInfinity};
  Running running;
  Effort effort;
  return bench::run(
      argc, argv, "The planner on transformers.",
      {cli::choice("--table", &table, "Cases, unless --model gives one", tables()),
       cli::choice("--model", &one.model, "One case of this model", models()),
       cli::whole("--layers", &one.layers, "Layers", 1, 1000),
       cli::text("--devices", &devices, "Hosts x devices of a host: 2x4, for predictions 1x1"),
       cli::whole("--rounds", &running.rounds, "Counted rounds, for predictions", 1, 1000),
       cli::on("--profile", &running.profiles, "Measures the machine first, for predictions"),
       cli::text("--mesh", &one.mesh, "Shape of the mesh, or auto"),
       cli::whole("--micro-batches", &one.micro_batches, "Micro-batches", 1, 32),
       cli::number("--budget-share", &one.budget_share, "Budget as share of the free peak; 0: none",
                   0, 1),
       cli::positive_number("--seconds", &effort.seconds, "Limit of planning"),
       cli::positive_number("--template-seconds", &effort.template_seconds,
                            "Limit of each template"),
       cli::on("--lower", &effort.lower, "Plans and lowers: exact peaks"),
       cli::text("--cluster", &cluster_file, "Cluster file")},
      [&] {
        if (one.model.empty() && table == "predictions")
          return measure_predictions(devices, running);
        if (!devices.empty()) one.devices = devices;
        measure_all(one.model.empty() ? table_of(table) : Cases{one}, cluster_file, effort);
      });
}
