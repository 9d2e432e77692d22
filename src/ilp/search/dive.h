#pragma once
/// Finds a first feasible choice by depth-first search, without a bound, so that a solution exists
/// at any time limit.
#include <optional>
#include <utility>
#include <vector>

#include "src/ilp/model/model.h"

namespace alpa::ilp {

/// Depth-first search for a choice without infinite costs: each node takes the strategy that is
/// cheapest given the earlier choices. After each assignment, strategies without a compatible
/// partner are removed; a step that empties a node or overfills a usage row is undone. Later dives
/// decide first the nodes at edges that caused such conflicts, fewest strategies per conflict first
/// (dom/wdeg, Boussemart et al., ECAI 2004). Not shared between threads; the model outlives it.
class Diver {
 public:
  explicit Diver(const Model& model);

  struct Settings {
    bool keep_rows = false;  ///< false: usage rows are ignored
    int conflicts = 0;       ///< the most steps that may be undone
  };

  /// The choice; nullopt if none exists, the conflicts are used up, or the deadline has passed.
  std::optional<std::vector<int>> dive(const Settings& settings, const Deadline& deadline);

  /// True if the last dive searched everything: no feasible choice exists.
  bool exhausted() const { return exhausted_; }

 private:
  using Strategies = std::vector<char>;
  struct Decision {
    int node;
    std::size_t position;         ///< in nodes_; all nodes before it are decided
    std::vector<int> order;       ///< strategies to try
    std::size_t next;             ///< in order
    std::size_t removed, raised;  ///< sizes of removed_ and raised_ before it
  };
  struct Raise {
    int node;
    std::size_t piece;
    Cost least;  ///< before
  };

  Strategies::const_iterator first_allowed(int node) const;
  std::optional<int> next_node(std::size_t& position) const;
  bool is_over(const Deadline& deadline);
  bool decide(int& conflicts, const Deadline& deadline);
  void remove(int node, int strategy);
  void undo(std::size_t removed, std::size_t raised);
  bool keep_only(int node, int strategy);
  std::vector<int> cheapest_first(int node, const Deadline& deadline) const;
  void add_neighbours(int node);
  bool propagate();
  bool rule_out(int node, int edge);
  bool raise_usage(int node);
  void set_least(int node, std::size_t piece, Cost least);
  bool drop_unfitting(int node);

  const Model& model_;
  std::vector<int> nodes_, difficult_;  ///< the difficult ones are decided first
  std::vector<char> forbids_;           ///< per edge: whether an entry is infinite
  std::vector<Strategies> allowed_;     ///< per node of the model
  /// per node of the model: number of strategies still allowed
  std::vector<int> open_;
  std::vector<int> conflicts_;  ///< per node of the model: how often its edges emptied one
  std::vector<std::pair<int, int>> removed_;  ///< nodes and strategies, in order
  bool keep_rows_ = false;
  /// per node of the model and piece, of the strategies allowed
  std::vector<std::vector<Cost>> least_;
  std::vector<Cost> used_;     ///< per row, by the least amounts
  std::vector<Raise> raised_;  ///< in order
  std::vector<Decision> decisions_;
  /// nodes, and edges across which a strategy was removed
  std::vector<std::pair<int, int>> pending_;
  bool exhausted_ = false;
  double cells_ = 0;  ///< cells read since the deadline was last informed
};

/// A feasible choice of the live nodes; nothing after `dives` dives or at the deadline. By turns a
/// dive does without the rows and is repaired, and another keeps them; from pair to pair they may
/// undo twice as many steps. Throws Contradiction if a dive
/// proves that there is no feasible choice.
std::vector<int> first_choice(const Model& model, int dives, const Deadline& deadline);

}  // namespace alpa::ilp
