// Random graphs and plans: what differs from one device is told with
// everything needed to look at it.
#include "fuzz/random_model.h"

#include <cmath>

#include "alpa/train/training_step.h"
#include "src/ir/recorder.h"
#include "src/runtime/executor.h"
#include "src/search/sharding/auto_shard.h"
#include "support/cuda_epilogues.h"

namespace alpa::fuzz {
namespace {

using Kind = AxisPlacement::Kind;

/// Builds the model block by block; `h` is [B, C] or [B, T, C].
class Composer {
 public:
  Composer(Recorder& g, Random& random, const testing::TestStepOptions& options, Value h)
      : g_(g),
        random_(random),
        dtype_(options.dtype),
        may_round_(options.optimizer == testing::StepOptimizer::sgd),
        h_(h) {}

  Value run(int blocks) {
    for (int i = 0; i < blocks; ++i) add_block();
    return h_;
  }

  bool rounds_to_f32() const { return rounds_; }

  Value weight(const Shape& shape) {
    return g_.parameter(fmt::format("w{}", weights_++), {dtype_, shape},
                        Initializer::normal(0, 0.4));
  }

 private:
  std::int64_t width() const { return h_.shape().back(); }

  void add_block() {
    switch (below(random_, 12)) {
      case 0:
      case 1: return dense();
      case 2: return h_.rank() == 3 ? attention() : dense();
      case 3: return h_.rank() == 3 ? attention() : split_width();
      case 4: return layer_norm();
      case 5: return reduction();
      case 6: return residual();
      case 7: return change_shape();
      case 8: return rounding();
      case 9: h_ = h_ + random_normal(g_, h_.type(), 0, 0.1); return;
      case 10: h_ = where(gt(h_, 0.05), h_, h_ * 0.3); return;
      default: return by_zero();
    }
  }

  Value activated(Value x) {
    switch (below(random_, 5)) {
      case 0: return relu(x);
      case 1: return gelu(x);
      case 2: return tanh(x);
      case 3: return sigmoid(x);
      default: return x;
    }
  }

  /// A kernel of this shape: one that is there already, if there is one, as often as not.
  Value kernel(std::int64_t in, std::int64_t out) {
    const auto known = kernels_.find({in, out});
    if (known != kernels_.end() && chance(random_, 0.5)) return known->second;
    const Value made = weight({in, out});
    kernels_.insert_or_assign({in, out}, made);
    return made;
  }

  void dense() {
    const std::int64_t out = chance(random_, 0.4) ? width() : 1 + below(random_, 9);
    h_ = matmul(h_, kernel(width(), out));
    if (chance(random_, 0.6)) h_ = h_ + weight({out});
    h_ = activated(h_);
  }

  void residual() {
    const Value inner = activated(matmul(h_, kernel(width(), width())));
    h_ = chance(random_, 0.7) ? h_ + inner : h_ * sigmoid(inner);
  }

  void attention() {
    const std::int64_t heads = 1 + below(random_, 3), each = 1 + below(random_, 3),
                       time = h_.shape()[1];
    const Value q = einsum("btc,che->bthe", h_, weight({width(), heads, each})),
                k = einsum("bsc,che->bshe", h_, weight({width(), heads, each})),
                v = einsum("bsc,che->bshe", h_, weight({width(), heads, each}));
    Value scores = einsum("bthe,bshe->bhts", q, k) * (1 / std::sqrt(static_cast<double>(each)));
    if (chance(random_, 0.5)) {
      const TensorType square{i32, {time, time}};
      scores = where(ge(iota(g_, square, 0), iota(g_, square, 1)), scores, -1e9);
    }
    const Value mixed = einsum("bhts,bshe->bthe", softmax(scores), v);
    h_ = h_ + einsum("bthe,hec->btc", mixed, weight({heads, each, width()}));
  }

  void layer_norm() {
    if (h_.rank() == 3 && chance(random_, 0.3)) add_positions();
    if (chance(random_, 0.5)) {
      const Value scale = weight({width()});
      h_ = alpa::layer_norm(h_, scale, weight({width()}), 0.1);
      return;
    }
    const Value centred = h_ - mean(h_, {-1}, true),
                scale = rsqrt(mean(square(centred), {-1}, true) + 0.1);
    h_ = centred * scale * weight({width()}) + weight({width()});
  }

  /// A learnt vector for each of the T places of [B, T, C], looked up.
  void add_positions() {
    const Shape ids(h_.shape().begin(), h_.shape().end() - 1);
    h_ = h_ + embedding(weight({ids[1] + 2, width()}), iota(g_, {i32, ids}, 1));
  }

