#pragma once
/// The table of a boundary (boundary_table.h) between proven bounds, where an exact elimination is too
/// wide. Lower bounds hold for all cells from the start, and rise where it matters: a cell that is solved
/// raises those around it.
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "alpa/ilp/problem.h"

namespace alpa::ilp {

/// Bounds on the least cost for every choice of the boundary. Deterministic. Not shared between threads.
class BoundaryBounds {
 public:
  /// What is known of a cell beside its lower bound: `choice` (one strategy per node of the problem) costs
  /// `upper`. Without a choice `upper` is kInfinite.
  struct Cell {
    std::int64_t upper = kInfinite;
    std::vector<int> choice;
    bool final = false;  ///< visiting it again changes nothing
  };

  /// Of a problem without a usage limit; `boundary` (ascending) names nodes. `moves`, one table per node of
  /// the boundary, guess what strategy q in place of p saves at most, at [p * strategies + q]: the better
  /// the guess, the more a solved cell says of others. Throws Error for a malformed problem, or one with a
  /// usage limit.
  BoundaryBounds(const Problem& problem, std::span<const int> boundary, std::vector<Table> moves);
  ~BoundaryBounds();
  BoundaryBounds(const BoundaryBounds&) = delete;
  BoundaryBounds& operator=(const BoundaryBounds&) = delete;

  /// Numbers of strategies of the boundary's nodes.
  const std::vector<int>& sizes() const;

  /// Proven, by the choices of the boundary, the last one's fastest; kInfinite: there is no choice.
  const std::vector<std::int64_t>& lower() const;

  /// Bounds a cell from both sides, raising the lower bounds of others by what is learnt; the second time
  /// it closes what is left between them, if that does not take too much work.
  const Cell& visit(std::size_t cell);

  /// The cells visited so far.
  const std::map<std::size_t, Cell>& visited() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace alpa::ilp
