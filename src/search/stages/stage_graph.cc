// src/search/stages/stage_graph.cc — gives every stage the sums of the gradients that it makes
#include "src/search/stages/stage_graph.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "src/ir/input.h"
#include "src/ir/op_def.h"
#include "src/ir/rewrite.h"
#include "src/ir/stages.h"
#include "src/ops/all_ops.h"

namespace alpa {
namespace {

/// A sum over micro-batches whose terms are made by several stages.
struct SharedSum {
  Update update;
  int home = 0;                           ///< the stage of the accumulator
  std::map<int, std::vector<int>> terms;  ///< values, by stage
};

class Splitting {
 public:
  explicit Splitting(const Graph& staged)
      : graph_(staged),
        result_(staged),
        readers_(consumers(staged)),
        taken_(externally_used_values(staged)) {
    for (const Update& update : staged.updates)
      if (std::optional<SharedSum> sum = shared_sum(update)) sums_.push_back(*std::move(sum));
  }

  Graph run() && {
    if (sums_.empty()) return graph_;
    for (const SharedSum& sum : sums_) split(sum);
    std::vector<Node> nodes;
    for (int n = 0; n < static_cast<int>(graph_.nodes.size()); ++n) {
      for (Node& node : before_[n]) nodes.push_back(std::move(node));
      Node node = graph_.nodes[n];
      if (node.region == Region::apply)
        for (int& value : node.operands) value = read_in_apply(value);
      nodes.push_back(std::move(node));
    }
    for (Node& node : before_[static_cast<int>(graph_.nodes.size())])
      nodes.push_back(std::move(node));
    for (Update& update : result_.updates) update.value = moved(new_content_, update.value);
    for (Metric& metric : result_.metrics) metric.value = read_in_apply(metric.value);
    Graph graph = with_nodes(result_, std::move(nodes)).graph;
    std::sort(graph.inputs.begin(), graph.inputs.end(),
              [](const Input& a, const Input& b) { return a.value < b.value; });
    return graph;
  }

 private:
  static int moved(const std::map<int, int>& to, int value) {
    const auto found = to.find(value);
    return found == to.end() ? value : found->second;
  }
  int read_in_apply(int value) const { return moved(total_, moved(new_content_, value)); }

  /// The node behind a value that nothing but one other node reads, if it only adds or widens.
  const Node* sum_behind(int value) const {
    const Node& node = graph_.producer(value);
    const bool alone = readers_[value].size() == 1 && !taken_[value];
    const auto fits = [&](int operand) {
      return graph_.type(operand).shape == graph_.type(value).shape &&
             size_of(graph_.type(operand).dtype) <= size_of(graph_.type(value).dtype);
    };
    const bool passes = node.op == &ops::add || node.op == &ops::cast;
    const bool all_fit = std::all_of(node.operands.begin(), node.operands.end(), fits);
    return alone && passes && all_fit && node.region == Region::backward ? &node : nullptr;
  }

  void add_terms(int value, std::vector<int>& terms) const {
    if (const Node* node = sum_behind(value))
      for (int operand : node->operands) add_terms(operand, terms);
    else
      terms.push_back(value);
  }

  /// None if one stage makes all that is added, or something reads a part of the sum.
  std::optional<SharedSum> shared_sum(const Update& update) const {
    const Input* input = find_input(graph_, update.input);
    const Node& after = graph_.producer(update.value);
    const auto in_apply = [&](int n) { return graph_.nodes[n].region == Region::apply; };
    if (!input || input->kind != InputKind::accumulator || after.op != &ops::add ||
        after.region != Region::backward || readers_[update.input].size() != 1 ||
        !std::all_of(readers_[update.value].begin(), readers_[update.value].end(), in_apply))
      return {};
    SharedSum sum{update, after.layer, {}};
    std::vector<int> terms;
    for (int operand : after.operands)
      if (operand != update.input) add_terms(operand, terms);
    for (int term : terms) {
      if (graph_.producer(term).region != Region::backward) return {};
      sum.terms[graph_.producer(term).layer].push_back(term);
    }
    return sum.terms.size() > 1 && sum.terms.contains(sum.home) ? std::optional(sum) : std::nullopt;
  }

  /// Adds a node before node `at` of the graph. Returns its result.
  int add(int at, Node node, const TensorType& type) {
    node.results = {static_cast<int>(result_.values.size())};
    result_.values.push_back({type, -1, 0});
    before_[at].push_back(std::move(node));
    return before_[at].back().results[0];
  }

