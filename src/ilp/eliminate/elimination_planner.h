#pragma once
/// Plans the order in which nodes are eliminated, and its cost, before any table is computed.
#include <functional>
#include <map>
#include <queue>
#include <span>
#include <tuple>
#include <vector>

#include "src/ilp/eliminate/elimination_tables.h"
#include "src/ilp/model/boundary_table.h"
#include "src/ilp/model/model.h"

namespace alpa::ilp {

/// One node eliminated: the table over `scope` that takes its place.
struct Elimination {
  int node = 0;
  std::vector<int> scope;
  int table = 0;  ///< its number
};

/// Eliminates nodes symbolically, smallest tables first. The model and `kept` outlive it.
class EliminationPlanner {
 public:
  /// With `copies_first`, nodes of two strategies go before all others: what shares a
  /// value's copies is then joined once, instead of the copies among themselves. Nodes
  /// of `kept` (ascending) stay.
  EliminationPlanner(const Model& model, bool copies_first, const Deadline& deadline,
                     std::span<const int> kept = {});

  /// Adds costs beside those of the model. Before `plan`.
  void add(const JointCosts& joint);

  /// Plans the elimination of `nodes`, which no edge joins to others. False at the deadline, if one
  /// table has more than `cells` cells, or if all together take more than `allowance`.
  bool plan(const std::vector<int>& nodes, double cells, const Allowance& allowance);

  /// Number of the table over all kept nodes. After `plan`.
  int rest();

  /// Steps of the minimisations planned.
  double steps() const { return steps_; }
  /// Work of the planning itself, in cells.
  double planning() const { return planning_; }
  /// Cells of the largest table.
  double largest() const { return largest_; }
  const Model& model() const { return model_; }
  Tables& tables() { return tables_; }
  const std::vector<Elimination>& order() const { return order_; }

 private:
  /// A table over nodes that are not all eliminated yet.
  struct Factor {
    std::vector<int> scope;  ///< as the table is stored
    int table;
  };

  /// A node while it is there.
  struct Live {
    std::vector<Factor> factors;
    std::vector<int> neighbours;  ///< ascending
    bool is_gone = false;
  };

  using Entry = std::tuple<bool, double, int>;  // late, table size, node

  Live& at(int node);
  void load(int node);
  void spread(const Factor& factor);
  double table_size(int node);
  void push(int node);
  void join_factors(int node);
  Factor sum(const std::vector<int>& scope, const std::vector<Factor>& factors);
  bool eliminate(int node);
  bool is_transient(int node);
  Recipe recipe(int strategies, int node, const std::vector<int>& scope,
                const std::vector<Factor>& factors) const;

  const Model& model_;
  bool copies_first_;
  const Deadline& deadline_;
  std::span<const int> kept_;
  double steps_ = 0, largest_ = 0, planning_ = 0;
  Tables tables_;
  std::vector<int> place_;  ///< per node of the model, in `live_`
  std::vector<Live> live_;
  std::vector<Factor> alone_;                 ///< over no node
  std::map<const void*, int> of_joint_;       ///< numbers of joint costs by their table
  std::map<std::vector<int>, int> repeated_;  ///< planned eliminations by size
  std::size_t last_factors_ = 0;              ///< of the last node eliminated
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue_;
  std::vector<Elimination> order_;
};

}  // namespace alpa::ilp
