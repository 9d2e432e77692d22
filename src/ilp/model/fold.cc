// Sums of the costs, usages and tables of nodes that choose alike
#include "src/ilp/model/fold.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace alpa::ilp {
namespace {

std::int64_t sum(std::int64_t a, std::int64_t b) {
  return std::max(a, b) >= kInfinite ? kInfinite : a + b;
}

/// A table paid so many times. Equal tables stay shared.
class TimesTables {
 public:
  Table of(const Table& table, std::int64_t times) {
    if (times == 1) return table;
    Table& product = known_[{table, times}];
    if (product) return product;
    std::vector<std::int64_t> costs = *table;
    for (std::int64_t& cost : costs) cost = cost >= kInfinite ? kInfinite : cost * times;
    return product = ilp::table(std::move(costs));
  }

 private:
  std::map<std::pair<Table, std::int64_t>, Table> known_;
};

class Fold {
 public:
  Fold(const Problem& problem, const std::vector<int>& groups) : problem_(problem) {
    folded_.of_node = groups;
    folded_.problem.usage_limit = problem.usage_limit;
    if (!groups.empty())
      folded_.problem.nodes.resize(
          static_cast<std::size_t>(*std::max_element(groups.begin(), groups.end()) + 1));
  }

  std::optional<Folded> run() && {
    for (std::size_t n = 0; n < problem_.nodes.size(); ++n)
      if (folded_.of_node[n] >= 0) add(problem_.nodes[n], folded_.of_node[n]);
    add_edges();
    for (const SharedCost& shared : problem_.shared)
      if (!add(shared)) return std::nullopt;
    for (std::size_t s = 0; s < times_.size(); ++s) {
      SharedCost& shared = folded_.problem.shared[s];
      shared.costs = tables_.of(shared.costs, times_[s]);
    }
    return std::move(folded_);
  }

 private:
  void add(const Node& node, int to) {
    Node& of_group = folded_.problem.nodes[to];
    of_group.costs.resize(node.costs.size(), 0);
    for (std::size_t s = 0; s < node.costs.size(); ++s)
      of_group.costs[s] = sum(of_group.costs[s], node.costs[s]);
    of_group.usages.insert(of_group.usages.end(), node.usages.begin(), node.usages.end());
  }

  void add_edges() {
    std::map<std::tuple<int, int, Table>, std::size_t> known;
    std::vector<std::int64_t> times;
    std::vector<Edge>& edges = folded_.problem.edges;
    for (const Edge& edge : problem_.edges) {
      const int a = folded_.of_node[edge.a], b = folded_.of_node[edge.b];
      const auto [place, is_new] = known.try_emplace({a, b, edge.costs}, edges.size());
      if (is_new) edges.push_back({a, b, edge.costs}), times.push_back(0);
      ++times[place->second];
    }
    for (std::size_t e = 0; e < edges.size(); ++e)
      edges[e].costs = tables_.of(edges[e].costs, times[e]);
  }

  /// False: a reader would be at its source.
  bool add(const SharedCost& shared) {
    SharedCost of_groups = shared;
    of_groups.source.node = folded_.of_node[shared.source.node];
    for (SharedEnd& reader : of_groups.readers) {
      reader.node = folded_.of_node[reader.node];
      if (reader.node == of_groups.source.node) return false;
    }
    const auto [place, is_new] =
        known_.try_emplace({key(of_groups), shared.costs}, folded_.problem.shared.size());
    if (is_new) {
      for (SharedCopy& copy : of_groups.copies) {
        copy.node = static_cast<int>(folded_.problem.nodes.size());
        folded_.problem.nodes.emplace_back();
      }
      folded_.problem.shared.push_back(std::move(of_groups));
      times_.push_back(0);
    }
    ++times_[place->second];
    for (std::size_t c = 0; c < shared.copies.size(); ++c) {
      const int node = shared.copies[c].node;
      folded_.of_node[node] = folded_.problem.shared[place->second].copies[c].node;
      add(problem_.nodes[node], folded_.of_node[node]);
    }
    return true;
  }

  /// All of a shared cost but its table and the nodes of its copies.
  static std::vector<int> key(const SharedCost& shared) {
    std::vector<int> key = {shared.rows, shared.columns};
    const auto append = [&](const SharedEnd& end) {
      key.insert(key.end(), {end.node, end.group});
      key.insert(key.end(), end.classes.begin(), end.classes.end());
    };
    append(shared.source);
    for (const SharedEnd& reader : shared.readers) append(reader);
    for (const SharedCopy& copy : shared.copies) {
      key.insert(key.end(), {-1, copy.column, copy.home});
      for (const Supply& supply : copy.supplies)
        key.insert(key.end(), {supply.times, static_cast<int>(supply.serves), supply.own});
    }
    return key;
  }

  const Problem& problem_;
  Folded folded_;
  TimesTables tables_;
  std::map<std::pair<std::vector<int>, Table>, std::size_t> known_;  ///< shared costs
  std::vector<std::int64_t> times_;  ///< that each shared cost is paid
};

}  // namespace

std::vector<int> Folded::unfolded(const std::vector<int>& choice) const {
  std::vector<int> of_all;
  for (const int node : of_node) of_all.push_back(choice[static_cast<std::size_t>(node)]);
  return of_all;
}

std::optional<Folded> fold(const Problem& problem, const std::vector<int>& groups) {
  return Fold(problem, groups).run();
}

}  // namespace alpa::ilp
