#pragma once
/// Small random problems and their optimum by enumeration.
#include <algorithm>
#include <optional>
#include <random>

#include "src/ilp/model/problem.h"

namespace alpa::ilp::testing {

enum class Shape { tree, cycle, clique, sparse };

struct Draw {
  std::mt19937_64 engine;
  int below(int n) { return static_cast<int>(engine() % static_cast<std::uint64_t>(n)); }
  int between(int a, int b) { return a + below(b - a + 1); }
  bool chance(int percent) { return below(100) < percent; }
};

inline std::vector<std::int64_t> draw_costs(Draw& draw, std::size_t count, int forbidden_percent,
                                            int largest) {
  std::vector<std::int64_t> costs(count);
  for (auto& c : costs)
    c = draw.chance(forbidden_percent) ? kInfinite + draw.below(2) : draw.between(-1, largest);
  return costs;
}

/// A table in which every strategy of one side allows exactly one of the other: a follower.
inline std::vector<std::int64_t> draw_function(Draw& draw, std::size_t rows, std::size_t columns) {
  std::vector<std::int64_t> costs(rows * columns, kInfinite);
  for (std::size_t p = 0; p < rows; ++p)
    costs[p * columns + static_cast<std::size_t>(draw.below(static_cast<int>(columns)))] =
        draw.below(4);
  return costs;
}

inline void connect(Draw& draw, Problem& problem, int a, int b, int forbidden_percent,
                    int largest) {
  if (draw.chance(50)) std::swap(a, b);
  std::size_t rows = problem.nodes[a].costs.size(), columns = problem.nodes[b].costs.size();
  problem.edges.push_back(
      {a, b,
       table(draw.chance(15) && a != b
                 ? draw_function(draw, rows, columns)
                 : draw_costs(draw, rows * columns, forbidden_percent, largest))});
}

inline void draw_edges(Draw& draw, Problem& problem, Shape shape, int forbidden_percent,
                       int largest) {
  int n = static_cast<int>(problem.nodes.size());
  for (int i = 1; i < n; ++i) {
    if (shape == Shape::tree) connect(draw, problem, draw.below(i), i, forbidden_percent, largest);
    if (shape == Shape::cycle) connect(draw, problem, i - 1, i, forbidden_percent, largest);
    for (int j = 0; j < i; ++j)
      if (shape == Shape::clique || (shape == Shape::sparse && draw.chance(45)))
        connect(draw, problem, j, i, forbidden_percent, largest);
  }
  if (shape == Shape::cycle && n > 2) connect(draw, problem, n - 1, 0, forbidden_percent, largest);
  if (draw.chance(10))
    connect(draw, problem, draw.below(n), draw.below(n), forbidden_percent, largest);
}

inline void draw_usages(Draw& draw, Problem& problem) {
  for (Node& node : problem.nodes)
    for (int u = draw.between(0, 2); u > 0; --u) {
      Usage usage{draw.between(0, 6), 0, {}};
      usage.to = usage.from + draw.between(0, 5);
      for (std::size_t s = 0; s < node.costs.size(); ++s)
        usage.amounts.push_back(draw.between(0, 9));
      node.usages.push_back(std::move(usage));
    }
}

inline SharedEnd draw_end(Draw& draw, const Problem& problem, int node, int classes) {
  SharedEnd end{node, {}};
  for (std::size_t s = 0; s < problem.nodes[node].costs.size(); ++s)
    end.classes.push_back(draw.below(classes));
  return end;
}

/// A cost that up to five ends share, of which several may be at one node; at
/// times a pair is forbidden.
inline void draw_shared(Draw& draw, Problem& problem, int largest) {
  const int n = static_cast<int>(problem.nodes.size());
  SharedCost shared{{}, {}, draw.between(1, 4), draw.between(1, 4), nullptr};
  shared.source = draw_end(draw, problem, draw.below(n), shared.rows);
  for (int j = draw.between(0, 5); j > 0; --j) {
    const int node = draw.below(n);
    if (node != shared.source.node)
      shared.readers.push_back(draw_end(draw, problem, node, shared.columns));
  }
  std::vector<std::int64_t> costs(static_cast<std::size_t>(shared.rows) * shared.columns);
  for (std::int64_t& c : costs)
    c = draw.chance(30) ? 0 : draw.chance(5) ? kInfinite : draw.between(0, largest);
  shared.costs = table(std::move(costs));
  problem.shared.push_back(std::move(shared));
}

/// Nodes 1..largest_nodes with 1..4 strategies; ties on purpose. Half of the problems have usages
/// (of several rows) with a limit that lies between tight and loose.
inline Problem draw_problem(std::uint64_t seed, int largest_nodes) {
  Draw draw{std::mt19937_64(seed)};
  Problem problem;
  int forbidden = draw.below(3) * 20, largest = draw.chance(50) ? 3 : 1000;
  problem.nodes.resize(static_cast<std::size_t>(draw.between(1, largest_nodes)));
  for (Node& node : problem.nodes)
    node.costs =
        draw_costs(draw, static_cast<std::size_t>(draw.between(1, 4)), forbidden / 4, largest);
  draw_edges(draw, problem, static_cast<Shape>(draw.below(4)), forbidden, largest);
  if (draw.chance(50)) {
    draw_usages(draw, problem);
    problem.usage_limit = draw.between(1, 6) * static_cast<int>(problem.nodes.size());
  }
  return problem;
}

/// `draw_problem` with one to four shared costs.
inline Problem draw_sharing_problem(std::uint64_t seed, int largest_nodes) {
  Problem problem = draw_problem(seed, largest_nodes);
  Draw draw{std::mt19937_64(seed + 1'000'000)};
  for (int k = draw.between(1, 4); k > 0; --k)
    draw_shared(draw, problem, draw.chance(50) ? 3 : 1000);
  return problem;
}

struct Enumerated {
  std::optional<std::int64_t> cost;        ///< of the best feasible choice
  std::optional<std::int64_t> least_peak;  ///< over the choices of finite cost
};

/// What a shared cost comes to, as problem.h says it; kInfinite: forbidden.
inline std::int64_t price_by_hand(const SharedCost& shared, const std::vector<int>& choice) {
  const int row = shared.source.classes.at(choice[shared.source.node]);
  std::int64_t sum = 0;
  for (int column = 0; column < shared.columns; ++column) {
    const std::int64_t cost = shared.costs->at(row * shared.columns + column);
    const auto copy = std::find_if(shared.copies.begin(), shared.copies.end(),
                                   [&](const SharedCopy& c) { return c.column == column; });
    const bool copied = copy != shared.copies.end();
    const Supply supply = copied ? copy->supplies.at(choice[copy->node]) : Supply{};
    bool wanted = false;
    for (const SharedEnd& reader : shared.readers) {
      if (reader.classes.at(choice[reader.node]) != column) continue;
      wanted = true;
      if (copied && !supply.own && !(supply.serves >> reader.group & 1)) return kInfinite;
    }
    if (copied && supply.own && row != copy->home) return kInfinite;
    const int times = copied ? (supply.own ? 0 : supply.times) : (wanted ? 1 : 0);
    if (times > 0 && cost >= kInfinite) return kInfinite;
    sum += times * cost;
  }
  return sum;
}

/// Tries every choice. Sums are formed here, not by the library.
inline Enumerated enumerate(const Problem& problem) {
  Enumerated best;
  std::vector<int> choice(problem.nodes.size(), 0);
  for (bool more = true; more;) {
    std::int64_t cost = 0, peak = 0;
    bool allowed = true;
    auto add = [&](std::int64_t c) {
      if (c >= kInfinite)
        allowed = false;
      else
        cost += c;
    };
    for (std::size_t i = 0; i < choice.size(); ++i) add(problem.nodes[i].costs[choice[i]]);
    for (const Edge& e : problem.edges)
      add(e.costs->at(choice[e.a] * problem.nodes[e.b].costs.size() + choice[e.b]));
    for (const SharedCost& shared : problem.shared) add(price_by_hand(shared, choice));
    for (int time = 0; time < 12 && allowed; ++time) {
      std::int64_t used = 0;
      for (std::size_t i = 0; i < choice.size(); ++i)
        for (const Usage& u : problem.nodes[i].usages)
          if (u.from <= time && time < u.to) used += u.amounts[choice[i]];
      peak = std::max(peak, used);
    }
    if (allowed) best.least_peak = std::min(best.least_peak.value_or(peak), peak);
    if (allowed && (!problem.usage_limit || peak <= *problem.usage_limit))
      best.cost = std::min(best.cost.value_or(cost), cost);
    std::size_t i = 0;
    while (i < choice.size() && ++choice[i] == static_cast<int>(problem.nodes[i].costs.size()))
      choice[i++] = 0;
    more = i < choice.size();
  }
  return best;
}

}  // namespace alpa::ilp::testing
