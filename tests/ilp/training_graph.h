#pragma once
/// Problems such as the planner makes for a training step of an MLP on a 4 x 2 mesh: per layer a
/// matmul, bias, relu, their gradients and an Adam update; resharding paid once per value and
/// layout through two-state copy nodes.
#include <algorithm>
#include <array>
#include <map>
#include <string>

#include "src/ilp/model/problem.h"

namespace alpa::ilp::testing {

/// Per mesh axis: what a tensor of two dimensions does with it.
enum Use { whole = 0, rows = 1, columns = 2, partial = 3 };
using Layout = std::array<int, 2>;

struct TrainingGraph {
  static constexpr std::array<std::int64_t, 2> kAxes = {4, 2};
  static constexpr std::array<std::int64_t, 2> kPicosecondsPerByte = {20, 40};

  Problem problem;
  std::vector<std::vector<Layout>> layouts;  // of each node's result, per strategy
  std::map<std::vector<std::int64_t>, Table> tables;

  Table share(std::vector<std::int64_t> costs) {
    Table& known = tables[costs];
    if (!known) known = table(std::move(costs));
    return known;
  }

  static std::int64_t shards(const Layout& layout) {
    std::int64_t n = 1;
    for (int a = 0; a < 2; ++a)
      if (layout[a] == rows || layout[a] == columns) n *= kAxes[a];
    return n;
  }

  /// Nanoseconds to change the layout of a tensor, axis by axis.
  static std::int64_t reshard(const Layout& from, const Layout& to, std::int64_t bytes) {
    std::int64_t cost = 0;
    for (int a = 0; a < 2; ++a) {
      std::int64_t n = kAxes[a],
                   other = std::max<std::int64_t>(1, shards({from[1 - a], from[1 - a]}));
      std::int64_t wire = bytes / other * (n - 1) / n * kPicosecondsPerByte[a] / 1000;
      if (from[a] == to[a] || from[a] == whole) continue;
      if (to[a] == partial) return kInfinite;
      cost += 5000 + (from[a] == partial && to[a] == whole   ? 2 * wire
                      : from[a] != partial && to[a] != whole ? wire / n
                                                             : wire);
    }
    return cost;
  }

  /// All layouts without partial results, or with.
  static std::vector<Layout> all_layouts(bool with_partial) {
    std::vector<Layout> result;
    for (int x = 0; x < (with_partial ? 4 : 3); ++x)
      for (int y = 0; y < (with_partial ? 4 : 3); ++y) result.push_back({x, y});
    return result;
  }

  int add(std::vector<Layout> results, std::vector<std::int64_t> costs) {
    layouts.push_back(std::move(results));
    problem.nodes.push_back({std::move(costs), {}});
    return static_cast<int>(problem.nodes.size()) - 1;
  }

  /// A node that works on whatever layout it has.
  int elementwise(std::int64_t nanoseconds) {
    std::vector<std::int64_t> costs;
    for (const Layout& layout : all_layouts(false)) costs.push_back(nanoseconds / shards(layout));
    return add(all_layouts(false), std::move(costs));
  }

  /// A consumer of `value`: which layout each of its strategies needs.
  struct Need {
    int node;
    std::vector<Layout> layouts;
  };

  /// Direct edge for one consumer, copies for several.
  void use(int value, std::int64_t bytes, const std::vector<Need>& needs) {
    if (needs.size() == 1) return pay(value, bytes, needs[0]);
    for (const Layout& target : all_layouts(false)) {
      int copy = add({{}, target}, {0, 0});
      std::vector<std::int64_t> costs;
      for (const Layout& from : layouts[value])
        costs.insert(costs.end(), {0, reshard(from, target, bytes)});
      problem.edges.push_back({value, copy, share(std::move(costs))});
      for (const Need& need : needs) {
        std::vector<std::int64_t> required;
        for (const Layout& layout : need.layouts)
          required.insert(required.end(), {layout == target ? kInfinite : 0, 0});
        problem.edges.push_back({need.node, copy, share(std::move(required))});
      }
    }
  }

  void pay(int value, std::int64_t bytes, const Need& need) {
    std::vector<std::int64_t> costs;
    for (const Layout& from : layouts[value])
      for (const Layout& to : need.layouts) costs.push_back(reshard(from, to, bytes));
    problem.edges.push_back({value, need.node, share(std::move(costs))});
  }

  void same_layout(int a, int b) {
    std::vector<std::int64_t> costs;
    for (const Layout& x : layouts[a])
      for (const Layout& y : layouts[b]) costs.push_back(x == y ? 0 : kInfinite);
    problem.edges.push_back({a, b, share(std::move(costs))});
  }

