// Which elementwise nodes run as one loop
#include "src/plan/facts/fusion.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "src/ir/rewrite.h"
#include "src/ops/all_ops.h"
#include "src/plan/cost/reshard.h"

namespace alpa::intra_op {
namespace {

constexpr std::size_t kMaxMembers = 32;  // of a loop

/// Properties shared by the members of a loop.
struct Space {
  Shape shape;
  ShardingSpec spec;
  Region region = Region::forward;
  bool wide = false;  ///< computed in double
  bool operator==(const Space&) const = default;
};

bool is_collective(const Node& node) { return node.op->reshard && exchanges(*node.op->reshard); }

class Grouping {
 public:
  Grouping(const Graph& graph, const std::vector<ShardingSpec>* specs)
      : graph_(graph),
        specs_(specs),
        readers_(consumers(graph)),
        group_of_(graph_.nodes.size(), -1) {}

  std::vector<std::vector<int>> run() {
    for (int n = 0; n < static_cast<int>(graph_.nodes.size()); ++n)
      if (elementwise_code(graph_.nodes[n]) >= 0) place(n);
    std::vector<std::vector<int>> groups;
    for (std::vector<int>& members : groups_)
      if (!members.empty()) groups.push_back(std::move(members));
    return groups;
  }

 private:
  Space space_of(int n) const {
    const Node& node = graph_.nodes[n];
    const int result = node.results[0];
    Space space{
        graph_.type(result).shape, {}, node.region, needs_double(graph_.type(result).dtype)};
    if (specs_) space.spec = (*specs_)[result];
    for (int value : node.operands) space.wide |= needs_double(graph_.type(value).dtype);
    return space;
  }

  int producer(int value) const { return graph_.values[value].producer; }

  /// Node n joins every group that computes one of its operands and may move to n. Later groups
  /// join first, so that earlier ones whose results only those read may follow.
  void place(int n) {
    std::vector<int> candidates;
    for (int value : graph_.nodes[n].operands)
      if (const int g = group_of_[producer(value)]; g >= 0) candidates.push_back(g);
    std::sort(candidates.begin(), candidates.end(),
              [&](int a, int b) { return groups_[a].back() > groups_[b].back(); });
    candidates.erase(std::unique(candidates.begin(), candidates.end()), candidates.end());
    const int own = static_cast<int>(groups_.size());
    groups_.push_back({n});
    group_of_[n] = own;
    for (int g : candidates)
      if (fits(g, own)) absorb(g, own);
  }

  bool fits(int g, int own) const {
    const int n = groups_[own].back();
    return groups_[g].size() + groups_[own].size() <= kMaxMembers &&
           space_of(groups_[g].front()) == space_of(n) && can_wait(g, own) &&
           !awaits_collective(g, own);
  }

  /// True if only members of `own` read group g's results before the position of `own`.
  bool can_wait(int g, int own) const {
    for (int member : groups_[g])
      for (int reader : readers_[graph_.nodes[member].results[0]]) {
        const int group = group_of_[reader];
        if (group == g || group == own) continue;
        const int stands = group >= 0 ? groups_[group].back() : reader;
        if (stands < groups_[own].back()) return false;
      }
    return true;
  }

  /// True if joining would hold group g back until a collective that comes after it has arrived.
  bool awaits_collective(int g, int own) const {
    for (int member : groups_[own])
      for (int value : graph_.nodes[member].operands)
        if (producer(value) > groups_[g].back() && is_collective(graph_.producer(value)))
          return true;
    return false;
  }

  void absorb(int g, int own) {
    for (int member : groups_[g]) group_of_[member] = own;
    groups_[own].insert(groups_[own].end(), groups_[g].begin(), groups_[g].end());
    std::sort(groups_[own].begin(), groups_[own].end());
    groups_[g].clear();
  }

