#pragma once
/// Lower bound by block-coordinate ascent on the dual of the local polytope (SRMP/TRW-S:
/// Kolmogorov, PAMI 2006 and 2015), with one Lagrange multiplier per usage row, and for every
/// shared term a split of its costs among the readers. Ascent runs in doubles; every bound handed
/// out is recomputed from rounded messages in whole numbers and therefore proven. Needs an
/// arc-consistent model with normal pieces that outlives it. Costs exclude the model's constant.
#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <optional>

#include "src/base/infinity.h"
#include "src/ilp/model/copy_states.h"
#include "src/ilp/model/model.h"

namespace alpa::ilp {

class Dual {
 public:
  explicit Dual(const Model& model);

  /// One sweep in each direction, then a better split of the shared terms. The choice rounded on
  /// the way is left in `rounded()`.
  void sweep();

  /// Half a sweep: hands the costs of nodes on to later ones. The bound does not fall.
  void hand_on() { pass(true); }

  /// Cells looked at by a sweep, its choice's price, the bound, and a move of the multipliers.
  double cells_of_sweep() const;

  /// Cells looked at for a proven bound, and, twice, for fixing.
  double cells_of_exact() const;

  /// Bound in doubles after a sweep, for steering only. (Every edge has received a
  /// message, so that its least is 0.)
  double bound() const;

  /// Choice of the live nodes by conditioned rounding in the last sweep; it may be
  /// forbidden or exceed rows.
  const std::vector<int>& rounded() const { return rounded_; }

  /// From now on every sweep weighs the strategies of a node: one that costs c more than the
  /// cheapest by exp(-c / temperature). 0: sweeps do not.
  void set_temperature(double temperature) { temperature_ = temperature; }

  /// A cost of all nodes together, per node; at least 1 for all.
  double per_node(double cost) const {
    return std::max(1.0, std::abs(cost)) /
           static_cast<double>(std::max<std::size_t>(1, nodes_.size()));
  }

  /// By how much each row exceeds its slack on average under the weights of the last sweep, copies
  /// as in `rounded()`. Unlike the excess of `rounded()` it does not jump from sweep to sweep.
  std::vector<double> mean_excess() const;

  /// Everything that ascent changes, to return to.
  struct State {
    std::vector<double> priced;  // cost + price of usage, per node and strategy
    std::vector<double> totals;  // the same plus all messages
    std::vector<double> messages;
    std::vector<double> multipliers;
    std::vector<double> shares;  // of the shared terms' edges, class by class
  };
  const State& state() const { return state_; }
  void restore(const State& state) {
    state_ = state;
    price_supplies();
  }

  /// Goes on from `before`, an earlier state under the same multipliers, past the present one by
  /// `times` the way from there. The bound may fall, until the next sweep. For models without
  /// copies.
  void extrapolate(const State& before, double times);

  const std::vector<double>& multipliers() const { return state_.multipliers; }

  /// Sets the multipliers, one non-negative number per row, in cost per unit of usage.
  void set_multipliers(std::vector<double> multipliers);

  /// Leaves the split of every shared term, and the messages on its edges, in `model`, the one this
  /// was made for: the next dual of what is left of it goes on from there.
  void remember_splits(Model& model) const;

  /// Messages and multipliers as whole numbers: costs times 2^`shift`.
  struct Exact {
    int shift = 0;
    Cost bound = 0;  ///< scaled
    /// by position: how much more than the bound each strategy costs
    std::vector<std::vector<Cost>> node_excess;
    std::vector<std::vector<Cost>> message_a, message_b;  ///< per edge
    /// per edge of a shared term, class by class
    std::vector<std::vector<Cost>> shares;
    Cost proven() const;  ///< the bound in costs, rounded up
  };
  Exact exact() const;

  /// Removes from `model`, the one this was made for, strategies that no choice cheaper than
  /// `cutoff` contains, and makes infinite the pairs that none contains. Returns how many; this
  /// object is void if there were any.
  std::int64_t fix(Model& model, const Exact& exact, Cost cutoff) const;

 private:
  using TableOf = std::shared_ptr<const std::vector<double>>;
  using Classes = std::shared_ptr<const std::vector<int>>;

  /// An edge of the model, or of a shared term between its source and one reader. Strategies with
  /// equal lines of the table are one class.
  struct DualEdge {
    int index = -1;    // of the model's edge; -1: of a shared term
    int a = 0, b = 0;  // positions in nodes_, a < b
    /// Classes of a x classes of b, and of b x of a; null: the entries are `shares`, a x b.
    TableOf rows = nullptr, columns = nullptr;
    Classes class_a = nullptr, class_b = nullptr;  // per strategy
    std::size_t lines_a = 0, lines_b = 0;          // numbers of classes
    /// Offsets of its messages. A reparametrised entry is entry - at_a[p] - at_b[q].
    std::size_t at_a = 0, at_b = 0;
    std::size_t size_a = 0, size_b = 0;  // numbers of strategies
    std::size_t at_shares = 0;
  };

  /// Least price of the usages of a copy's states that serve a set of
  /// groups, by set and times paid.
  struct SupplyPrices {
    std::array<int, kMostTimes> times;  // distinct; the first so many as there are
    std::array<std::array<double, kMostTimes>, 1u << kMostGroups> least;
    double own;
    bool operator==(const SupplyPrices&) const = default;
  };
  /// The most that the shares of readers may sum to, by set of groups.
  using Limits = std::array<double, 1u << kMostGroups>;