  void reduction() {
    const std::int64_t axis = 1 + below(random_, h_.rank() - 1);
    const Value reduced =
        chance(random_, 0.5) ? max(h_, {axis}, true) : sum(h_, {axis}, true) * 0.2;
    h_ = h_ - reduced;
  }

  void change_shape() {
    const Shape shape = h_.shape();
    if (shape.size() == 2) return split_width();
    switch (below(random_, 3)) {
      case 0: h_ = reshape(tanh(reshape(h_, {shape[0] * shape[1], shape[2]})), shape); return;
      case 1: h_ = transpose(h_, {0, 2, 1}); return;
      default: h_ = reshape(h_, {shape[0], shape[1] * shape[2]});
    }
  }

  /// [B, T·C] as [B, T, C].
  void split_width() {
    for (std::int64_t time : {3, 2, 1})
      if (width() % time == 0) {
        h_ = reshape(h_, {h_.shape()[0], time, width() / time});
        return;
      }
  }

  void rounding() {
    if (!may_round_) return residual();
    rounds_ = true;
    h_ = cast(tanh(cast(h_, f32)), dtype_) + h_;
  }

  /// Nodes that are zero, and linear in what is zero.
  void by_zero() {
    const Value zero = constant(g_, 0, dtype_, h_.shape());
    h_ = h_ + g_.emit_one(ops::mul, {h_, zero});
  }

  Recorder& g_;
  Random& random_;
  DType dtype_;
  bool may_round_;  ///< Adam divides by the size of a gradient, which may be rounding alone
  Value h_;
  int weights_ = 0;
  bool rounds_ = false;
  std::map<std::pair<std::int64_t, std::int64_t>, Value> kernels_;
};

/// Rows per micro-batch, and what follows them.
TensorType random_input(Random& random, DType dtype) {
  Shape shape{1 + below(random, 7)};
  if (chance(random, 0.6)) shape.push_back(1 + below(random, 5));
  shape.push_back(1 + below(random, 8));
  return {dtype, shape};
}

TensorType whole_batch(TensorType type, int micro_batches) {
  type.shape[0] *= micro_batches;
  return type;
}

Optimizer random_optimizer(Random& random, bool adam) {
  if (adam) return chance(random, 0.5) ? Optimizer(optim::Adam{}) : Optimizer(optim::AdamW{});
  return optim::Sgd{.learning_rate = 0.05, .momentum = chance(random, 0.5) ? 0.9 : 0};
}

/// The step as the library's users write it, or with updates written by hand.
Graph step_of(Random& random, const TensorType& x, const TensorType& y, const testing::Model& model,
              const testing::TestStepOptions& options) {
  const TensorType all_x = whole_batch(x, options.num_micro_batches),
                   all_y = whole_batch(y, options.num_micro_batches);
  if (chance(random, 0.5)) return testing::training_graph(all_x, all_y, model, options);
  const auto loss = [&](const Batch& b) { return model(recorder(b["x"]), b["x"], b["y"]); };
  const alpa::StepOptions clipping{.clip_global_norm = chance(random, 0.5) ? 0.5 : 0};
  return training_step({{"x", all_x}, {"y", all_y}}, loss,
                       random_optimizer(random, options.optimizer == testing::StepOptimizer::adam),
                       clipping)
      .trace(options.num_micro_batches);
}

/// Classifies tokens with one embedding for both ends.
Sample token_sample(Random& random, const testing::TestStepOptions& options) {
  const TensorType tokens{i32, {1 + below(random, 5), 1 + below(random, 5)}};
  const std::int64_t vocabulary = 3 + below(random, 6), width = 1 + below(random, 6);
  Sample sample;
  const testing::Model model = [&](Recorder& g, Value x, Value y) {
    const Value embedding =
        g.parameter("embedding", {options.dtype, {vocabulary, width}}, Initializer::normal(0, 0.4));
    Composer composer(g, random, options,
                      einsum("btv,vc->btc", one_hot(x, vocabulary, options.dtype), embedding));
    Value h = composer.run(1 + below(random, 3));
    if (composer.rounds_to_f32()) sample.tolerance = 1e-4;
    if (h.shape() != Shape{x.shape()[0], x.shape()[1], width}) {
      h = reshape(h, {x.shape()[0], -1});
      h = matmul(h, composer.weight({h.shape()[1], x.shape()[1] * width}));
      h = reshape(h, {x.shape()[0], x.shape()[1], width});
    }
    return mean(softmax_cross_entropy(einsum("btc,vc->btv", h, embedding), y));
  };
  sample.graph = step_of(random, tokens, tokens, model, options);
  return sample;
}

Sample regression_sample(Random& random, const testing::TestStepOptions& options) {
  const TensorType x_type = random_input(random, options.dtype);
  const TensorType y_type{options.dtype, {x_type.shape[0], 1 + below(random, 5)}};
  Sample sample;
  const testing::Model model = [&](Recorder& g, Value x, Value y) {
    Composer composer(g, random, options, x);
    const Value h = reshape(composer.run(1 + below(random, 4)), {x.shape()[0], -1});
    if (composer.rounds_to_f32()) sample.tolerance = 1e-4;
    return mean(square(matmul(h, composer.weight({h.shape()[1], y.shape()[1]})) - y));
  };
  sample.graph = step_of(random, x_type, y_type, model, options);
  return sample;
}

/// True unless a partial sum would have to become a partial maximum, or the other way.
bool reachable(const ShardingSpec& from, const ShardingSpec& to) {
  for (const AxisPlacement& a : from.axes)
    for (const AxisPlacement& b : to.axes)
      if (a.kind == Kind::partial && b.kind == Kind::partial && a.combiner != b.combiner)
        return false;
  return true;
}

/// Draws the strategies node by node, knowing how what they read is left.
class PlanDrawer {
 public:
  PlanDrawer(const Graph& graph, const DeviceMesh& mesh, Random& random)
      : graph_(graph), mesh_(mesh), random_(random), specs_(graph.values.size()) {}

