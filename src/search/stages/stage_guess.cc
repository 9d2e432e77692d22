// src/search/stages/stage_guess.cc — what equal stages may take, in closed form
#include "src/search/stages/stage_guess.h"

#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <span>

#include "src/ir/input.h"
#include "src/ir/rule.h"
#include "src/ir/stages.h"
#include "src/plan/cost/collective.h"
#include "src/plan/cost/transfer.h"
#include "src/plan/evaluation/evaluate.h"
#include "src/plan/facts/batch_factors.h"
#include "src/plan/facts/tensor_factors.h"
#include "src/plan/schedules/schedule.h"
#include "src/search/program/assemble_plan.h"
#include "src/search/stages/stage_graph.h"
#include "src/search/stages/stage_meshes.h"
#include "src/search/tuning.h"

namespace alpa::inter_op {
namespace {

constexpr search::Tuning::StageGuess kGuess = search::kTuning.stage_guess;

double bytes_of(const Graph& graph, int value) {
  return static_cast<double>(graph.type(value).bytes());
}

bool is_forward(const Node& node) {
  return node.region == Region::forward && node.op != &ops::input;
}

/// Per value, whether it depends on state alone.
std::vector<bool> made_of_state(const Graph& graph) {
  std::vector<bool> of_state(graph.values.size());
  for (const Input& input : graph.inputs) of_state[input.value] = input.kind == InputKind::state;
  for (const Node& node : graph.nodes)
    if (node.op != &ops::input && !node.operands.empty() &&
        std::ranges::all_of(node.operands, [&](int value) { return of_state[value]; }))
      for (const int result : node.results) of_state[result] = true;
  return of_state;
}

/// Bytes that lie between products with parameters, and that devices which split these exchange.
/// `experts`: per node, see tensor_factors.h.
void add_products(const Graph& graph, const std::vector<int>& experts,
                  std::vector<LayerNeeds>& layers) {
  const std::vector<bool> of_state = made_of_state(graph);
  std::set<std::pair<int, int>> counted;  // layer, operand
  for (int n = 0; n < std::ssize(graph.nodes); ++n) {
    const Node& node = graph.nodes[n];
    if (!is_forward(node) || node.operands.size() < 2 || node.results.size() != 1) continue;
    int parameters = 0, activation = -1;
    for (const int value : node.operands) {
      parameters += of_state[value];
      if (!of_state[value] && activation < 0) activation = value;
    }
    const double result = bytes_of(graph, node.results[0]);
    const auto elements = static_cast<double>(graph.type(node.results[0]).elements());
    const bool is_product = flops(rule_of(graph, node)) > kGuess.flops_of_product * elements;
    if (parameters == 0 || activation < 0 || !is_product) continue;
    const int layer = std::max(node.layer, 0);
    if (!counted.emplace(layer, activation).second) continue;
    layers[layer].products += 1;
    layers[layer].between += std::min(bytes_of(graph, activation), result);
    if (experts[n] < 0) continue;
    const bool arrives = experts[graph.values[activation].producer] < 0;
    layers[layer].sent += arrives ? bytes_of(graph, activation) : result;
  }
}

/// Bytes that forward runs keep for backward runs, and that they pass to later layers.
void add_values(const Graph& graph, std::vector<LayerNeeds>& layers) {
  std::vector<int> last(graph.values.size(), -1);  // layer of forward that reads it
  std::vector<bool> kept(graph.values.size());
  for (const Node& node : graph.nodes)
    for (const int value : node.operands) {
      if (node.region == Region::forward) last[value] = std::max(last[value], node.layer);
      if (node.region == Region::backward) kept[value] = true;
    }
  for (const Node& node : graph.nodes) {
    if (!is_forward(node)) continue;
    for (const int value : node.results) {
      const double bytes = bytes_of(graph, value);
      const int from = std::max(node.layer, 0);
      if (kept[value]) layers[from].kept += bytes;
      for (int layer = from; layer < last[value]; ++layer) layers[layer].passed += bytes;
    }
  }
}

/// State is read by forward runs, or by what follows parameters alone.
void add_state(const Graph& graph, const std::vector<int>& experts,
               std::vector<LayerNeeds>& layers) {
  std::vector<bool> is_read(graph.values.size());
  for (const Node& node : graph.nodes)
    if (is_forward(node))
      for (const int value : node.operands) is_read[value] = true;
  for (const Input& input : graph.inputs) {
    LayerNeeds& layer = layers[std::max(graph.producer(input.value).layer, 0)];
    const double bytes = bytes_of(graph, input.value);
    if (input.kind == InputKind::accumulator)
      layer.sums += bytes;
    else if (input.kind == InputKind::state)
      (is_read[input.value] ? layer.parameters : layer.state) += bytes;
    if (input.kind != InputKind::state || !is_read[input.value]) continue;
    layer.tensors += 1;
    if (experts[graph.values[input.value].producer] >= 0) layer.experts += bytes;
  }
}

/// Gradients that updates read as one micro-batch makes them, before they are widened.
void add_gradients(const Graph& graph, std::vector<LayerNeeds>& layers) {
  std::set<int> counted;
  for (const Node& node : graph.nodes) {
    if (node.region != Region::apply) continue;
    for (const int value : node.operands) {
      const Node& made = graph.producer(value);
      if (made.region != Region::backward || !counted.insert(value).second) continue;
      double bytes = bytes_of(graph, value);
      if (made.operands.size() == 1) bytes = std::min(bytes, bytes_of(graph, made.operands[0]));
      layers[std::max(made.layer, 0)].gradients += bytes;
    }
  }
}

/// Sums over the rows of a micro-batch on which rows of the same micro-batch depend: devices that
/// split the batch add up their parts.
void add_statistics(const Graph& graph, std::vector<LayerNeeds>& layers) {
  const std::vector<int> batch = intra_op::batch_dims(graph);
  const auto has_rows = [&](int value) { return batch[value] >= 0; };
  std::vector<bool> seen(graph.values.size());
  const auto count = [&](int value, const auto& self) -> void {
    if (has_rows(value) || seen[value]) return;
    seen[value] = true;
    const Node& node = graph.producer(value);
    if (std::ranges::any_of(node.operands, has_rows)) {
      LayerNeeds& layer = layers[std::max(node.layer, 0)];
      layer.statistics += 1;
      layer.summed += bytes_of(graph, value);
    } else {
      for (const int operand : node.operands) self(operand, self);
    }
  };
  for (const Node& node : graph.nodes)
    if (node.region != Region::apply && std::ranges::any_of(node.results, has_rows))
      for (const int value : node.operands) count(value, count);
}

/// Per layer, the most bytes at a time of values that forward or backward runs make and use
/// themselves.
void add_temporaries(const ShardingPlan& plan, const intra_op::GraphFacts& facts,
                     std::vector<LayerNeeds>& layers) {
  const Graph& graph = facts.graph;
  const int end = intra_op::first_apply(graph);
  const std::vector<bool> is_own = intra_op::kept_values(graph);
  std::vector<std::map<int, double>> changes(layers.size());  // of bytes, at points of the step
  for (const intra_op::LiveBytes& live : intra_op::live_bytes(plan, facts)) {
    const auto [from, to] = live.points;
    if (!is_own[live.value] || live.is_kept || to > end) continue;
    std::map<int, double>& of_layer = changes[std::max(graph.producer(live.value).layer, 0)];
    of_layer[from] += static_cast<double>(live.bytes);
    of_layer[to] -= static_cast<double>(live.bytes);
  }
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    double bytes = 0;
    for (const auto& [point, more] : changes[layer])
      layers[layer].temporaries = std::max(layers[layer].temporaries, bytes += more);
  }
}

/// Seconds of nodes on one device, and its temporary bytes.
void add_seconds(const Graph& graph, const cost::CostModel& model,
                 std::vector<LayerNeeds>& layers) {
  const intra_op::GraphFacts facts(graph);
  const DeviceMesh mesh({{"x", 1, 0, 0}}, {0});
  cost::ReshardPrices prices(mesh, model.reshard);
  const ShardingPlan plan =
      intra_op::plan_of_strategies(facts, mesh, std::vector<Strategy>(graph.nodes.size()), prices);
  const intra_op::PartSeconds seconds = intra_op::part_seconds(plan, facts, model);
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    LayerNeeds& layer = layers[std::max(node.layer, 0)];
    double& of_region = node.region == Region::forward    ? layer.forward
                        : node.region == Region::backward ? layer.backward
                                                          : layer.apply;
    of_region += seconds.nodes[n] / (node.region == Region::apply ? 1 : graph.num_micro_batches);
  }
  add_temporaries(plan, facts, layers);
}

