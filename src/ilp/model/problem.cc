// Checks of a problem, and the price of a choice on it
#include "src/ilp/model/problem.h"

#include <algorithm>
#include <map>
#include <set>

#include "alpa/base/error.h"

namespace alpa::ilp {
namespace {

__extension__ using Wide = __int128;

Wide magnitude(const std::vector<std::int64_t>& costs) {
  Wide largest = 0;
  for (std::int64_t cost : costs)
    if (cost < kInfinite)
      largest = std::max(largest, cost < 0 ? -static_cast<Wide>(cost) : static_cast<Wide>(cost));
  return largest;
}

void validate_node(const Node& node, std::size_t index) {
  require(!node.costs.empty(), "node {} has no strategies; every node needs at least one", index);
  for (const Usage& usage : node.usages) {
    require(usage.amounts.size() == node.costs.size(),
            "node {} has {} strategies but a usage with {} amounts; give one amount per strategy",
            index, node.costs.size(), usage.amounts.size());
    for (std::int64_t amount : usage.amounts)
      require(amount >= 0 && amount < kInfinite,
              "node {} has the usage {}; usages must be in [0, 10^18)", index, amount);
  }
}

void validate_edge(const Problem& problem, const Edge& edge, std::size_t index) {
  int n = static_cast<int>(problem.nodes.size());
  require(edge.a >= 0 && edge.a < n && edge.b >= 0 && edge.b < n,
          "edge {} joins nodes {} and {} but there are {} nodes; use indices from 0 to {}", index,
          edge.a, edge.b, n, n - 1);
  require(edge.costs != nullptr, "edge {} has no cost table; give one cost per pair of strategies",
          index);
  std::size_t rows = problem.nodes[edge.a].costs.size(),
              columns = problem.nodes[edge.b].costs.size();
  require(
      edge.costs->size() == rows * columns,
      "edge {} has {} costs but its nodes {} and {} have {} x {} strategies; give {} costs, row "
      "by row",
      index, edge.costs->size(), edge.a, edge.b, rows, columns, rows * columns);
}

void validate_end(const Problem& problem, const SharedEnd& end, int classes, std::size_t index) {
  const int n = static_cast<int>(problem.nodes.size());
  require(end.node >= 0 && end.node < n,
          "shared cost {} has an end at node {} but there are {} nodes; use indices from 0 to {}",
          index, end.node, n, n - 1);
  const std::size_t strategies = problem.nodes[end.node].costs.size();
  require(
      end.classes.size() == strategies,
      "shared cost {} gives {} classes to node {}, which has {} strategies; give one per strategy",
      index, end.classes.size(), end.node, strategies);
  for (int c : end.classes)
    require(c >= 0 && c < classes, "shared cost {} gives node {} the class {}; use 0 to {}", index,
            end.node, c, classes - 1);
}

/// True if the first strategy of a copy's node is absence, and no other is cheaper.
bool starts_absent(const Node& node, const SharedCopy& copy) {
  const Supply& absent = copy.supplies[0];
  return !absent.own && absent.serves == 0 && absent.times == 0 && node.costs[0] == 0 &&
         std::all_of(node.costs.begin(), node.costs.end(), [](std::int64_t c) { return c >= 0; }) &&
         std::all_of(node.usages.begin(), node.usages.end(),
                     [](const Usage& usage) { return usage.amounts[0] == 0; });
}

void validate_copy(const Problem& problem, const SharedCost& shared, const SharedCopy& copy,
                   std::size_t index) {
  const int n = static_cast<int>(problem.nodes.size());
  require(copy.node >= 0 && copy.node < n,
          "shared cost {} has a copy at node {} but there are {} nodes; use indices from 0 to {}",
          index, copy.node, n, n - 1);
  require(
      copy.column >= 0 && copy.column < shared.columns && copy.home >= -1 &&
          copy.home < shared.rows,
      "shared cost {} has a copy of column {} with home {} but {} columns and {} rows; count from "
      "0",
      index, copy.column, copy.home, shared.columns, shared.rows);
  const Node& node = problem.nodes[copy.node];
  require(
      copy.supplies.size() == node.costs.size(),
      "shared cost {} gives {} supplies to node {}, which has {} strategies; give one per strategy",
      index, copy.supplies.size(), copy.node, node.costs.size());
  std::set<int> times;
  for (const Supply& supply : copy.supplies) {
    times.insert(supply.times);
    require(
        supply.times >= 0 && times.size() <= kMostTimes && supply.serves < 1u << kMostGroups,
        "shared cost {} pays a supply of node {} {} times; use 0 or more, {} different numbers, "
        "and {} groups",
        index, copy.node, supply.times, kMostTimes, kMostGroups);
  }
  require(starts_absent(node, copy),
          "shared cost {} has a copy at node {} whose first strategy is not absence; "
          "it must cost least, use nothing and serve no group",
          index, copy.node);
}

void validate_shared(const Problem& problem, const SharedCost& shared, std::size_t index) {
  validate_end(problem, shared.source, shared.rows, index);
  for (const SharedEnd& reader : shared.readers) {
    validate_end(problem, reader, shared.columns, index);
    require(reader.node != shared.source.node,
            "shared cost {} has a reader at its source, node {}; give the cost to the node itself",
            index, reader.node);
    require(reader.group >= 0 && reader.group < kMostGroups,
            "shared cost {} has a reader of group {}; use 0 to {}", index, reader.group,
            kMostGroups - 1);
  }
  for (const SharedCopy& copy : shared.copies) validate_copy(problem, shared, copy, index);
  require(
      shared.costs != nullptr &&
          shared.costs->size() == static_cast<std::size_t>(shared.rows) * shared.columns,
      "shared cost {} has {} costs but {} rows and {} columns; give one cost per row and column",
      index, shared.costs ? shared.costs->size() : 0, shared.rows, shared.columns);
  require(std::all_of(shared.costs->begin(), shared.costs->end(),
                      [](std::int64_t c) { return c >= 0; }),
          "shared cost {} has a negative cost; give costs of 0 or more", index);
}

/// Nodes of copies are ends of nothing else.
void validate_copies_alone(const Problem& problem) {
  std::vector<int> ends(problem.nodes.size(), 0);
  for (const SharedCost& shared : problem.shared)
    for (const SharedCopy& copy : shared.copies)
      require(ends[copy.node]++ == 0, "node {} decides two copies; give each copy its own node",
              copy.node);
  const auto check = [&](int node) {
    require(ends[node] == 0,
            "node {} decides a copy but has edges or other ends; give the copy its own node", node);
  };
  for (const Edge& edge : problem.edges) check(edge.a), check(edge.b);
  for (const SharedCost& shared : problem.shared) {
    check(shared.source.node);
    for (const SharedEnd& reader : shared.readers) check(reader.node);
  }
}

/// Price of one shared cost; kInfinite or more if a pair is forbidden.
Wide price(const SharedCost& shared, const std::vector<int>& choice) {
  const int row = shared.source.classes[choice[shared.source.node]];
  std::vector<unsigned> wanted(shared.columns, 0);  // groups
  for (const SharedEnd& reader : shared.readers)
    wanted[reader.classes[choice[reader.node]]] |= 1u << reader.group;
  const auto cost = [&](int column) {
    return Wide{(*shared.costs)[static_cast<std::size_t>(row) * shared.columns + column]};
  };
  Wide sum = 0;
  for (const SharedCopy& copy : shared.copies) {
    const Supply& supply = copy.supplies[choice[copy.node]];
    const bool home = row == copy.home;
    const unsigned unserved = wanted[copy.column] & ~supply.serves;
    if (supply.own ? !home : unserved != 0) sum += kInfinite;
    if (!supply.own) sum += supply.times * cost(copy.column);
    wanted[copy.column] = 0;
  }
  for (int column = 0; column < shared.columns; ++column)
    if (wanted[column] != 0) sum += cost(column);
  return sum;
}

Wide price(const Problem& problem, const std::vector<int>& choice) {
  Wide sum = 0;
  bool forbidden = false;
  auto add = [&](std::int64_t cost) {
    sum += cost;
    forbidden |= cost >= kInfinite;
  };
  for (std::size_t i = 0; i < choice.size(); ++i) add(problem.nodes[i].costs[choice[i]]);
  for (const Edge& edge : problem.edges)
    add((*edge.costs)[choice[edge.a] * problem.nodes[edge.b].costs.size() + choice[edge.b]]);
  for (const SharedCost& shared : problem.shared) {
    const Wide cost = price(shared, choice);
    add(static_cast<std::int64_t>(std::min<Wide>(cost, kInfinite)));
  }
  return forbidden ? static_cast<Wide>(kInfinite) : sum;
}

}  // namespace

int most_times(const SharedCopy& copy) {
  int most = 1;
  for (const Supply& supply : copy.supplies) most = std::max(most, supply.times);
  return most;
}

void validate(const Problem& problem) {
  for (std::size_t i = 0; i < problem.nodes.size(); ++i) validate_node(problem.nodes[i], i);
  for (std::size_t e = 0; e < problem.edges.size(); ++e)
    validate_edge(problem, problem.edges[e], e);
  for (std::size_t k = 0; k < problem.shared.size(); ++k)
    validate_shared(problem, problem.shared[k], k);
  validate_copies_alone(problem);
  require(!problem.usage_limit || *problem.usage_limit > -kInfinite,
          "the usage limit is {}; it must be above -10^18", problem.usage_limit.value_or(0));
  Wide sum = 0, usage = 0;
  for (const Node& node : problem.nodes) {
    sum += magnitude(node.costs);
    for (const Usage& u : node.usages) usage += magnitude(u.amounts);
  }
  for (const Edge& edge : problem.edges) sum += magnitude(*edge.costs);
  for (const SharedCost& shared : problem.shared) {
    Wide times = static_cast<Wide>(shared.readers.size());
    for (const SharedCopy& copy : shared.copies) times += most_times(copy);
    sum += magnitude(*shared.costs) * times;
  }
  require(sum < kInfinite,
          "the largest finite costs sum to {} but must stay below 10^18; use a larger unit",
          static_cast<double>(sum));
  require(usage < kInfinite,
          "the largest usages sum to {} but must stay below 10^18; use a larger unit",
          static_cast<double>(usage));
}

Evaluation evaluate(const Problem& problem, const std::vector<int>& choice) {
  require(choice.size() == problem.nodes.size(),
          "the choice names {} strategies but there are {} nodes", choice.size(),
          problem.nodes.size());
  std::map<std::int64_t, Wide> change;  // of the usage, by time
  for (std::size_t i = 0; i < choice.size(); ++i) {
    const Node& node = problem.nodes[i];
    require(choice[i] >= 0 && choice[i] < static_cast<int>(node.costs.size()),
            "strategy {} was chosen for node {}, which has {} strategies", choice[i], i,
            node.costs.size());
    for (const Usage& usage : node.usages) {
      if (usage.from >= usage.to) continue;
      change[usage.from] += usage.amounts[choice[i]];
      change[usage.to] -= usage.amounts[choice[i]];
    }
  }
  Evaluation result;
  result.cost = static_cast<std::int64_t>(price(problem, choice));
  Wide usage = 0, peak = 0;
  for (auto [time, delta] : change) {
    usage += delta;
    if (usage > peak) peak = usage, result.peak_time = time;
  }
  result.peak_usage = static_cast<std::int64_t>(peak);
  result.feasible = result.cost < kInfinite &&
                    (!problem.usage_limit || result.peak_usage <= *problem.usage_limit);
  return result;
}

}  // namespace alpa::ilp