  /// out[i,j] = sum_k lhs[i,k] rhs[k,j]; every axis on i, j, k or none.
  struct Matmul {
    int node;
    std::vector<Layout> lhs, rhs;
  };
  Matmul matmul(std::int64_t nanoseconds) {
    Matmul result{0, {}, {}};
    std::vector<Layout> out;
    std::vector<std::int64_t> costs;
    for (int x = 0; x < 4; ++x)
      for (int y = 0; y < 4; ++y) {  // none, i, j, k
        Layout o, l, r;
        std::int64_t work = nanoseconds;
        for (int a = 0; a < 2; ++a) {
          int letter = a == 0 ? x : y;
          o[a] = std::array<int, 4>{whole, rows, columns, partial}[letter];
          l[a] = std::array<int, 4>{whole, rows, whole, columns}[letter];
          r[a] = std::array<int, 4>{whole, whole, columns, rows}[letter];
          if (letter > 0) work /= kAxes[a];
        }
        out.push_back(o), result.lhs.push_back(l), result.rhs.push_back(r), costs.push_back(work);
      }
    result.node = add(std::move(out), std::move(costs));
    return result;
  }

  static std::vector<Layout> flipped(std::vector<Layout> layouts) {
    for (Layout& layout : layouts)
      for (int& use : layout) use = use == rows ? columns : use == columns ? rows : use;
    return layouts;
  }

  /// Bytes of a node's result while it lives.
  void live(int node, std::int64_t from, std::int64_t to, std::int64_t bytes) {
    Usage usage{from, to, {}};
    for (const Layout& layout : layouts[node]) usage.amounts.push_back(bytes / shards(layout));
    problem.nodes[node].usages.push_back(std::move(usage));
  }
};

/// `memory` in bytes per device; 0: no limit. Layers alternate between two widths if `alternate`.
inline Problem training_graph(int layers, bool alternate, std::int64_t memory) {
  TrainingGraph g;
  const std::int64_t batch = 2048, end = 4 * layers + 2;
  std::vector<Layout> plain = TrainingGraph::all_layouts(false);
  auto width = [&](int l) { return alternate && l % 2 ? 8192 : 2048; };
  struct Layer {
    int weight, bias;
    TrainingGraph::Matmul forward, to_weight, to_input;
    int relu, masked, bias_gradient;
  };
  std::vector<Layer> all;
  int input = g.elementwise(1000);
  std::vector<int> activations = {input};
  for (int l = 0; l < layers; ++l) {
    std::int64_t flop_ns = 2 * batch * width(l) * width(l + 1) / 10'000;
    Layer n;
    n.weight = g.elementwise(0), n.bias = g.elementwise(0);
    n.forward = g.matmul(flop_ns), n.to_weight = g.matmul(flop_ns), n.to_input = g.matmul(flop_ns);
    int biased = g.elementwise(batch * width(l + 1) / 100);
    n.relu = g.elementwise(batch * width(l + 1) / 100);
    n.masked = g.elementwise(batch * width(l + 1) / 100);
    n.bias_gradient = g.elementwise(batch * width(l + 1) / 100);
    std::int64_t bytes = 4 * batch * width(l + 1);
    g.pay(n.forward.node, bytes, {biased, plain});
    g.pay(n.bias, 4 * width(l + 1), {biased, plain});
    g.use(biased, bytes, {{n.relu, plain}, {n.masked, plain}});
    all.push_back(n);
    activations.push_back(n.relu);
  }
  int loss = g.elementwise(batch * width(layers) / 50);
  g.pay(activations.back(), 4 * batch * width(layers), {loss, plain});
  for (int l = layers - 1; l >= 0; --l) {
    Layer& n = all[l];
    std::int64_t in = 4 * batch * width(l), out = 4 * batch * width(l + 1),
                 weights = 4LL * width(l) * width(l + 1);
    g.pay(l + 1 < layers ? all[l + 1].to_input.node : loss, out, {n.masked, plain});
    g.use(n.masked, out,
          {{n.to_weight.node, n.to_weight.rhs},
           {n.to_input.node, n.to_input.lhs},
           {n.bias_gradient, plain}});
    g.use(activations[l], in,
          {{n.forward.node, n.forward.lhs},
           {n.to_weight.node, TrainingGraph::flipped(n.to_weight.lhs)}});
    g.use(n.weight, weights,
          {{n.forward.node, n.forward.rhs},
           {n.to_input.node, TrainingGraph::flipped(n.to_input.rhs)}});
    int update = g.elementwise(weights / 100), first = g.elementwise(0), second = g.elementwise(0);
    g.pay(n.to_weight.node, weights, {update, plain});
    g.same_layout(update, n.weight), g.same_layout(update, first), g.same_layout(update, second);
    int bias_update = g.elementwise(width(l + 1) / 100);
    g.pay(n.bias_gradient, 4 * width(l + 1), {bias_update, plain});
    g.same_layout(bias_update, n.bias);
    for (int state : {n.weight, first, second}) g.live(state, 0, end, weights);
    g.live(activations[l], l, 2 * layers + 2 * (layers - l), in);
    g.live(n.masked, end - 2 * l - 3, end - 2 * l, out);
    g.live(n.to_weight.node, end - 2 * l - 2, end - 2 * l, weights);
  }
  if (memory > 0) g.problem.usage_limit = memory;
  return std::move(g.problem);
}

}  // namespace alpa::ilp::testing