std::vector<LayerNeeds> sums_before(const std::vector<LayerNeeds>& layers) {
  std::vector<LayerNeeds> sums(1);
  for (const LayerNeeds& layer : layers) {
    sums.push_back(sums.back());
    sums.back().add(layer);
    sums.back().passed = layer.passed;            // at a cut alone
    sums.back().temporaries = layer.temporaries;  // of the last layer alone
  }
  return sums;
}

}  // namespace

void LayerNeeds::add(const LayerNeeds& other, double times) {
  for (double LayerNeeds::*of :
       {&LayerNeeds::forward, &LayerNeeds::backward, &LayerNeeds::apply, &LayerNeeds::parameters,
        &LayerNeeds::state, &LayerNeeds::sums, &LayerNeeds::gradients, &LayerNeeds::kept,
        &LayerNeeds::passed, &LayerNeeds::temporaries, &LayerNeeds::products, &LayerNeeds::between,
        &LayerNeeds::tensors, &LayerNeeds::statistics, &LayerNeeds::summed, &LayerNeeds::experts,
        &LayerNeeds::sent})
    this->*of += times * (other.*of);
}

std::vector<LayerNeeds> needs_of_layers(const Graph& of, const cost::CostModel& model) {
  const Graph graph = with_stage_per_layer(of);
  std::vector<LayerNeeds> layers(num_layers(of));
  const std::vector<int> experts = intra_op::expert_factors(graph, intra_op::classify(graph));
  add_seconds(graph, model, layers);
  add_state(graph, experts, layers);
  add_values(graph, layers);
  add_products(graph, experts, layers);
  add_gradients(of, layers);
  add_statistics(of, layers);
  return layers;
}