  std::vector<Strategy> strategies() {
    std::vector<Strategy> drawn;
    for (const Node& node : graph_.nodes) drawn.push_back(strategy_of(node));
    return drawn;
  }

 private:
  Strategy strategy_of(const Node& node) {
    const Rule rule = rule_of(graph_, node);
    const int most = chance(random_, 0.7) ? 0 : static_cast<int>(node.operands.size());
    std::vector<Strategy> fitting;
    int fewest = static_cast<int>(node.operands.size()) + 1;
    for (const Strategy& strategy : intra_op::all_strategies(rule, mesh_)) {
      const int moved = std::max(most, operands_moved(node, rule, strategy));
      if (moved > std::max(fewest, most)) continue;
      if (moved < fewest) fitting.clear();
      fewest = moved;
      fitting.push_back(strategy);
    }
    const Strategy chosen = one_of(random_, fitting);
    for (int i = 0; i < static_cast<int>(node.results.size()); ++i)
      specs_[node.results[i]] = intra_op::result_spec(rule, chosen, mesh_, i);
    return chosen;
  }

  /// Operands that do not lie as wanted; one more than there are if one can't be brought there.
  int operands_moved(const Node& node, const Rule& rule, const Strategy& strategy) const {
    int moved = 0;
    for (int i = 0; i < static_cast<int>(node.operands.size()); ++i) {
      const ShardingSpec wanted = intra_op::operand_spec(rule, strategy, mesh_, i),
                         &found = specs_[node.operands[i]];
      if (!reachable(found, wanted)) return static_cast<int>(node.operands.size()) + 1;
      moved += found != wanted;
    }
    return moved;
  }

