// Groups nodes that are alike, so that they share one rule
#include "src/plan/facts/node_classes.h"

#include <algorithm>
#include <functional>
#include <map>

#include "src/ops/all_ops.h"

namespace alpa::intra_op {
namespace {

std::size_t hash_of(const Graph& graph, const Node& node) {
  std::size_t hash = std::hash<const void*>()(node.op);
  const auto mix = [&](std::size_t more) {
    hash = (hash ^ more) * 0x9e3779b97f4a7c15 + (hash >> 29);
  };
  for (int value : node.operands) {
    mix(static_cast<std::size_t>(graph.type(value).dtype));
    for (std::int64_t extent : graph.type(value).shape) mix(static_cast<std::size_t>(extent));
  }
  for (const auto& [name, value] : node.attributes.items()) {
    if (const auto* text = std::get_if<std::string>(&value)) mix(std::hash<std::string>()(*text));
    if (const auto* list = std::get_if<std::vector<std::int64_t>>(&value)) {
      for (std::int64_t number : *list) mix(static_cast<std::size_t>(number));
    }
  }
  return hash;
}

/// Equal except for the stream of random numbers.
bool alike(const Attributes& a, const Attributes& b) {
  return std::equal(a.items().begin(), a.items().end(), b.items().begin(), b.items().end(),
                    [](const auto& x, const auto& y) {
                      return x.first == y.first &&
                             (x.first == kStreamAttribute || x.second == y.second);
                    });
}

/// Bytes that a member of a loop reads from memory and writes there.
double moved_bytes(const NodeClass& node, const LoopShare& share, const std::vector<int>& factors,
                   const DeviceMesh& mesh) {
  Rule moved;
  moved.factors = node.rule.factors;
  std::vector<TensorType> operands, results;
  for (std::size_t j = 0; j < share.reads.size(); ++j) {
    const LoopRead& read = share.reads[j];
    if (read.kind != LoopRead::Kind::memory && read.kind != LoopRead::Kind::through) continue;
    DimFactors dims = node.rule.operands[j];
    if (read.kind == LoopRead::Kind::through) {
      dims.clear();
      for (int d : read.dims) dims.push_back(node.rule.operands[j][d]);
    }
    moved.operands.push_back(std::move(dims));
    operands.push_back(node.operands[j]);
  }
  for (std::size_t i = 0; i < share.writes.size(); ++i) {
    if (!share.writes[i]) continue;
    moved.results.push_back(node.rule.results[i]);
    results.push_back(node.results[i]);
  }
  return cost::operator_bytes(moved, factors, operands, results, mesh);
}

void add_shares(const std::vector<LoopShare>& shares, NodeClasses& classes) {
  std::map<LoopShare, int> numbers;
  for (const LoopShare& share : shares) {
    const auto [place, added] = numbers.try_emplace(share, static_cast<int>(classes.shares.size()));
    classes.share_of_node.push_back(place->second);
    if (added) classes.shares.push_back(share);
  }
}

/// True for inputs that are copied from the host's array for every micro-batch.
bool is_loaded(const NodeClass& input) {
  const std::string& kind = input.attributes->string("kind");
  return kind == name_of(InputKind::batch) || kind == name_of(InputKind::shared);
}

bool is_free(const NodeClass& node, const LoopShare& share) {
  return share.vanishes || node.op->work == Work::free ||
         (node.op == &ops::input && !is_loaded(node));
}

}  // namespace

int KnownRules::number(const Graph& graph, const Node& node) {
  const std::size_t hash = hash_of(graph, node);
  const auto [begin, end] = by_hash_.equal_range(hash);
  const auto same = std::find_if(begin, end, [&](const auto& entry) {
    const Known& known = classes_[entry.second];
    return known.op == node.op &&
           std::equal(
               node.operands.begin(), node.operands.end(), known.operands.begin(),
               known.operands.end(),
               [&](int value, const TensorType& type) { return graph.type(value) == type; }) &&
           alike(known.attributes, node.attributes);
  });
  if (same != end) return same->second;
  by_hash_.emplace(hash, size());
  std::vector<TensorType> operands = operand_types(graph, node);
  Rule rule = rule_of(*node.op, {operands, node.attributes, node.op});
  classes_.push_back({node.op, node.attributes, std::move(operands), std::move(rule)});
  return size() - 1;
}

NodeClasses classify(const Graph& graph, KnownRules* known, const std::vector<LoopShare>* shares) {
  KnownRules own;
  KnownRules& rules = known ? *known : own;
  NodeClasses result;
  result.of_node.reserve(graph.nodes.size());
  add_shares(shares ? *shares : loop_shares(graph), result);
  std::unordered_map<int, int> numbers;  // of classes, by those of their rules
  for (const Node& node : graph.nodes) {
    const int rule = rules.number(graph, node);
    const auto [place, added] = numbers.try_emplace(rule, static_cast<int>(result.classes.size()));
    result.of_node.push_back(place->second);
    if (!added) continue;
    result.classes.push_back(
        {node.op, &node.attributes, operand_types(graph, node), {}, rules.of(rule), rule});
    for (int value : node.results) result.classes.back().results.push_back(graph.type(value));
  }
  return result;
}

double node_seconds(const NodeClass& node, const LoopShare& share, const Strategy& strategy,
                    const DeviceMesh& mesh, const cost::CostModel& model) {
  if (is_free(node, share)) return 0;
  const bool input = node.op == &ops::input;
  const std::vector<int> factors = factor_of_axis(strategy, mesh);
  if (share.reads.empty() && share.writes.empty()) {
    const double seconds =
        operator_seconds(node.rule, factors, node.operands, node.results, mesh, model);
    // loading reads what it writes
    return input ? 2 * seconds - model.device.launch_seconds : seconds;
  }
  double seconds = operator_seconds(node.rule, factors, node.operands, node.results, mesh, model,
                                    moved_bytes(node, share, factors, mesh));
  if (!share.launches) seconds -= model.device.launch_seconds;
  const ShardingSpec result = result_spec(node.rule, strategy, mesh);
  for (std::size_t j = 0; j < share.reads.size(); ++j)
    if (share.reads_inside(static_cast<int>(j)))
      seconds +=
          cut_seconds(node.operands[j], result,
                      operand_spec(node.rule, strategy, mesh, static_cast<int>(j)), mesh, model);
  return seconds;
}

cost::LeastSeconds least_node_seconds(const NodeClass& node, const LoopShare& share,
                                      int most_devices, const cost::CostModel& model) {
  if (is_free(node, share)) return {};
  const DeviceMesh whole({{"x", 1, 0, 0}}, {0});
  const std::vector<int> unsplit = {-1};
  const bool in_loop = !share.reads.empty() || !share.writes.empty();
  double bytes = in_loop
                     ? moved_bytes(node, share, unsplit, whole)
                     : cost::operator_bytes(node.rule, unsplit, node.operands, node.results, whole);
  if (node.op == &ops::input) bytes *= 2;  // loading reads what it writes
  cost::LeastSeconds least =
      least_operator_seconds(node.rule, node.operands, node.results, most_devices, model, bytes);
  if (in_loop && !share.launches) least.own = 0;
  return least;
}

double cut_seconds(const TensorType& type, const ShardingSpec& have, const ShardingSpec& wanted,
                   const DeviceMesh& mesh, const cost::CostModel& model) {
  if (have == wanted) return 0;
  const double bandwidth = model.device.memory_bytes_per_second;
  const double bytes =
      static_cast<double>(shard_bytes(type, have, mesh) + shard_bytes(type, wanted, mesh));
  return model.device.launch_seconds + (bandwidth > 0 ? bytes / bandwidth : 0);
}

double cuts_before(int n, const Graph& graph, const NodeClasses& classes,
                   const std::vector<Strategy>& strategies, const DeviceMesh& mesh,
                   const cost::CostModel& model) {
  double seconds = 0;
  const LoopShare& share = classes.share_of(n);
  for (int j = 0; j < static_cast<int>(share.reads.size()); ++j) {
    if (!share.reads_inside(j)) continue;
    const int value = graph.nodes[n].operands[j], producer = graph.values[value].producer;
    seconds += cut_seconds(graph.type(value),
                           result_spec(classes.of(producer).rule, strategies[producer], mesh),
                           operand_spec(classes.of(n).rule, strategies[n], mesh, j), mesh, model);
  }
  return seconds;
}

}  // namespace alpa::intra_op