namespace {

/// Rows of a micro-batch.
double rows_of(const Graph& graph) {
  std::int64_t rows = std::numeric_limits<std::int64_t>::max();
  for (const Input& input : graph.inputs)
    if (input.kind == InputKind::batch) rows = std::min(rows, graph.type(input.value).shape.at(0));
  return static_cast<double>(rows);
}

}  // namespace

StepNeeds::StepNeeds(const Graph& few_graph, const Graph& many_graph, bool again,
                     const cost::CostModel& model)
    : few(few_graph.num_micro_batches),
      many(many_graph.num_micro_batches),
      recomputes(again),
      rows(few * rows_of(few_graph)),
      at_few(sums_before(needs_of_layers(few_graph, model))),
      at_many(sums_before(needs_of_layers(many_graph, model))) {}

namespace {

/// The first layer of a stage. Stages have equal seconds, as far as layers allow.
int first_layer(const std::vector<LayerNeeds>& sums, int stage, int stages) {
  const auto layers = static_cast<int>(sums.size()) - 1;
  const auto work = [](const LayerNeeds& of) { return of.forward + of.backward; };
  const double share = work(sums.back()) * stage / stages;
  const auto at = std::ranges::lower_bound(sums, share, {}, work);
  int first = static_cast<int>(at - sums.begin());
  if (first > 0 && share - work(sums[first - 1]) < work(sums[first]) - share) --first;
  return std::clamp(first, stage, layers - (stages - stage));
}

LayerNeeds needs_of_stage(const std::vector<LayerNeeds>& sums, int stage, int stages) {
  const int first = first_layer(sums, stage, stages), end = first_layer(sums, stage + 1, stages);
  LayerNeeds needs = sums[end];
  needs.add(sums[first], -1);
  needs.passed = sums[end].passed;
  for (int layer = first; layer < end; ++layer)
    needs.temporaries = std::max(needs.temporaries, sums[layer + 1].temporaries);
  return needs;
}

/// A stage of a micro-batch whose rows are those of one of so many micro-batches.
LayerNeeds needs_at(const StepNeeds& needs, int stage, int stages, double micro_batches) {
  const LayerNeeds few = needs_of_stage(needs.at_few, stage, stages),
                   many = needs_of_stage(needs.at_many, stage, stages);
  // Few and many are at 1 / few and 1 / many of the rows; between and beyond them on a line.
  const double far = 1.0 / needs.few, near = 1.0 / needs.many, at = 1.0 / micro_batches;
  const double share = needs.few == needs.many ? 1 : (at - near) / (far - near);
  LayerNeeds result;
  result.add(few, share);
  result.add(many, 1 - share);
  const double least = at / far;  // of what few need, in proportion to the rows
  result.forward = std::max(result.forward, least * few.forward);
  result.backward = std::max(result.backward, least * few.backward);
  result.kept = std::max(result.kept, 0.0), result.passed = std::max(result.passed, 0.0);
  result.between = std::max(result.between, 0.0);
  result.temporaries = std::max(result.temporaries, 0.0);
  result.apply = many.apply, result.products = many.products;
  result.parameters = many.parameters, result.state = many.state;
  result.tensors = many.tensors, result.statistics = many.statistics, result.summed = many.summed;
  result.sums = many.sums, result.gradients = few.gradients;
  result.experts = many.experts, result.sent = std::max(result.sent, 0.0);
  return result;
}

/// What of a stage is split over the parts of the batch, too: each row holds less, and sends more.
enum class Holding : std::uint8_t { whole, state, sums, all };

/// How the devices of a stage share its layers.
struct Split {
  const DeviceMesh& mesh;
  std::vector<int> tensor, data;  ///< axes that split parameters, and the batch
  int across = 1, copies = 1;     ///< parts of a parameter, and of the batch and its tokens
  int tokens = 1;                 ///< parts of a row
  std::vector<int> experts = {};  ///< axes that split experts
  Holding least = Holding::whole, most = Holding::all;
};

struct StageCost {
  double micro_batch = 0, step = 0;  ///< seconds
  double bytes = 0;                  ///< of a device
};

class Guess {
 public:
  Guess(const StepNeeds& needs, int micro_batches, const Cluster& cluster,
        const cost::CostModel& model, std::int64_t budget)
      : needs_(needs),
        micro_batches_(micro_batches),
        cluster_(cluster),
        model_(model),
        budget_(kGuess.budget_share * static_cast<double>(budget)) {}

