// src/spmd/fuse_elementwise.cc — elementwise nodes of one iteration space into one node
#include <algorithm>

#include "alpa/ops/all_ops.h"
#include "fuse_group.h"
#include "rewrite.h"

namespace alpa {
namespace {

constexpr int kMaxMembers = 32;

/// Which nodes run together: what members of a group have in common.
struct Space {
  Shape shape;
  ShardingSpec spec;
  Region region = Region::forward;
  bool wide = false;  ///< computed in double
  bool operator==(const Space&) const = default;
};

bool is_wide(DType dtype) { return dtype == f64 || dtype == i32; }

class Grouping {
 public:
  explicit Grouping(const SpmdProgram& program)
      : program_(program),
        graph_(program.graph),
        readers_(consumers(program.graph)),
        group_of_(graph_.nodes.size(), -1) {}

  /// Groups of node numbers, ascending; every elementwise node is in one.
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
    Space space{graph_.type(result).shape, program_.specs[result], node.region,
                is_wide(graph_.type(result).dtype)};
    for (int value : node.operands) space.wide |= is_wide(graph_.type(value).dtype);
    return space;
  }

  int producer(int value) const { return graph_.values[value].producer; }

  /// Node n joins every group that made one of its operands and may stand here, at n: later groups first,
  /// so that earlier ones whose results only those read may follow.
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
           space_of(groups_[g].front()) == space_of(n) && can_wait(g, own) && !awaits_collective(g, own);
  }

  /// True if nothing but the members of `own` reads group g's results before `own` stands.
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
        if (producer(value) > groups_[g].back() && is_collective(graph_.nodes[producer(value)]))
          return true;
    return false;
  }

  void absorb(int g, int own) {
    for (int member : groups_[g]) group_of_[member] = own;
    groups_[own].insert(groups_[own].end(), groups_[g].begin(), groups_[g].end());
    std::sort(groups_[own].begin(), groups_[own].end());
    groups_[g].clear();
  }

  const SpmdProgram& program_;
  const Graph& graph_;
  std::vector<std::vector<int>> readers_;
  std::vector<std::vector<int>>
      groups_;  ///< empty once absorbed; a group stands where its last member stood
  std::vector<int> group_of_;
};

/// Nodes without readers (constants and broadcasts that became part of others) are dropped, last first.
void drop_unread(const SpmdProgram& program, std::vector<Node>& nodes) {
  std::vector<bool> read(program.graph.values.size(), false);
  for (const Update& update : program.graph.updates) read[update.value] = true;
  for (const Metric& metric : program.graph.metrics) read[metric.value] = true;
  for (std::size_t i = nodes.size(); i-- > 0;) {
    Node& node = nodes[i];
    const bool absorbed =
        (node.op == &ops::constant || node.op == &ops::broadcast) && !read[node.results[0]];
    if (absorbed)
      node.op = nullptr;
    else
      for (int value : node.operands) read[value] = true;
  }
  nodes.erase(
      std::remove_if(nodes.begin(), nodes.end(), [](const Node& node) { return node.op == nullptr; }),
      nodes.end());
}

}  // namespace

SpmdProgram fuse_elementwise(const SpmdProgram& program) {
  std::vector<Node> nodes = program.graph.nodes;
  const std::vector<std::vector<int>> readers = consumers(program.graph);
  for (const std::vector<int>& group : Grouping(program).run()) {
    std::optional<Node> fused = fuse_group(program, readers, group);
    if (!fused) continue;
    for (int member : group) nodes[member].op = nullptr;
    nodes[group.back()] = std::move(*fused);
  }
  nodes.erase(
      std::remove_if(nodes.begin(), nodes.end(), [](const Node& node) { return node.op == nullptr; }),
      nodes.end());
  drop_unread(program, nodes);
  return with_nodes(program, std::move(nodes));
}

}  // namespace alpa
