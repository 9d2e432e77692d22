// src/intra_op/fusion.cc — which elementwise nodes run as one loop
#include "src/intra_op/fusion.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "src/cost/reshard.h"
#include "src/ops/all_ops.h"

namespace alpa {
namespace {

constexpr int kMaxMembers = 32;

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

class Sharing {
 public:
  explicit Sharing(const Graph& graph)
      : graph_(graph), shares_(graph.nodes.size()), group_of_(graph.nodes.size(), -1) {}

  std::vector<LoopShare> run() && {
    const std::vector<std::vector<int>> groups = fusion_groups(graph_);
    for (int g = 0; g < static_cast<int>(groups.size()); ++g)
      for (int n : groups[g]) group_of_[n] = g;
    find_outside();
    for (const std::vector<int>& group : groups) share(group);
    for (int n = static_cast<int>(graph_.nodes.size()); n-- > 0;) shares_[n].vanishes = vanishes(n);
    return std::move(shares_);
  }

 private:
  bool repeats(int value, Region region) const {
    return graph_.producer(value).op == &ops::broadcast && graph_.producer(value).region == region;
  }

  /// Values with a reader outside of the loop that computes them.
  void find_outside() {
    outside_.assign(graph_.values.size(), false);
    read_whole_.assign(graph_.values.size(), false);
    for (int n = 0; n < static_cast<int>(graph_.nodes.size()); ++n)
      for (int value : graph_.nodes[n].operands)
        if (group_of_[n] < 0 || group_of_[n] != group_of_[graph_.values[value].producer])
          outside_[value] = true;
    for (const Update& update : graph_.updates)
      outside_[update.value] = read_whole_[update.value] = true;
    for (const Metric& metric : graph_.metrics)
      outside_[metric.value] = read_whole_[metric.value] = true;
    for (const Output& output : graph_.outputs)
      outside_[output.value] = read_whole_[output.value] = true;
  }

  void share(const std::vector<int>& group) {
    std::vector<Tensor> known;
    for (int n : group) {
      const Node& node = graph_.nodes[n];
      LoopShare& share = shares_[n];
      share.launches = n == group.back();
      share.writes = {static_cast<bool>(outside_[node.results[0]])};
      for (int value : node.operands) share.reads.push_back(read(value, node, known));
    }
  }

  /// Through broadcasts, innermost last.
  LoopRead read(int value, const Node& node, std::vector<Tensor>& known) const {
    if (group_of_[graph_.values[value].producer] >= 0 &&
        group_of_[graph_.values[value].producer] ==
            group_of_[graph_.values[node.results[0]].producer])
      return {LoopRead::Kind::inside, {}};
    const int rank = graph_.type(value).rank(), first = graph_.type(node.results[0]).rank() - rank;
    std::vector<int> dims(rank);
    std::iota(dims.begin(), dims.end(), 0);
    int behind = value;
    while (repeats(behind, node.region)) {
      const Node& broadcast = graph_.producer(behind);
      std::vector<int> kept;
      const Shape& shape = graph_.type(broadcast.operands[0]).shape;
      const std::vector<std::int64_t>& to = broadcast.attributes.integers("dims");
      for (std::size_t d = 0; d < shape.size(); ++d)
        kept.push_back(shape[d] == 1 ? -1 : dims[to[d]]);
      dims = std::move(kept);
      behind = broadcast.operands[0];
    }
    std::erase(dims, -1);
    if (graph_.producer(behind).op == &ops::constant) return {LoopRead::Kind::nothing, {}};
    Tensor tensor{behind, dims};
    for (int& d : tensor.second) d += first;
    if (std::find(known.begin(), known.end(), tensor) != known.end())
      return {LoopRead::Kind::nothing, {}};
    known.push_back(std::move(tensor));
    return behind == value ? LoopRead{} : LoopRead{LoopRead::Kind::through, std::move(dims)};
  }

  /// True for a broadcast or constant that only loops read. Nodes are visited last first.
  bool vanishes(int n) {
    const Node& node = graph_.nodes[n];
    const bool may = node.op == &ops::constant || node.op == &ops::broadcast;
    const bool gone = may && !read_whole_[node.results[0]];
    if (gone && node.op == &ops::constant) return true;
    for (int value : node.operands) {
      const bool repeated =
          gone || (group_of_[n] >= 0 &&
                   (repeats(value, node.region) || graph_.producer(value).op == &ops::constant));
      if (!repeated) read_whole_[value] = true;
    }
    return gone;
  }

  const Graph& graph_;
  std::vector<LoopShare> shares_;
  std::vector<int> group_of_;     ///< per node; -1: not elementwise
  std::vector<bool> outside_;     ///< per value
  std::vector<bool> read_whole_;  ///< per value: not only through loops
};

}  // namespace

std::vector<std::vector<int>> fusion_groups(const Graph& graph,
                                            const std::vector<ShardingSpec>* specs) {
  return Grouping(graph, specs).run();
}

std::vector<LoopShare> loop_shares(const Graph& graph) { return Sharing(graph).run(); }

}  // namespace alpa
