#pragma once
/// Lower bound by block-coordinate ascent on the dual of the local polytope (SRMP/TRW-S: Kolmogorov, PAMI
/// 2006 and 2015), with one Lagrange multiplier per usage row. Ascent runs in doubles; every bound handed
/// out is recomputed from rounded messages in whole numbers and therefore proven. Needs an arc-consistent
/// model with normal pieces that outlives it. Costs exclude the model's constant.
#include <memory>

#include "model.h"

namespace alpa::ilp {

class Dual {
 public:
  explicit Dual(const Model& model);

  /// One sweep in each direction. The choice rounded on the way is left in `rounded()`.
  void sweep();

  /// Cells looked at by a sweep, its choice's price, and the bound.
  double cells_of_sweep() const;

  /// Bound in doubles, for steering only.
  double bound() const;

  /// Choice of the live nodes by conditioned rounding in the last sweep; it may be forbidden or exceed
  /// rows.
  const std::vector<int>& rounded() const { return rounded_; }

  /// Everything that ascent changes, to return to.
  struct State {
    std::vector<double> totals, priced,
        messages;  // priced: cost + price of usage; totals: plus all messages
    std::vector<double> multipliers;
  };
  const State& state() const { return state_; }
  void restore(const State& state) { state_ = state; }

  const std::vector<double>& multipliers() const { return state_.multipliers; }

  /// Sets the multipliers, one non-negative number per row, in cost per unit of usage.
  void set_multipliers(std::vector<double> multipliers);

  /// Messages and multipliers as whole numbers: costs times 2^`shift`.
  struct Exact {
    int shift = 0;
    Cost bound = 0;  ///< scaled
    std::vector<std::vector<Cost>>
        node_excess;  ///< by position: how much more than the bound each strategy costs
    std::vector<std::vector<Cost>> message_a, message_b;  ///< per edge
    Cost proven() const;                                  ///< the bound in costs, rounded up
  };
  Exact exact() const;

  /// Removes from `model`, the one this was made for, strategies that no choice cheaper than `cutoff`
  /// contains, and makes infinite the pairs that none contains. Returns how many; this object is void if
  /// there were any.
  std::int64_t fix(Model& model, const Exact& exact, Cost cutoff) const;

 private:
  using TableOf = std::shared_ptr<const std::vector<double>>;
  struct DualEdge {
    int index, a, b;         // a < b, positions in nodes_
    TableOf rows, columns;   // table as |a| x |b| and as |b| x |a|
    std::size_t at_a, at_b;  // offsets of its messages; reparametrised entry: entry - at_a[p] - at_b[q]
    std::size_t size_a, size_b;
  };
  struct DualNode {
    int index;
    std::size_t at, size;            // offset in totals and priced
    std::vector<int> before, after;  // edges to earlier and to later nodes
  };

  void pass(bool forward);
  void visit(int i, bool forward);
  int exact_shift() const;
  Cost reduced(const DualEdge& edge, const Exact& exact, std::size_t number, int p, int q) const;
  void add_usage_prices(Exact& exact) const;
  void add_edge_minima(Exact& exact) const;
  void reparametrise(Model& model) const;
  std::int64_t fix_pairs(Model& model, const Exact& exact, std::size_t number, Cost allowed) const;

  const Model* model_;
  std::vector<int> at_;  // position of each model node
  std::vector<DualNode> nodes_;
  std::vector<DualEdge> edges_;
  State state_;
  std::vector<int> rounded_;
  std::vector<double> scratch_, conditioned_;
};

}  // namespace alpa::ilp