  /// A shared term: its edges, and where row and column of a pair of classes of each are.
  struct DualTerm {
    struct TermEdge {
      int edge = -1, reader = -1, group = 0;
      bool from_a = false;                    // a is the source
      std::vector<int> columns;               // of the term, by class of the reader
      std::vector<int> column_class = {};     // by column; -1: cannot be wanted
      std::vector<int> contested_class = {};  // by contested column
    };
    int index = -1;
    std::vector<TermEdge> parts = {};
    std::vector<int> rows;  // that the source can choose
    // columns that cost something and that several readers can want
    std::vector<int> contested = {};
    std::vector<double> costs = {};       // rows x contested
    std::vector<double> able = {};        // parts x contested: 1 if the reader can want the column
    std::vector<double> per_reader = {};  // by contested column: 1 / how many can
    std::vector<int> copy_at = {};        // by column, its copy; -1: none
    std::vector<int> copied = {};         // columns with a copy that several readers can want
    std::vector<SupplyPrices> supplies = {};  // per copy
    std::vector<unsigned> groups = {};        // per copy, of the readers that can want it
    std::vector<Limits> limits = {};          // rows x copies, under the prices of `supplies`
  };

  struct DualNode {
    int index;
    std::size_t at, size;            // offset in totals and priced
    std::vector<int> before, after;  // edges to earlier and to later nodes
  };

  void add_term(int term, std::size_t& messages);
  DualTerm::TermEdge part_of(const DualTerm& term, int reader, const Classes& of_source,
                             std::size_t& messages);
  void add_column(DualTerm& term, int column);
  int add_edge(DualEdge edge, std::size_t& messages);
  void pass(bool forward);
  void visit(int i, bool forward);
  void weigh(const DualNode& node, bool forward);
  /// The edge's message to each strategy of b (or a): its least entry less the other end's message.
  void message(const DualEdge& edge, bool to_b, double* out) const;
  /// Largest message within each class.
  static void collapse(const double* message, const std::vector<int>& classes, double* out,
                       std::size_t lines);
  const double* lines_message(const DualEdge& edge, bool to_b) const;
  struct Line {
    const double* entries;
    std::size_t stride;
  };
  Line line_of(const DualEdge& edge, bool of_a, int strategy) const;
  std::size_t share_at(const DualTerm::TermEdge& part, std::size_t row_class,
                       std::size_t column_class) const;
  void start_shares(const DualTerm& term, int row_class, int column, double cost, int readers);
  void start_messages(const DualTerm& term);
  void split_terms();
  void collect(const DualTerm& term, std::size_t j);
  void split(const DualTerm& term);
  void give_shares(const DualTerm& term, std::size_t part, std::size_t row);
  void extrapolate_shares(const DualTerm& term, const State& before, double times);
  void level_above_zero(const DualTerm& term, std::size_t row, std::size_t contested);
  void split_copies(const DualTerm& term);
  /// Prices the copies' states under the multipliers. The terms whose prices changed.
  std::vector<const DualTerm*> price_supplies();
  SupplyPrices prices_of(const SharedCopy& copy) const;
  Limits limits(const DualTerm& term, std::size_t row_class, std::size_t copy) const;
  /// Scales the shares of copies to the limits that they have now.
  void rescale(const DualTerm& term);
  void rescale(const DualTerm& term, std::size_t row_class, std::size_t copy);
  double most_expensive(const SharedCopy& copy) const;
  int exact_shift() const;
  Cost reduced(const DualEdge& edge, const Exact& exact, std::size_t number, int p, int q) const;
  unsigned groups_of(const DualTerm& term, int column) const;
  double cells_of_copies() const;
  double cells_of_rows() const;
  void round_shares(Exact& exact) const;
  void round_shares(const DualTerm& term, int row_class, int column,
                    std::array<Cost, 1u << kMostGroups>& left, Exact& exact) const;
  Cost exact_limit(const SharedTerm& term, const SharedCopy& copy, int row, unsigned groups,
                   const std::vector<Cost>& prices, int shift) const;
  __extension__ using Wide = __int128;
  using WholeSums = std::vector<Wide>;
  WholeSums whole_sums(int shift) const;
  std::vector<Cost> exact_prices(int node, const WholeSums& upto, int shift) const;
  void add_usage_prices(Exact& exact) const;
  void add_edge_minima(Exact& exact) const;
  void reparametrise(Model& model) const;
  std::int64_t fix_pairs(Model& model, const Exact& exact, std::size_t number, Cost allowed) const;

  const Model* model_;
  std::vector<int> at_;  // position of each model node
  std::vector<DualNode> nodes_;
  std::vector<DualEdge> edges_;
  std::vector<DualTerm> terms_;
  State state_;
  std::optional<CopyStates> copies_;  // under the multipliers; none: there are no copies
  double slack_price_ = 0;
  std::vector<int> rounded_;
  double temperature_ = 0;
  std::vector<double> weights_;  // per node and strategy; empty without rows
  mutable std::vector<double> scratch_, conditioned_, collapsed_, lines_;
  std::vector<std::vector<double>> from_source_, from_reader_;  // messages by class, per reader
  std::vector<double*> paid_;                                   // shares of a pair of classes
  // of the term being split
  std::vector<double> split_rows_, split_columns_, height_, lowest_, level_;
};

}  // namespace alpa::ilp