  double seconds(int stages, const Split& split, ScheduleKind schedule) const {
    // A device has whole rows: 96 rows on 64 devices take as long as 128.
    const double rows = std::ceil(needs_.rows / micro_batches_ * split.tokens / split.copies);
    const double parts = split.tokens * needs_.rows / std::max(1.0, rows);  // of the batch
    double to_end = 0, slowest = 0, apply = 0;
    for (int after = 0; after < stages; ++after) {
      const int in_flight = pipeline::most_in_flight(schedule, after, stages, micro_batches_);
      LayerNeeds needs = needs_at(needs_, stages - after - 1, stages, parts);
      if (micro_batches_ == 1 && needs_.few == 1) needs.sums = 0;  // nothing to add up
      const std::optional<StageCost> stage = cheapest(needs, split, in_flight);
      if (!stage) return kInfinity;
      if (after > 0) to_end += transfer_seconds(needs.passed * split.copies, split, after);
      to_end += stage->micro_batch;
      slowest = std::max({slowest, stage->micro_batch, to_end / in_flight});
      apply = std::max(apply, stage->step);
    }
    return to_end + (micro_batches_ - 1) * slowest + apply;
  }

 private:
  /// Seconds for what crosses the end of a stage that so many are behind, there and back.
  double transfer_seconds(double bytes, const Split& split, int after) const {
    const int devices = split.mesh.num_devices();
    const int per_host = cluster_.num_devices() / cluster_.num_hosts;
    const bool in_host = after * devices % per_host != 0;
    return 2 * cost::least_transfer_seconds(bytes, devices, devices,
                                            cost::link_between(cluster_, in_host));
  }

