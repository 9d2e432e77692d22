#pragma once
/// Elimination of all nodes but a boundary: the least cost of a problem for every choice of its
/// boundary nodes, and the choice of all others behind each entry. So parts of a large problem are
/// solved once and combined.
#include <cstdint>
#include <memory>
#include <span>
#include <variant>
#include <vector>

#include "src/ilp/model/problem.h"

namespace alpa::ilp {

/// Costs of a problem beside those of its nodes and edges: one for every choice of `nodes` (all
/// different), the last one's fastest; e.g. the table of a part.
struct JointCosts {
  std::vector<int> nodes;
  Table costs;
};

/// The choice of a node is table[index of the choices of `scope`, the last one's fastest].
struct Step {
  int node = 0;
  std::vector<int> scope, sizes;
  std::shared_ptr<const std::vector<int>> table;  ///< shared by equal parts of the problem
};

/// Place of the entry for these choices in a table of these sizes, the last one's fastest.
std::size_t place_of(std::span<const int> sizes, std::span<const int> choices);

/// Fills in the choices that follow from others, last step first.
void take_back(std::span<const Step> steps, std::vector<int>& choice);

/// Least costs by the choice of the boundary. Plain data; tables of equal parts share it.
struct BoundaryTable {
  std::vector<int> boundary;  ///< nodes of the problem
  std::vector<int> sizes;     ///< their numbers of strategies
  /// by their choices, the last one's fastest; kInfinite: there is no choice
  std::vector<std::int64_t> costs;

  /// A choice of all nodes of the problem that has the cost in the table.
  /// Meaningless if that is kInfinite.
  std::vector<int> choice(std::span<const int> boundary_choice) const;

  int nodes = 0;            ///< of the problem
  std::vector<Step> steps;  ///< how choices follow from others, to be taken backwards
  int copies = 0;           ///< nodes beside the problem's, in steps alone: of shared costs
};

/// The elimination needs a table of at least `cells` cells, which is more than was
/// allowed, or too many steps.
struct TableTooLarge {
  double cells = 0;
};

/// Eliminates all nodes but `boundary` (ascending), exactly, shared costs as nodes per copy, with
/// smallest tables first, as `solve` does. No table has more than `most_cells` cells, with 256
/// times as many steps in total. With an empty boundary the one entry is the least cost of all.
/// Adds the cells of tables that it read to `work`. Throws Error for a malformed problem, or one
/// with a usage limit.
std::variant<BoundaryTable, TableTooLarge> eliminate_to(const Problem& problem,
                                                        std::span<const int> boundary,
                                                        std::int64_t most_cells,
                                                        std::span<const JointCosts> joint = {},
                                                        std::int64_t* work = nullptr);

}  // namespace alpa::ilp
