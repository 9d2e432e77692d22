// src/spmd/prefetch_gathers.cc — starts gathers of state ahead of the work that reads them
#include <algorithm>
#include <map>
#include <utility>

#include "live_bytes.h"
#include "rewrite.h"
#include "src/ir/input.h"
#include "src/ir/op_def.h"

namespace alpa::spmd {
namespace {

bool is_gather(const Node& node) {
  return node.op->reshard && gathers(*node.op->reshard) && !node.attributes.contains(kOnce);
}

/// Limit on the bytes gathered ahead, in units of the largest gather. The matrices of a layer are
/// of similar size, and its vectors come along.
constexpr std::int64_t kLargestAhead = 2;

class Prefetching {
 public:
  Prefetching(const SpmdProgram& program, std::int64_t slack_bytes)
      : program_(program),
        graph_(program.graph),
        live_(program, slack_bytes),
        readers_(consumers(graph_)),
        inputs_(graph_.values.size(), nullptr),
        gathers_state_(graph_.nodes.size(), false),
        first_use_(graph_.nodes.size(), 0),
        place_(graph_.nodes.size(), -1) {
    for (const Input& input : graph_.inputs) inputs_[input.value] = &input;
    for (int n = static_cast<int>(graph_.nodes.size()) - 1; n >= 0; --n)
      first_use_[n] = find_first_use(n);
    for (int n = 0; n < static_cast<int>(graph_.nodes.size()); ++n) {
      gathers_state_[n] = finds_state(n);
      if (gathers_state_[n]) window_ = std::max(window_, kLargestAhead * live_.allocated_by(n));
    }
  }

  SpmdProgram run() {
    for (int n = 0; n < static_cast<int>(graph_.nodes.size()); ++n)
      if (gathers_state_[n]) move(n);
    std::vector<Node> nodes;
    for (int n = 0; n < static_cast<int>(graph_.nodes.size()); ++n) {
      for (int gather : moved_[n]) nodes.push_back(graph_.nodes[gather]);
      if (place_[n] < 0) nodes.push_back(graph_.nodes[n]);
    }
    return with_nodes(program_, with_inputs_first(graph_, nodes));
  }

 private:
  /// True if node n gathers state, or gathers further what another node has gathered of it. The
  /// entries of `gathers_state_` before n must be known.
  bool finds_state(int n) const {
    const Node& node = graph_.nodes[n];
    return is_gather(node) && std::ranges::all_of(node.operands, [&](int value) {
             const Input* input = inputs_[value];
             return input ? input->kind == InputKind::state
                          : gathers_state_[graph_.values[value].producer];
           });
  }

  /// The first node that reads a result, other than to gather it along another axis; those of later
  /// nodes are known.
  int find_first_use(int n) const {
    int first = static_cast<int>(graph_.nodes.size());
    for (int value : graph_.nodes[n].results)
      for (int reader : readers_[value])
        first = std::min(first, is_gather(graph_.nodes[reader]) ? first_use_[reader] : reader);
    return first;
  }

  /// True if node n gathers further what another node has gathered.
  bool continues(int n) const {
    return std::ranges::any_of(graph_.nodes[n].operands,
                               [&](int value) { return is_gather(graph_.producer(value)); });
  }

  /// The first place at which its operands are there.
  int first_place(int n) const {
    int first = 0;
    for (int value : graph_.nodes[n].operands) {
      const int producer = graph_.values[value].producer;
      if (inputs_[value] == nullptr)
        first = std::max(first, place_[producer] >= 0 ? place_[producer] : producer + 1);
    }
    return first;
  }

  bool moves(int n, int to) {
    if (to >= n || first_place(n) > to || !live_.grow(n, {{to, n, live_.allocated_by(n)}}))
      return false;
    place_[n] = to;
    moved_[to].push_back(n);
    return true;
  }

  /// Moves gather n to the first use of the earliest gather behind which no more than the window is
  /// under way; if it cannot move there, to that of a later one.
  void move(int n) {
    const Node& node = graph_.nodes[n];
    std::vector<Gather>& before = before_[{program_.mesh_index(node.results[0]), node.region}];
    if (continues(n)) {
      moves(n, first_place(n));
      return;
    }
    const std::int64_t bytes = live_.allocated_by(n);
    std::int64_t under_way = bytes;
    std::size_t place = before.size();
    while (place > 0 && under_way <= window_) under_way += before[--place].bytes;
    while (place < before.size() && !moves(n, before[place].use)) ++place;
    before.push_back({first_use_[n], bytes});
  }

  struct Gather {
    int use;
    std::int64_t bytes;
  };

  const SpmdProgram& program_;
  const Graph& graph_;
  LiveBytes live_;
  const std::vector<std::vector<int>> readers_;
  std::vector<const Input*> inputs_;  ///< per value; null: a node makes it
  std::vector<bool> gathers_state_;   ///< per node
  std::vector<int> first_use_;        ///< per node
  std::int64_t window_ = 0;
  std::vector<int> place_;                 ///< per node: before which it is moved; -1: it stays
  std::map<int, std::vector<int>> moved_;  ///< by that node
  std::map<std::pair<int, Region>, std::vector<Gather>> before_;  ///< by mesh and region
};

}  // namespace

SpmdProgram prefetch_gathers(const SpmdProgram& program, std::int64_t slack_bytes) {
  return Prefetching(program, slack_bytes).run();
}

}  // namespace alpa::spmd
