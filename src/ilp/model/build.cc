// From a problem to the solver's model: arc consistency on the shared tables first, then compact
// copies
#include <algorithm>
#include <deque>
#include <map>

#include "src/ilp/model/shared_terms.h"

namespace alpa::ilp {
namespace {

using Mask = std::vector<char>;

/// Which strategies have a finite partner in a table, all others allowed. Tables are shared, so
/// that this is found out once for many edges.
struct Support {
  Mask rows, columns;
  bool everything = true;  ///< no entry is infinite

  Support(const std::vector<std::int64_t>& costs, std::size_t num_rows, std::size_t num_columns)
      : rows(num_rows), columns(num_columns) {
    for (std::size_t p = 0; p < num_rows; ++p)
      for (std::size_t q = 0; q < num_columns; ++q) {
        const bool finite = costs[p * num_columns + q] < kInfinite;
        rows[p] |= finite, columns[q] |= finite, everything &= finite;
      }
  }
};

/// Which strategies may still be chosen, per node.
struct Domains {
  const Problem& problem;
  std::vector<Mask> masks;
  std::vector<std::vector<int>> incident;  // edges per node
  std::deque<int> queue;                   // edges
  Mask queued;
  Mask whole;  ///< per node: no strategy has been dropped
  std::map<std::pair<const void*, std::size_t>, Support> supports;  // by table and its rows

  explicit Domains(const Problem& p)
      : problem(p), incident(p.nodes.size()), queued(p.edges.size(), 1), whole(p.nodes.size(), 1) {
    for (const Node& node : p.nodes) {
      masks.emplace_back(node.costs.size());
      for (std::size_t s = 0; s < node.costs.size(); ++s)
        masks.back()[s] = node.costs[s] < kInfinite;
      whole[masks.size() - 1] =
          std::all_of(masks.back().begin(), masks.back().end(), [](char m) { return m; });
    }
    for (std::size_t e = 0; e < p.edges.size(); ++e) {
      incident[p.edges[e].a].push_back(static_cast<int>(e));
      incident[p.edges[e].b].push_back(static_cast<int>(e));
      queue.push_back(static_cast<int>(e));
    }
  }

  void restrict_to(int node, const Mask& supported) {
    bool changed = false;
    for (std::size_t s = 0; s < supported.size(); ++s)
      if (masks[node][s] && !supported[s]) masks[node][s] = 0, changed = true;
    if (!changed) return;
    whole[node] = 0;
    for (int e : incident[node])
      if (!queued[e]) queued[e] = 1, queue.push_back(e);
  }

  void revise(const Edge& edge) {
    const Mask &a = masks[edge.a], &b = masks[edge.b];
    if (edge.a != edge.b) {
      const Support& support =
          supports.try_emplace({edge.costs.get(), a.size()}, *edge.costs, a.size(), b.size())
              .first->second;
      if (support.everything) return;
      if (whole[edge.a] && whole[edge.b]) {
        restrict_to(edge.a, support.rows);
        restrict_to(edge.b, support.columns);
        return;
      }
    }
    Mask supported_a(a.size()), supported_b(b.size());
    for (std::size_t p = 0; p < a.size(); ++p) {
      if (!a[p]) continue;
      const std::int64_t* row = edge.costs->data() + p * b.size();
      for (std::size_t q = 0; q < b.size(); ++q)
        if (b[q] && row[q] < kInfinite && (edge.a != edge.b || p == q))
          supported_a[p] = supported_b[q] = 1;
    }
    restrict_to(edge.a, supported_a);
    restrict_to(edge.b, supported_b);
  }

  void run(const Deadline& deadline) {
    while (!queue.empty() && !deadline.passed()) {
      int e = queue.front();
      queue.pop_front();
      queued[e] = 0;
      revise(problem.edges[e]);
      deadline.spend(static_cast<double>(problem.edges[e].costs->size()));
    }
  }
};

/// One row per time at which some usage starts: between starts the live set can only shrink.
std::vector<std::int64_t> row_times(const Problem& problem) {
  std::vector<std::int64_t> times;
  if (!problem.usage_limit) return times;
  for (const Node& node : problem.nodes)
    for (const Usage& usage : node.usages)
      if (usage.from < usage.to) times.push_back(usage.from);
  std::sort(times.begin(), times.end());
  times.erase(std::unique(times.begin(), times.end()), times.end());
  return times;
}

void add_pieces(const Model& model, const Node& from, const std::vector<int>& kept,
                ModelNode& node) {
  auto row = [&](std::int64_t time) {
    return static_cast<int>(std::lower_bound(model.times.begin(), model.times.end(), time) -
                            model.times.begin());
  };
  for (const Usage& usage : from.usages) {
    Piece piece{row(usage.from), row(usage.to), {}};
    if (usage.from >= usage.to || piece.from >= piece.to) continue;
    for (int s : kept) piece.amounts.push_back(usage.amounts[s]);
    node.pieces.push_back(std::move(piece));
  }
  node.normal = node.pieces.empty();
}

void add_edges(const Problem& problem, const std::vector<std::vector<int>>& kept, Model& model) {
  for (const Edge& edge : problem.edges) {
    std::size_t columns = problem.nodes[edge.b].costs.size();
    const std::vector<std::int64_t>& costs = *edge.costs;
    if (edge.a == edge.b) {
      ModelNode& node = model.nodes[edge.a];
      for (std::size_t s = 0; s < kept[edge.a].size(); ++s)
        node.costs[s] = plus(node.costs[s], inner_cost(costs[kept[edge.a][s] * (columns + 1)]));
      continue;
    }
    std::vector<Cost> table(kept[edge.a].size() * kept[edge.b].size());
    if (table.size() == costs.size()) {
      std::transform(costs.begin(), costs.end(), table.begin(), inner_cost);
    } else {
      std::size_t cell = 0;
      for (int p : kept[edge.a])
        for (int q : kept[edge.b]) table[cell++] = inner_cost(costs[p * columns + q]);
    }
    add_edge(model, edge.a, edge.b, std::move(table));
  }
}

}  // namespace

Model build(const Problem& problem, bool consistent, const Deadline& deadline) {
  Domains domains(problem);
  if (consistent)
    domains.run(deadline);
  else
    for (Mask& mask : domains.masks) std::fill(mask.begin(), mask.end(), 1);
  Model model;
  model.times = row_times(problem);
  if (const Cost limit = problem.usage_limit.value_or(0); limit < 0 && model.times.empty())
    throw Contradiction{-limit, 0};
  // Usages sum to less than kInfinite, so that a limit above it changes nothing.
  model.slack.assign(model.times.size(), std::min(problem.usage_limit.value_or(0), kInfinite));
  std::vector<std::vector<int>> kept;
  for (std::size_t i = 0; i < problem.nodes.size(); ++i) {
    kept.push_back(marked(domains.masks[i]));
    if (kept[i].empty()) throw Contradiction{};
    ModelNode node;
    for (int s : kept[i]) node.costs.push_back(inner_cost(problem.nodes[i].costs[s]));
    if (problem.usage_limit) add_pieces(model, problem.nodes[i], kept[i], node);
    node.normal = node.pieces.empty();
    model.nodes.push_back(std::move(node));
    model.trail.push_back({static_cast<int>(i),
                           {static_cast<int>(i)},
                           {static_cast<int>(kept[i].size())},
                           std::make_shared<const std::vector<int>>(kept[i])});
  }
  add_edges(problem, kept, model);
  add_terms(problem, kept, model);
  return model;
}

}  // namespace alpa::ilp