  const Graph& graph_;
  const DeviceMesh& mesh_;
  Random& random_;
  std::vector<ShardingSpec> specs_;
};

/// The passes in the order of the driver, each verified, some left out.
spmd::SpmdProgram lowered(const Graph& graph, const ShardingPlan& plan, Random& random) {
  spmd::SpmdProgram program = spmd::partition(graph, plan);
  verify(program);
  const auto pass = [&](double probability, const auto& make) {
    if (!chance(random, probability)) return;
    program = make(program);
    verify(program);
  };
  pass(0.3, [](const spmd::SpmdProgram& p) { return testing::with_cuda_epilogues(p); });
  pass(0.9, [](const spmd::SpmdProgram& p) { return spmd::fuse_elementwise(p); });
  const std::int64_t bytes = one_of<std::int64_t>(random, {0, 64, 1000, 1 << 20}),
                     slack = one_of<std::int64_t>(random, {0, 100, 1 << 20});
  pass(0.9, [&](const spmd::SpmdProgram& p) { return spmd::bucket_collectives(p, bytes, slack); });
  pass(0.3, [](const spmd::SpmdProgram& p) {
    return spmd::fuse_squared_norms(spmd::fuse_optimizer_updates(p));
  });
  return program;
}

bool is_finite(const testing::StepOutcome& outcome) {
  const auto finite = [](const std::vector<double>& numbers) {
    return std::all_of(numbers.begin(), numbers.end(), [](double x) { return std::isfinite(x); });
  };
  return finite(outcome.losses) &&
         std::all_of(outcome.state.begin(), outcome.state.end(),
                     [&](const auto& entry) { return finite(entry.second); });
}

void check_file(const ShardingPlan& plan, const Graph& graph) {
  const std::string text = to_json(plan, graph);
  invariant(to_json(plan_from_json(text, graph, "fuzz"), graph) == text,
            "the plan read back is another");
}

}  // namespace

Sample random_sample(Random& random) {
  testing::TestStepOptions options{.num_micro_batches = 1 + below(random, 3),
                                   .dtype = chance(random, 0.2) ? f32 : f64};
  const bool adam = options.dtype == f64 && chance(random, 0.4);
  options.optimizer = adam ? testing::StepOptimizer::adam : testing::StepOptimizer::sgd;
  Sample sample =
      chance(random, 0.25) ? token_sample(random, options) : regression_sample(random, options);
  if (adam) sample.tolerance = 1e-6;
  if (options.dtype == f32) sample.tolerance = 1e-3;
  return sample;
}

DeviceMesh random_mesh(Random& random) {
  return testing::mesh_of(one_of<std::vector<int>>(random, {{2},
                                                            {3},
                                                            {4},
                                                            {5},
                                                            {6},
                                                            {7},
                                                            {8},
                                                            {2, 2},
                                                            {2, 3},
                                                            {3, 2},
                                                            {2, 4},
                                                            {4, 2},
                                                            {2, 2, 2},
                                                            {1, 4}}));
}

ShardingPlan random_plan(const Graph& graph, const DeviceMesh& mesh, Random& random) {
  const std::vector<Strategy> strategies = PlanDrawer(graph, mesh, random).strategies();
  const auto plan = testing::plan_of(graph, mesh, strategies, [&] { return chance(random, 0.25); });
  invariant(plan.has_value(), "a layout drawn cannot be reached");
  return *plan;
}

ShardingPlan planned_at_random(const Graph& graph, const DeviceMesh& mesh, Random& random) {
  const auto pick = [&](const std::vector<double>& values) { return one_of(random, values); };
  std::vector<MeshAxis> axes = mesh.axes();
  for (MeshAxis& axis : axes) {
    axis.alpha_seconds = pick({0, 1e-6, 1e-4});
    axis.beta_seconds_per_byte = pick({0, 1e-12, 1e-10, 1e-8});
  }
  cost::CostModel model;
  model.device.flops_per_second[f32] = model.device.flops_per_second[f64] =
      pick({0, 1e7, 1e9, 1e12});
  model.device.memory_bytes_per_second = pick({0, 1e6, 1e9, 1e12});
  model.device.launch_seconds = model.reshard.launch_seconds = pick({0, 1e-6});
  model.reshard.memory_bytes_per_second = model.device.memory_bytes_per_second;
  intra_op::AutoShardOptions options =
      one_of<intra_op::AutoShardOptions>(random, {{},
                                                  {},
                                                  {},
                                                  intra_op::data_parallel_options(),
                                                  intra_op::zero2_options(),
                                                  intra_op::zero3_options()});
  options.allowed.all_gather = chance(random, 0.8);
  options.allowed.all_to_all = chance(random, 0.8);
  options.limits.seconds = 5;
  try {
    return intra_op::auto_shard(graph, DeviceMesh(axes), model, options);
    // too few rows for data parallelism, or a collective needed but forbidden
  } catch (const Error&) {
    return random_plan(graph, mesh, random);
  }
}

std::string difference_of(std::uint64_t seed) {
  Random random(seed);
  const Sample sample = random_sample(random);
  const Graph& graph = sample.graph;
  runtime::Executor serial(
      spmd::partition(graph, testing::replicated_plan(graph, testing::mesh_of({1}))));
  const testing::StepOutcome expected = testing::run_steps(serial, 2);
  if (!is_finite(expected)) return "";
  const DeviceMesh mesh = random_mesh(random);
  const ShardingPlan plan = chance(random, 0.15) ? planned_at_random(graph, mesh, random)
                                                 : random_plan(graph, mesh, random);
  verify(plan, graph);
  check_file(plan, graph);
  const spmd::SpmdProgram program = lowered(graph, plan, random);
  const Overlap overlap =
      one_of<Overlap>(random, {Overlap::automatic, Overlap::always, Overlap::never});
  const int threads = chance(random, 0.7) ? 0 : 1 + below(random, 3);
  runtime::Executor executor(program, {.threads_per_device = threads, .overlap = overlap});
  const double difference = testing::largest_difference(expected, testing::run_steps(executor, 2));
  if (difference <= sample.tolerance) return "";
  return fmt::format("differs by {} (tolerance {}) on mesh {}, {} threads, overlap {}\n{}",
                     difference, sample.tolerance, shape_text(mesh), threads,
                     static_cast<int>(overlap), to_string(program));
}

}  // namespace alpa::fuzz