  /// Seconds of a collective over all axes at once, or axis by axis if that takes less: the last
  /// axis has the fastest links, and leaves the others a part of the bytes.
  double collective(CollectiveKind kind, double bytes, const DeviceMesh& mesh,
                    std::span<const int> axes) const {
    using enum CollectiveKind;
    const auto seconds = [&](CollectiveKind of, std::span<const int> over) {
      return cost::collective_seconds(of, bytes, mesh, over, model_.reshard.collectives);
    };
    const double at_once = seconds(kind, axes);
    if (axes.size() < 2) return at_once;
    const std::span<const int> last = axes.last(1);
    const double of_last = kind == all_reduce
                               ? seconds(reduce_scatter, last) + seconds(all_gather, last)
                               : seconds(kind, last);
    return std::min(at_once, of_last + collective(kind, bytes / mesh.size(last.front()), mesh,
                                                  axes.first(axes.size() - 1)));
  }

  /// Seconds of so many collectives that have these bytes together.
  double collectives(CollectiveKind kind, double bytes, double count, const Split& split,
                     const std::vector<int>& axes) const {
    if (bytes <= 0 || axes.empty()) return 0;
    return count * collective(kind, bytes / count, split.mesh, axes);
  }

  StageCost cost_of(const LayerNeeds& layers, const Split& split, Holding holding,
                    int in_flight) const {
    using enum CollectiveKind;
    const double t = split.across, d = split.copies;
    // What experts' axes leave of parameters that the batch's axes do not split.
    double left = 1;
    for (const int axis : split.experts)
      left -= layers.experts / std::max(1.0, layers.parameters) * (1 - 1.0 / split.mesh.size(axis));
    const double gradients = left * (layers.sums > 0 ? layers.sums : layers.gradients);
    StageCost cost;
    // Pairs of products add their results up once forward, and once backward.
    const double runs = needs_.recomputes ? 3 : 2;
    cost.micro_batch = runs * collectives(all_reduce, layers.between / 2, layers.products / 2,
                                          split, split.tensor);
    cost.micro_batch +=
        collectives(all_reduce, layers.summed, layers.statistics, split, split.data);
    cost.micro_batch += 2 * collectives(all_to_all, layers.sent, 2, split, split.experts);
    cost.micro_batch += (layers.forward + layers.backward) / t;
    cost.step = layers.apply / (holding == Holding::whole ? t : t * d);
    if (holding >= Holding::sums)
      cost.micro_batch +=
          collectives(reduce_scatter, gradients / t, layers.tensors, split, split.data);
    else
      cost.step += collectives(all_reduce, gradients / t, layers.tensors, split, split.data);
    if (holding == Holding::all)
      cost.micro_batch += runs * collectives(all_gather, left * layers.parameters / t,
                                             layers.tensors, split, split.data);
    const auto held = [&](double bytes, Holding from) {
      return bytes * (holding >= from ? 1 / (t * d) : left / t);
    };
    cost.bytes = held(layers.state, Holding::state) + held(layers.sums, Holding::sums) +
                 held(layers.parameters, Holding::all) +
                 (in_flight * layers.kept + layers.temporaries) / t;
    return cost;
  }

