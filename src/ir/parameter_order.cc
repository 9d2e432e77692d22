// Orders parameters and numbers layers by the graph alone, whatever the
// order in which a compiler evaluates operands
#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "src/ir/recorder.h"

namespace alpa {
namespace {

/// Per node, its place when `roots` are computed depth first, operands from left to right; the
/// largest number for nodes that they do not need. Without recursion: models may be deep.
std::vector<int> places(const Recorder& builder, const Values& roots) {
  std::vector<int> place(static_cast<std::size_t>(builder.num_nodes()),
                         std::numeric_limits<int>::max());
  std::vector<bool> seen(place.size(), false);
  struct Visit {
    int node;
    std::size_t next = 0;  ///< operand
  };
  std::vector<Visit> open;
  const auto visit = [&](int value) {
    const int node = builder.producer(value);
    if (!seen[node]) open.push_back({node});
    seen[node] = true;
  };
  int count = 0;
  for (const Value& root : roots)
    for (visit(root.id); !open.empty();) {
      const std::vector<int>& operands = builder.node(open.back().node).operands;
      if (open.back().next < operands.size()) {
        visit(operands[open.back().next++]);
        continue;
      }
      place[open.back().node] = count++;
      open.pop_back();
    }
  return place;
}

/// Per value, where it is first read: a place and the number of the operand.
std::vector<std::pair<int, std::size_t>> first_uses(const Recorder& builder, const Values& roots,
                                                    std::size_t num_values) {
  std::vector<std::pair<int, std::size_t>> uses(num_values, {std::numeric_limits<int>::max(), 0});
  const std::vector<int> place = places(builder, roots);
  for (int n = 0; n < builder.num_nodes(); ++n) {
    const std::vector<int>& operands = builder.node(n).operands;
    for (std::size_t i = 0; i < operands.size(); ++i)
      uses[operands[i]] = std::min(uses[operands[i]], {place[n], i});
  }
  return uses;
}

/// "a/b/c" with parts replaced.
std::string with_parts(const std::string& name, const std::map<std::string, std::string>& renamed) {
  std::string result;
  for (std::size_t start = 0; start <= name.size();) {
    const std::size_t end = std::min(name.find('/', start), name.size());
    const std::string part = name.substr(start, end - start);
    const auto found = renamed.find(part);
    result += (start == 0 ? "" : "/") + (found == renamed.end() ? part : found->second);
    start = end + 1;
  }
  return result;
}

}  // namespace

void Recorder::order_parameters(const Values& roots) {
  const auto uses = first_uses(*this, roots, values_.size());
  const auto earlier = [&](int a, int b) { return uses[a] < uses[b]; };
  std::vector<int> order;
  for (int i = 0; i < static_cast<int>(inputs_.size()); ++i)
    if (inputs_[i].kind == InputKind::state && inputs_[i].of.empty()) order.push_back(i);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return earlier(inputs_[a].value, inputs_[b].value); });
  std::stable_sort(parameters_.begin(), parameters_.end(),
                   [&](const Value& a, const Value& b) { return earlier(a.id, b.id); });
  parameter_order_.clear();
  for (int input : order) parameter_order_.push_back(inputs_[input].value);
  number_layers(order);
}

void Recorder::number_layers(const std::vector<int>& order) {
  std::map<int, int> uses;
  for (std::size_t place = 0; place < order.size(); ++place)
    if (const auto layer = layer_of_input_.find(order[place]); layer != layer_of_input_.end())
      uses.emplace(layer->second, static_cast<int>(place));
  std::map<int, std::size_t> lengths;  // of the paths until now, by input
  for (const auto& [input, layer] : layer_of_input_) lengths[input] = names_.path(layer).size();
  const std::map<std::string, std::string> renamed = names_.renumber(uses);
  if (renamed.empty()) return;
  for (Node& node : nodes_)
    if (!node.operands.empty()) node.name = with_parts(node.name, renamed);
  std::map<std::string, std::string> names;
  for (const auto& [input, layer] : layer_of_input_) {
    const std::string before = inputs_[input].name;
    names[before] = names_.path(layer) + before.substr(lengths[input]);
    inputs_[input].name = nodes_[producer(inputs_[input].value)].name = names[before];
  }
  for (Input& input : inputs_)
    if (const auto owner = names.find(input.of); owner != names.end()) input.of = owner->second;
  input_by_name_.clear();
  for (std::size_t i = 0; i < inputs_.size(); ++i)
    input_by_name_[inputs_[i].name] = static_cast<int>(i);
}

std::vector<Node> Recorder::take_ordered_nodes() {
  std::vector<Node> nodes;
  nodes.reserve(nodes_.size());
  // From the last parameter on: each goes where it is, or right before its successor. node →
  // parameters that come right before it, last first
  std::map<int, std::vector<int>> before;
  std::set<int> moved;
  int place = num_nodes();
  for (auto value = parameter_order_.rbegin(); value != parameter_order_.rend(); ++value) {
    const int node = producer(*value);
    if (node < place) {
      place = node;
      continue;
    }
    before[place].push_back(node);
    moved.insert(node);
  }
  for (int n = 0; n < num_nodes(); ++n) {
    if (const auto earlier = before.find(n); earlier != before.end())
      for (auto node = earlier->second.rbegin(); node != earlier->second.rend(); ++node)
        nodes.push_back(std::move(nodes_[*node]));
    if (!moved.count(n)) nodes.push_back(std::move(nodes_[n]));
  }
  return nodes;
}

}  // namespace alpa
