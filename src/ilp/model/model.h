#pragma once
/// The solver's working copy of a problem. Invariants: tables of live edges match the sizes of
/// their two different live nodes; at most one edge joins two nodes; every change keeps the
/// optimum and records in `trail` how choices of the vanished parts follow from what remains.
/// Not shared between threads.
#include <cstdint>
#include <memory>
#include <vector>

#include "src/ilp/model/boundary_table.h"
#include "src/ilp/model/deadline.h"
#include "src/ilp/model/problem.h"

namespace alpa::ilp {

using Cost = std::int64_t;

/// Infinity inside the solver: larger than what any sum of finite costs can reach.
inline constexpr Cost kNever = 4'000'000'000'000'000'000;

/// A cost of a problem inside the solver.
inline Cost inner_cost(std::int64_t cost) { return cost >= kInfinite ? kNever : cost; }

/// a + b, infinite if one of them is.
inline Cost plus(Cost a, Cost b) { return a >= kNever || b >= kNever ? kNever : a + b; }

/// Usage over the rows [from, to): one amount per strategy.
struct Piece {
  int from = 0, to = 0;
  std::vector<Cost> amounts;
};

/// Sets every finite cost to zero.
void free_of_charge(std::vector<Cost>& costs);

struct ModelNode {
  std::vector<Cost> costs;
  std::vector<int> edges;  ///< live edges
  std::vector<int> terms;  ///< live shared terms that it has an end of, each once
  /// after `normalise`: disjoint, ordered, the smallest amount of each is 0
  std::vector<Piece> pieces;
  bool alive = true;
  bool normal = false;  ///< pieces are normalised
  bool kept = false;    ///< has costs elsewhere: is not eliminated, and keeps its strategies
  bool copy = false;    ///< chooses for a copy of a shared term, and is `kept`
  int size() const { return static_cast<int>(costs.size()); }
  /// Of normal pieces the one at the row; nullptr: it uses the same whatever is chosen.
  const Piece* piece_at(int row) const {
    for (const Piece& piece : pieces)
      if (piece.from <= row && row < piece.to) return &piece;
    return nullptr;
  }
};

struct ModelEdge {
  int a = 0, b = 0;
  std::vector<Cost> costs;
  bool alive = true;
  int other(int node) const { return node == a ? b : a; }
};

/// A shared cost of the problem over live nodes. No reader is at the source's node; several may be
/// at one. Costs are finite: edges forbid what is forbidden.
struct SharedTerm {
  SharedEnd source;
  std::vector<SharedEnd> readers;
  int rows = 0, columns = 0;
  std::vector<Cost> costs;  ///< rows x columns
  bool alive = true;
  /// The last dual bound's split for one reader: its share of the costs, rows x columns, and the
  /// messages on its edge, by strategy of the source and of the reader.
  struct Split {
    std::vector<double> shares, to_source, to_reader;
  };
  std::vector<Split> splits = {};  ///< per reader; empty: none yet
  std::vector<SharedCopy> copies = {};
  std::vector<char> never = {};  ///< rows x columns, where there are copies: a copy cannot be made
  Cost cost(int row, int column) const {
    return costs[static_cast<std::size_t>(row) * columns + column];
  }
  /// Cost of a state of a copy; infinite if it is not allowed.
  Cost cost(int row, const SharedCopy& copy, int state) const {
    const Supply& supply = copy.supplies[state];
    if (supply.own) return row == copy.home ? 0 : kNever;
    if (supply.times == 0) return 0;
    return never[static_cast<std::size_t>(row) * columns + copy.column]
               ? kNever
               : supply.times * cost(row, copy.column);
  }
};

/// True if readers of these groups can read the copy.
inline bool serves(const Supply& supply, unsigned groups) {
  return supply.own || (groups & ~supply.serves) == 0;
}

struct Model {
  std::vector<ModelNode> nodes;
  std::vector<ModelEdge> edges;
  std::vector<SharedTerm> terms;
  std::vector<Cost> slack;          ///< per row: how much the normalised pieces may still use
  std::vector<std::int64_t> times;  ///< per row: a time it represents
  Cost constant = 0;
  std::vector<Step> trail;
};

/// No choice exists. `missing` > 0: at `time` even the smallest usages
/// exceed the limit by that much.
struct Contradiction {
  Cost missing = 0;
  std::int64_t time = 0;
};

/// An edge's table seen from one of its ends: `at(p, q)` with p a strategy of that end.
struct View {
  const Cost* data;
  int row, column;  ///< strides
  int columns;
  Cost at(int p, int q) const { return data[p * row + q * column]; }
};

View view(const Model& model, int edge, int node);

/// Adds a node that costs and uses nothing. Returns its number.
int add_node(Model& model, std::size_t strategies);

/// Edge between a and b, or -1.
int find_edge(const Model& model, int a, int b);

/// Adds `costs` (|a| x |b|) to the edge between a and b, which is made if there
/// is none. Returns the edge.
int add_edge(Model& model, int a, int b, std::vector<Cost> costs);

void remove_edge(Model& model, int edge);

/// Keeps the strategies `kept` (ascending) of a node.
void keep_strategies(Model& model, int node, const std::vector<int>& kept);

/// Takes a node without edges out of the model; its choice follows from `scope` as `table` says.
void retire(Model& model, int node, std::vector<int> scope, std::vector<int> table);
void retire(Model& model, int node, std::vector<int> scope,
            std::shared_ptr<const std::vector<int>> table);

/// True if strategy p uses no more than q at any row.
bool uses_no_more(const ModelNode& node, int p, int q);

/// The different ones of these numbers, ascending.
std::vector<int> distinct(std::vector<int> numbers);

/// The places that are marked, ascending.
std::vector<int> marked(const std::vector<char>& marks);

/// Completes the choice of the live nodes to all nodes, in place.
void postsolve(const Model& model, std::vector<int>& choice);

std::vector<int> live_nodes(const Model& model);
std::vector<int> live_edges(const Model& model);

/// Cost of a choice of the live nodes without the constant; infinite if forbidden.
Cost price(const Model& model, const std::vector<int>& choice);

/// By column of the term, the groups of the readers that choose it.
std::vector<unsigned> wanted_groups(const SharedTerm& term, const std::vector<int>& choice);

/// Cost of one shared term.
Cost price(const SharedTerm& term, const std::vector<int>& choice);

/// A lower bound: the least cost of every node and of every edge. Infinite
/// if one has no finite cost.
Cost least_cost(const Model& model);

/// By how much each row exceeds its slack under a choice of the live nodes (negative: slack left).
std::vector<Cost> excess(const Model& model, const std::vector<int>& choice);

/// True if no row is exceeded.
bool fits(const Model& model, const std::vector<int>& choice);

/// Builds the model. With `consistent`, strategies without a finite partner are dropped on the way,
/// on the shared tables of the problem, until the deadline. Throws Contradiction.
Model build(const Problem& problem, bool consistent, const Deadline& deadline);

}  // namespace alpa::ilp