  const Graph& graph_;
  const std::vector<ShardingSpec>* specs_;  ///< null: not known
  std::vector<std::vector<int>> readers_;
  /// empty once absorbed; a group takes the place of its last member
  std::vector<std::vector<int>> groups_;
  std::vector<int> group_of_;
};

/// A tensor in memory, and the dimension of the loop that each of its dimensions is.
using Tensor = std::pair<int, std::vector<int>>;

/// The loops of a graph.
struct Loops {
  std::vector<std::vector<int>> members;
  std::vector<int> of_node;   ///< -1: not elementwise
  std::vector<bool> outside;  ///< per value: read outside of the loop that computes it
};

Loops loops_of(const Graph& graph) {
  Loops loops{.members = fusion_groups(graph),
              .of_node = std::vector<int>(graph.nodes.size(), -1),
              .outside = externally_used_values(graph)};
  for (int g = 0; g < static_cast<int>(loops.members.size()); ++g)
    for (int n : loops.members[g]) loops.of_node[n] = g;
  for (std::size_t n = 0; n < graph.nodes.size(); ++n)
    for (int value : graph.nodes[n].operands)
      if (loops.of_node[n] < 0 || loops.of_node[n] != loops.of_node[graph.values[value].producer])
        loops.outside[value] = true;
  return loops;
}

bool is_inside(const Graph& graph, const Loops& loops, int value, const Node& reader) {
  const int loop = loops.of_node[graph.values[value].producer];
  return loop >= 0 && loop == loops.of_node[graph.values[reader.results[0]].producer];
}

/// True if a loop of this region repeats the value instead of reading it.
bool repeats(const Graph& graph, int value, Region region) {
  return graph.producer(value).op == &ops::broadcast && graph.producer(value).region == region;
}

/// The tensor that broadcasts repeat as `value`, per dimension the one of the value; -1: repeated.
Tensor behind_broadcasts(const Graph& graph, int value, Region region) {
  Tensor tensor{value, std::vector<int>(graph.type(value).rank())};
  std::iota(tensor.second.begin(), tensor.second.end(), 0);
  while (repeats(graph, tensor.first, region)) {
    const Node& broadcast = graph.producer(tensor.first);
    std::vector<int> kept;
    const Shape& shape = graph.type(broadcast.operands[0]).shape;
    const std::vector<std::int64_t>& to = broadcast.attributes.integers("dims");
    for (std::size_t d = 0; d < shape.size(); ++d)
      kept.push_back(shape[d] == 1 ? -1 : tensor.second[to[d]]);
    tensor = {broadcast.operands[0], std::move(kept)};
  }
  return tensor;
}

/// How a member of a loop reads an operand. `known`: what its loop has read so far.
LoopRead loop_read(const Graph& graph, const Loops& loops, int value, const Node& node,
                   std::vector<Tensor>& known) {
  if (is_inside(graph, loops, value, node)) return {LoopRead::Kind::inside, {}};
  Tensor tensor = behind_broadcasts(graph, value, node.region);
  std::vector<int>& dims = tensor.second;
  std::erase(dims, -1);
  if (graph.producer(tensor.first).op == &ops::constant) return {LoopRead::Kind::nothing, {}};
  const LoopRead read =
      tensor.first == value ? LoopRead{} : LoopRead{LoopRead::Kind::through, dims};
  const int first = graph.type(node.results[0]).rank() - graph.type(value).rank();
  for (int& d : dims) d += first;
  if (std::find(known.begin(), known.end(), tensor) != known.end())
    return {LoopRead::Kind::nothing, {}};
  known.push_back(std::move(tensor));
  return read;
}

void share_loop(const Graph& graph, const Loops& loops, const std::vector<int>& members,
                std::vector<LoopShare>& shares) {
  std::vector<Tensor> known;
  for (int n : members) {
    const Node& node = graph.nodes[n];
    LoopShare& share = shares[n];
    share.launches = n == members.back();
    share.writes = {static_cast<bool>(loops.outside[node.results[0]])};
    for (int value : node.operands)
      share.reads.push_back(loop_read(graph, loops, value, node, known));
  }
}

/// Per node, true for a broadcast or constant that only loops read.
std::vector<bool> vanishing(const Graph& graph, const Loops& loops) {
  std::vector<bool> whole = externally_used_values(graph);  // read, and not only through loops
  std::vector<bool> result(graph.nodes.size(), false);
  for (std::size_t n = graph.nodes.size(); n-- > 0;) {
    const Node& node = graph.nodes[n];
    const bool may = node.op == &ops::constant || node.op == &ops::broadcast;
    result[n] = may && !whole[node.results[0]];
    for (int value : node.operands) {
      const bool repeated =
          result[n] || (loops.of_node[n] >= 0 && (repeats(graph, value, node.region) ||
                                                  graph.producer(value).op == &ops::constant));
      if (!repeated) whole[value] = true;
    }
  }
  return result;
}

}  // namespace

std::vector<std::vector<int>> fusion_groups(const Graph& graph,
                                            const std::vector<ShardingSpec>* specs) {
  return Grouping(graph, specs).run();
}

std::vector<LoopShare> loop_shares(const Graph& graph) {
  const Loops loops = loops_of(graph);
  const std::vector<bool> vanishes = vanishing(graph, loops);
  std::vector<LoopShare> shares(graph.nodes.size());
  for (const std::vector<int>& members : loops.members) share_loop(graph, loops, members, shares);
  for (std::size_t n = 0; n < shares.size(); ++n) shares[n].vanishes = vanishes[n];
  return shares;
}

}  // namespace alpa::intra_op