  /// A node that adds, or passes on, values on a stage.
  static Node node_of(const OpDef& op, std::vector<int> operands, Region region, int stage,
                      std::string name) {
    Node node;
    node.op = &op;
    node.operands = std::move(operands);
    node.name = std::move(name);
    node.region = region;
    node.layer = stage;
    return node;
  }

  /// What a stage adds to its accumulator: its terms in the accumulator's type.
  int term_of(int at, const SharedSum& sum, int stage) {
    const TensorType& type = graph_.type(sum.update.input);
    const std::string name =
        fmt::format("{}.stage{}.", graph_.producer(sum.update.value).name, stage);
    int total = -1;
    for (int term : sum.terms.at(stage)) {
      if (graph_.type(term).dtype != type.dtype) {
        Node cast = node_of(ops::cast, {term}, Region::backward, stage, name + "cast");
        cast.attributes = {{"to", type.dtype}};
        term = add(at, std::move(cast), type);
      }
      total = total < 0
                  ? term
                  : add(at, node_of(ops::add, {total, term}, Region::backward, stage, name + "add"),
                        type);
    }
    return total;
  }

  /// The stage's sum with this micro-batch's terms.
  int accumulated(const SharedSum& sum, int stage, int at, int accumulator) {
    Node after = graph_.producer(sum.update.value);
    after.operands = {accumulator, term_of(at, sum, stage)};
    after.layer = stage;
    if (stage != sum.home) after.name += fmt::format(".stage{}", stage);
    return add(at, std::move(after), graph_.type(sum.update.input));
  }

  /// An accumulator of the stage, which is the accumulator's before the first node of the stage
  /// that uses it.
  int own_accumulator(const SharedSum& sum, int stage, int at) {
    Node node = graph_.producer(sum.update.input);
    node.layer = stage;
    node.name += fmt::format(".stage{}", stage);
    Input input = *find_input(graph_, sum.update.input);
    input.name = node.name;
    input.value = add(at, std::move(node), graph_.type(sum.update.input));
    result_.inputs.push_back(input);
    return input.value;
  }

  void split(const SharedSum& sum) {
    const Node& after = graph_.producer(sum.update.value);
    const TensorType& type = graph_.type(sum.update.input);
    const int there = graph_.values[sum.update.value].producer, once = first_in_apply(sum);
    int total = new_content_[sum.update.value] =
        accumulated(sum, sum.home, there, sum.update.input);
    for (const auto& [stage, terms] : sum.terms) {
      if (stage == sum.home) continue;
      int last = 0;
      for (int term : terms) last = std::max(last, graph_.values[term].producer);
      const int own = own_accumulator(sum, stage, last + 1);
      const int value = accumulated(sum, stage, last + 1, own);
      result_.updates.push_back({own, value});
      // A sum has the layout of its accumulator; what is sent has a layout of its own.
      const std::string name = fmt::format("{}.stage{}", after.name, stage);
      const int sent = add(
          once, node_of(ops::stop_gradient, {value}, Region::apply, stage, name + ".sum"), type);
      total =
          add(once, node_of(ops::add, {total, sent}, Region::apply, sum.home, name + ".add"), type);
    }
    total_[new_content_[sum.update.value]] = total;
  }

  /// Where the sum is first read once per step; the graph's end if nowhere.
  int first_in_apply(const SharedSum& sum) const {
    for (int reader : readers_[sum.update.value])
      if (graph_.nodes[reader].region == Region::apply) return reader;
    return static_cast<int>(graph_.nodes.size());
  }

  const Graph& graph_;
  Graph result_;
  const std::vector<std::vector<int>> readers_;  ///< per value
  const std::vector<bool> taken_;                ///< per value, by an update, a metric or an output
  std::vector<SharedSum> sums_;
  std::map<int, std::vector<Node>> before_;  ///< new nodes, by the node behind them
  std::map<int, int> new_content_;           ///< of accumulators: the value that replaces another
  std::map<int, int> total_;                 ///< of all stages, by the sum of the first
};

}  // namespace

Graph stage_graph(const Graph& graph, const std::vector<int>& stage_of_layer) {
  return Splitting(with_stages(graph, stage_of_layer)).run();
}

}  // namespace alpa
