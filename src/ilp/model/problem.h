#pragma once
/// The solver's problem: choose one strategy per node so that node costs plus pairwise costs
/// are minimal. The usages of the nodes live at any time must sum to at most a limit. Costs
/// are whole numbers (the planner uses nanoseconds), so that optimality is exact. The module
/// does not depend on tensors.
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace alpa::ilp {

/// A forbidden choice: any cost of at least this much. Finite costs may be negative; their absolute
/// values must sum to less than this over the whole problem (`validate`).
inline constexpr std::int64_t kInfinite = 1'000'000'000'000'000'000;

/// A cost table, row-major; shared, because repeated layers have equal tables (the solver
/// works once on equal ones).
using Table = std::shared_ptr<const std::vector<std::int64_t>>;

/// Wraps `costs` for use in an edge.
inline Table table(std::vector<std::int64_t> costs) {
  return std::make_shared<const std::vector<std::int64_t>>(std::move(costs));
}

/// A node's usage at every time of the half-open interval [from, to): one non-negative
/// amount per strategy. An interval with from >= to is empty. Several usages of one node
/// add up where they overlap.
struct Usage {
  std::int64_t from = 0, to = 0;
  std::vector<std::int64_t> amounts;
};

/// One decision: exactly one of its strategies is chosen.
struct Node {
  std::vector<std::int64_t> costs;  ///< one per strategy
  std::vector<Usage> usages;
};

/// `(*costs)[p * strategies(b) + q]` is paid when a chooses p and b chooses q. Several edges
/// between two nodes add up; an edge from a node to itself pays its diagonal.
struct Edge {
  int a = 0, b = 0;
  Table costs;
};

/// The end of a shared cost at `node`: for strategy s, `classes[s]` is a row (source) or a
/// column (reader) of its table.
struct SharedEnd {
  int node = 0;
  std::vector<int> classes;
  int group = 0;  ///< of a reader: 0 to kMostGroups - 1; copies serve groups
};

/// Groups of readers, and different numbers of times that the supplies of a copy pay, at most.
inline constexpr int kMostGroups = 3, kMostTimes = 4;

/// A strategy of a copy's node: the cost is paid `times` times, and readers of the
/// groups in the bit set `serves` can choose the column. `own`: all readers can, at no
/// cost, but only in the home row.
struct Supply {
  int times = 0;
  unsigned serves = 0;
  bool own = false;
};

/// The copy that serves the readers which choose `column`. The strategy of `node`, which belongs
/// only to this copy, determines when the copy exists and its usage. Strategy 0 is absence: it
/// serves no reader, costs nothing and uses nothing.
struct SharedCopy {
  int node = 0, column = 0;
  int home = -1;                 ///< the row in which `own` supplies are allowed; -1: none
  std::vector<Supply> supplies;  ///< per strategy of `node`
};

/// The most times that a supply of the copy pays; 1 at least.
int most_times(const SharedCopy& copy);

/// A cost that readers share: `(*costs)[row * columns + column]` is paid once for every column that
/// at least one reader chooses, in the row that the source chooses. Tables may be shared by equal
/// costs. The cost of a column with a copy follows from the strategy of the copy's node, which must
/// serve all readers that choose the column.
struct SharedCost {
  SharedEnd source;
  std::vector<SharedEnd> readers;
  int rows = 0, columns = 0;
  Table costs;
  std::vector<SharedCopy> copies = {};
};

/// Nodes, costs of pairs and groups of nodes, and the limit on usages.
struct Problem {
  std::vector<Node> nodes;
  std::vector<Edge> edges;
  std::optional<std::int64_t> usage_limit;  ///< nullopt: usages do not matter; negative: infeasible
  std::vector<SharedCost> shared = {};
};

/// Throws Error naming the first node, edge or shared cost that is malformed: no strategies, an
/// index or a table size out of range, a negative usage or shared cost, finite costs or a usage
/// limit so large that sums could overflow.
void validate(const Problem& problem);

/// Cost and usage of a choice.
struct Evaluation {
  std::int64_t cost = 0;  ///< kInfinite when a forbidden entry is chosen
  /// largest sum of usages over all times; computed even without a limit
  std::int64_t peak_usage = 0;
  std::int64_t peak_time = 0;  ///< first time at which the peak is reached
  bool feasible = false;       ///< finite cost and peak within the limit
};

/// Prices `choice` on the problem as it was given, sharing no code with the solver. Throws Error if
/// `choice` has not one valid strategy per node.
Evaluation evaluate(const Problem& problem, const std::vector<int>& choice);

}  // namespace alpa::ilp