  /// The least seconds of a step within the budget. Between two ways to hold tensors, some are held
  /// the one way and the others the other.
  std::optional<StageCost> cheapest(const LayerNeeds& layers, const Split& split,
                                    int in_flight) const {
    std::optional<StageCost> best, before;
    const auto consider = [&](const StageCost& cost) {
      const auto step = [&](const StageCost& of) {
        return micro_batches_ * of.micro_batch + of.step;
      };
      if (!best || step(cost) < step(*best)) best = cost;
    };
    for (const Holding holding : {Holding::whole, Holding::state, Holding::sums, Holding::all}) {
      if (holding < split.least || holding > split.most) continue;
      const StageCost cost = cost_of(layers, split, holding, in_flight);
      if (cost.bytes <= budget_) consider(cost);
      if (before && cost.bytes <= budget_ && before->bytes > budget_) {
        const double share = (before->bytes - budget_) / (before->bytes - cost.bytes);
        consider({std::lerp(before->micro_batch, cost.micro_batch, share),
                  std::lerp(before->step, cost.step, share), budget_});
      }
      before = cost;
    }
    return best;
  }

  const StepNeeds& needs_;
  const int micro_batches_;
  const Cluster& cluster_;
  const cost::CostModel& model_;
  const double budget_;
};

/// Narrows what a split may hold to what the use of an axis allows.
void narrow(AxisUse use, Split& split) {
  if (use == AxisUse::data) split.most = Holding::whole;
  if (use == AxisUse::zero1) split.least = split.most = Holding::state;
  if (use == AxisUse::zero2) split.least = Holding::state, split.most = Holding::sums;
  if (use == AxisUse::zero3) split.least = Holding::all;
}

/// Every way to give axes of the mesh to parameters or to the batch that their uses allow.
std::vector<Split> splits_of(const DeviceMesh& mesh, const std::vector<AxisUse>& uses) {
  std::vector<Split> splits;
  for (int axes = 0; axes < 1 << mesh.num_axes(); ++axes) {
    Split split{mesh, {}, {}};
    bool is_new = true;
    for (int axis = 0; axis < mesh.num_axes(); ++axis) {
      const bool tensor = axes >> axis & 1;
      const AxisUse use = axis < std::ssize(uses) ? uses[axis] : AxisUse::any;
      is_new = is_new && !(tensor && mesh.size(axis) == 1) &&
               (use == AxisUse::any || tensor == (use == AxisUse::tensor));
      narrow(use, split);
      if (use == AxisUse::context) split.tokens *= mesh.size(axis);
      if (use == AxisUse::experts) split.experts.push_back(axis);
      (tensor ? split.tensor : split.data).push_back(axis);
      (tensor ? split.across : split.copies) *= mesh.size(axis);
    }
    if (is_new) splits.push_back(std::move(split));
  }
  return splits;
}

}  // namespace

std::vector<StageGuess> guess_stages(const StepNeeds& needs, int micro_batches,
                                     const std::vector<ScheduleKind>& schedules,
                                     const Cluster& cluster, const cost::CostModel& model,
                                     std::int64_t budget, const GuessedMeshes& meshes) {
  const Guess guess(needs, micro_batches, cluster, model, budget);
  const auto layers = static_cast<int>(std::min(needs.at_few.size(), needs.at_many.size())) - 1;
  std::vector<StageGuess> guesses;
  for (int stages = 1; stages <= std::min(layers, cluster.num_devices()); ++stages) {
    if (cluster.num_devices() % stages != 0 ||
        (cluster.num_hosts % stages != 0 && stages % cluster.num_hosts != 0))
      continue;
    const Submesh part = submesh_of(cluster, cluster.num_devices() / stages);
    const int shaped =
        std::accumulate(meshes.shape.begin(), meshes.shape.end(), 1, std::multiplies<>());
    if (!meshes.shape.empty() && shaped != part.num_devices()) continue;
    std::vector<int> devices(part.num_devices());
    std::iota(devices.begin(), devices.end(), 0);
    StageGuess best{.stages = stages};
    for (const DeviceMesh& mesh : logical_meshes(cluster, part, devices, meshes.shape))
      for (const Split& split : splits_of(mesh, meshes.axis_uses))
        for (const ScheduleKind schedule : schedules)
          best.seconds = std::min(best.seconds, guess.seconds(stages, split, schedule));
    guesses.push_back(best);
  }
  return guesses;
}

}  // namespace alpa::inter_op
