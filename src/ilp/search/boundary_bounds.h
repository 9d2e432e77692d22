#pragma once
/// Proven lower and upper bounds on a boundary's table (boundary_table.h), for parts too wide for
/// exact elimination. Lower bounds hold for all cells from the start and rise where it matters: a
/// solved cell raises similar cells.
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "src/ilp/model/problem.h"

namespace alpa::ilp {

/// Costs by node of the boundary and its strategy.
using BoundaryPrices = std::vector<std::vector<std::int64_t>>;

/// Bounds on the least cost for every choice of the boundary. Deterministic.
/// Not shared between threads.
class BoundaryBounds {
 public:
  /// The upper bound of a cell: `choice` (one strategy per node of the problem) costs `upper`,
  /// which is kInfinite without a choice.
  struct Cell {
    std::int64_t upper = kInfinite;
    std::vector<int> choice;
    int visits = 0;
    bool final = false;  ///< visiting it again changes nothing
  };

  /// Two nodes of the boundary, by position, that coincide where equal parts follow each other:
  /// strategy p of `first` is strategy partner[p] of `second`, or none (-1).
  struct Tie {
    int first = 0, second = 0;
    std::vector<int> partner;
    auto operator<=>(const Tie&) const = default;
  };

  /// For a problem without a usage limit; `boundary` (ascending) names nodes. `moves`, one table
  /// per node of the boundary, guess what strategy q in place of p saves at most, at [p *
  /// strategies + q]: the better the guess, the more a visited cell says of others. Throws Error
  /// for a malformed problem, or one with a usage limit.
  BoundaryBounds(const Problem& problem, std::span<const int> boundary, std::vector<Table> moves);
  ~BoundaryBounds();
  BoundaryBounds(const BoundaryBounds&) = delete;
  BoundaryBounds& operator=(const BoundaryBounds&) = delete;

  /// Proven, by the choices of the boundary, the last one's fastest; kInfinite: there is no choice.
  const std::vector<std::int64_t>& lower() const;

  /// Raises the lower bounds where they matter under additional `prices` that the neighbours
  /// of this part pay at its boundary. Returns, up to a constant, a sum that the lower
  /// bounds now reach at least.
  BoundaryPrices bound(const BoundaryPrices& prices);

  /// The same for long rows of this part, each tied to the next.
  BoundaryPrices bound_repeated(std::span<const Tie> ties);

  /// Bounds a cell from both sides, raising the lower bounds of others by what is learnt; the
  /// second time it closes what is left between them, if that does not take too much work.
  const Cell& visit(std::size_t cell);

  /// Cells of tables read so far, as in Limits::work (solve.h). One call takes a few hundred
  /// sweeps over the problem at most.
  std::int64_t work() const;

  /// The cells of which a choice is known or that were visited.
  const std::map<std::size_t, Cell>& known() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace alpa::ilp
