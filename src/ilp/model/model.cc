// Changes of the model that keep its invariants, and the price of a choice
#include "src/ilp/model/model.h"

#include <algorithm>

#include "alpa/base/error.h"
#include "src/ilp/model/lines.h"

namespace alpa::ilp {

void free_of_charge(std::vector<Cost>& costs) {
  for (Cost& cost : costs)
    if (cost < kNever) cost = 0;
}

namespace {

void forget_edge(ModelNode& node, int edge) {
  node.edges.erase(std::find(node.edges.begin(), node.edges.end(), edge));
}

template <class T>
void select(std::vector<T>& values, const std::vector<int>& kept) {
  for (std::size_t i = 0; i < kept.size(); ++i) values[i] = values[kept[i]];
  values.resize(kept.size());
}

void select_rows(std::vector<Cost>& table, const std::vector<int>& kept, int columns) {
  for (std::size_t i = 0; i < kept.size(); ++i)
    if (static_cast<int>(i) != kept[i])
      std::copy_n(table.begin() + static_cast<std::ptrdiff_t>(kept[i]) * columns, columns,
                  table.begin() + static_cast<std::ptrdiff_t>(i) * columns);
  table.resize(kept.size() * columns);
}

void select_columns(std::vector<Cost>& table, const std::vector<int>& kept, int rows, int columns) {
  std::size_t out = 0;
  for (int p = 0; p < rows; ++p)
    for (int q : kept) table[out++] = table[p * columns + q];
  table.resize(out);
}

}  // namespace

View view(const Model& model, int edge, int node) {
  const ModelEdge& e = model.edges[edge];
  int columns = model.nodes[e.b].size();
  if (e.a == node) return {e.costs.data(), columns, 1, columns};
  return {e.costs.data(), 1, columns, model.nodes[e.a].size()};
}

int add_node(Model& model, std::size_t strategies) {
  ModelNode& node = model.nodes.emplace_back();
  node.costs.assign(strategies, 0);
  node.normal = true;
  return static_cast<int>(model.nodes.size()) - 1;
}

int find_edge(const Model& model, int a, int b) {
  if (model.nodes[b].edges.size() < model.nodes[a].edges.size()) std::swap(a, b);
  for (int e : model.nodes[a].edges)
    if (model.edges[e].other(a) == b) return e;
  return -1;
}

int add_edge(Model& model, int a, int b, std::vector<Cost> costs) {
  invariant(a != b, "an edge from node {} to itself", a);
  int existing = find_edge(model, a, b);
  if (existing < 0) {
    int index = static_cast<int>(model.edges.size());
    model.edges.push_back({a, b, std::move(costs)});
    model.nodes[a].edges.push_back(index);
    model.nodes[b].edges.push_back(index);
    return index;
  }
  ModelEdge& edge = model.edges[existing];
  if (edge.a != a)
    costs = transposed(costs, model.nodes[a].costs.size(), model.nodes[b].costs.size());
  for (std::size_t i = 0; i < costs.size(); ++i) edge.costs[i] = plus(edge.costs[i], costs[i]);
  return existing;
}

void remove_edge(Model& model, int edge) {
  ModelEdge& e = model.edges[edge];
  forget_edge(model.nodes[e.a], edge);
  forget_edge(model.nodes[e.b], edge);
  e.alive = false;
  e.costs = {};
}

void keep_strategies(Model& model, int node, const std::vector<int>& kept) {
  if (kept.empty()) throw Contradiction{};
  ModelNode& n = model.nodes[node];
  for (int e : n.edges) {
    ModelEdge& edge = model.edges[e];
    if (edge.a == node)
      select_rows(edge.costs, kept, model.nodes[edge.b].size());
    else
      select_columns(edge.costs, kept, model.nodes[edge.a].size(), n.size());
  }
  for (int t : n.terms) {
    SharedTerm& term = model.terms[t];
    if (term.source.node == node) {
      select(term.source.classes, kept);
      for (SharedTerm::Split& split : term.splits) select(split.to_source, kept);
    }
    for (std::size_t j = 0; j < term.readers.size(); ++j) {
      if (term.readers[j].node != node) continue;
      select(term.readers[j].classes, kept);
      if (!term.splits.empty()) select(term.splits[j].to_reader, kept);
    }
    for (SharedCopy& copy : term.copies)
      if (copy.node == node) select(copy.supplies, kept);
  }
  int count = static_cast<int>(kept.size());
  select(n.costs, kept);
  for (Piece& piece : n.pieces) select(piece.amounts, kept);
  n.normal = n.pieces.empty();
  model.trail.push_back({node, {node}, {count}, std::make_shared<const std::vector<int>>(kept)});
}

void retire(Model& model, int node, std::vector<int> scope, std::vector<int> table) {
  retire(model, node, std::move(scope), std::make_shared<const std::vector<int>>(std::move(table)));
}

void retire(Model& model, int node, std::vector<int> scope,
            std::shared_ptr<const std::vector<int>> table) {
  std::vector<int> sizes;
  for (int s : scope) sizes.push_back(model.nodes[s].size());
  model.nodes[node].alive = false;
  model.nodes[node].pieces.clear();
  model.trail.push_back({node, std::move(scope), std::move(sizes), std::move(table)});
}

bool uses_no_more(const ModelNode& node, int p, int q) {
  return std::all_of(node.pieces.begin(), node.pieces.end(),
                     [&](const Piece& piece) { return piece.amounts[p] <= piece.amounts[q]; });
}

std::vector<int> distinct(std::vector<int> numbers) {
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  return numbers;
}

std::vector<int> marked(const std::vector<char>& marks) {
  std::vector<int> result;
  for (std::size_t i = 0; i < marks.size(); ++i)
    if (marks[i]) result.push_back(static_cast<int>(i));
  return result;
}

void postsolve(const Model& model, std::vector<int>& choice) {
  choice.resize(model.nodes.size(), 0);
  take_back(model.trail, choice);
}

std::vector<int> live_nodes(const Model& model) {
  std::vector<int> result;
  for (std::size_t i = 0; i < model.nodes.size(); ++i)
    if (model.nodes[i].alive) result.push_back(static_cast<int>(i));
  return result;
}

std::vector<int> live_edges(const Model& model) {
  std::vector<int> result;
  for (std::size_t e = 0; e < model.edges.size(); ++e)
    if (model.edges[e].alive) result.push_back(static_cast<int>(e));
  return result;
}

std::vector<unsigned> wanted_groups(const SharedTerm& term, const std::vector<int>& choice) {
  std::vector<unsigned> wanted(static_cast<std::size_t>(term.columns), 0);
  for (const SharedEnd& reader : term.readers)
    wanted[reader.classes[choice[reader.node]]] |= 1u << reader.group;
  return wanted;
}

Cost price(const SharedTerm& term, const std::vector<int>& choice) {
  const int row = term.source.classes[choice[term.source.node]];
  std::vector<unsigned> wanted = wanted_groups(term, choice);
  Cost sum = 0;
  for (const SharedCopy& copy : term.copies) {
    const int state = choice[copy.node];
    sum = plus(sum, serves(copy.supplies[state], wanted[copy.column]) ? term.cost(row, copy, state)
                                                                      : kNever);
    wanted[copy.column] = 0;
  }
  for (int column = 0; column < term.columns; ++column)
    if (wanted[column] != 0) sum = plus(sum, term.cost(row, column));
  return sum;
}

Cost price(const Model& model, const std::vector<int>& choice) {
  Cost sum = 0;
  for (int i : live_nodes(model)) sum = plus(sum, model.nodes[i].costs[choice[i]]);
  for (const ModelEdge& edge : model.edges)
    if (edge.alive)
      sum = plus(sum,
                 edge.costs[static_cast<std::size_t>(choice[edge.a]) * model.nodes[edge.b].size() +
                            choice[edge.b]]);
  for (const SharedTerm& term : model.terms)
    if (term.alive) sum = plus(sum, price(term, choice));
  return sum;
}

Cost least_cost(const Model& model) {
  Cost sum = 0;
  const auto add = [&](const std::vector<Cost>& costs) {
    sum = plus(sum, *std::min_element(costs.begin(), costs.end()));
  };
  for (const ModelNode& node : model.nodes)
    if (node.alive) add(node.costs);
  for (const ModelEdge& edge : model.edges)
    if (edge.alive) add(edge.costs);
  return sum;
}

std::vector<Cost> excess(const Model& model, const std::vector<int>& choice) {
  std::vector<Cost> result(model.slack.size() + 1, 0);
  for (std::size_t i = 0; i < model.nodes.size(); ++i)
    for (const Piece& piece : model.nodes[i].pieces) {
      result[piece.from] += piece.amounts[choice[i]];
      result[piece.to] -= piece.amounts[choice[i]];
    }
  result.pop_back();
  Cost sum = 0;
  for (std::size_t r = 0; r < result.size(); ++r) result[r] = (sum += result[r]) - model.slack[r];
  return result;
}

bool fits(const Model& model, const std::vector<int>& choice) {
  std::vector<Cost> over = excess(model, choice);
  return std::all_of(over.begin(), over.end(), [](Cost c) { return c <= 0; });
}

}  // namespace alpa::ilp
