// Local search over nodes whose shared terms have copies
#include "src/ilp/search/copy_moves.h"

#include <algorithm>
#include <optional>

#include "alpa/base/error.h"
#include "src/ilp/model/copy_states.h"
#include "src/ilp/model/tuning.h"

namespace alpa::ilp {
namespace {

/// A choice of one node and of the copies that follow.
using Changes = std::vector<std::pair<int, int>>;

/// Cost of a strategy, and its usage at one row, relative to the present one.
struct Effect {
  Cost cost = 0;  ///< kNever: forbidden
  Cost usage = 0;
  void add(Effect other) {
    cost = plus(cost, other.cost);
    usage += other.usage;
  }
};

/// A move that relieves a row, and its cost per unit of relief; -1 if no strategy relieves it.
struct Relief {
  int strategy = -1;
  double rate = 0;
};

class CopySearch {
 public:
  CopySearch(const Model& model, std::vector<int>& choice, const std::vector<double>& row_prices,
             const Deadline& deadline)
      : model_(model),
        choice_(choice),
        states_(model, row_prices),
        deadline_(deadline),
        over_(excess(model, choice)),
        nodes_(live_nodes(model)) {}

  void leave_forbidden() {
    states_.complete(choice_);
    over_ = excess(model_, choice_);
    for (int node : nodes_) {
      if (deadline_.passed()) return;
      if (cost_around(node) >= kNever) move_anywhere(node);
    }
  }

  /// The best move of each node in turn, as long as one helps.
  void improve() {
    std::vector<char> settled(model_.nodes.size(), 0);
    for (bool changed = true; changed && !deadline_.passed();) {
      changed = false;
      for (int node : nodes_) {
        if (settled[node]) continue;
        if (deadline_.passed()) break;
        settled[node] = 1;
        if (!improve_node(node)) continue;
        changed = true;
        for_each_near(node, [&](int near) { settled[near] = 0; });
      }
    }
  }

  bool exceeded() const {
    return std::any_of(over_.begin(), over_.end(), [](Cost c) { return c > 0; });
  }

  /// The cheapest move per unit of relief of a row that is exceeded. False if none relieves it.
  bool relieve() {
    if (row_ < 0 || over_[row_] <= 0) {
      row_ = static_cast<int>(std::max_element(over_.begin(), over_.end()) - over_.begin());
      reliefs_.assign(model_.nodes.size(), std::nullopt);
    }
    int best = -1;
    for (int node : nodes_) {
      if (!reliefs_[node]) {
        if (deadline_.passed()) return false;
        reliefs_[node] = relief_by(node);
      }
      if (reliefs_[node]->strategy < 0) continue;
      if (best < 0 || reliefs_[node]->rate < reliefs_[best]->rate) best = node;
    }
    if (best < 0) return false;
    carry_out(changes_to(best, reliefs_[best]->strategy));
    for_each_near(best, [&](int near) { reliefs_[near].reset(); });
    return true;
  }

 private:
  Relief relief_by(int node) {
    Relief best;
    if (!uses(node, row_)) return best;
    const std::vector<Effect> effects = effects_of(node, row_);
    for (int s = 0; s < static_cast<int>(effects.size()); ++s) {
      const Cost relief = std::min(-effects[s].usage, over_[row_]);
      if (relief <= 0 || effects[s].cost >= kNever / 2) continue;
      const double rate = static_cast<double>(effects[s].cost) / static_cast<double>(relief);
      if (best.strategy < 0 || rate < best.rate) best = {s, rate};
    }
    return best;
  }

  /// One entry per strategy of the node.
  std::vector<Effect> effects_of(int node, int row) const {
    const ModelNode& n = model_.nodes[node];
    std::vector<Effect> effects(n.costs.size());
    const int present = choice_[node];
    for (std::size_t s = 0; s < effects.size(); ++s)
      effects[s] = {n.costs[s], amount(node, static_cast<int>(s), row)};
    for (int e : n.edges) {
      const View table = view(model_, e, node);
      const int other = choice_[model_.edges[e].other(node)];
      for (std::size_t s = 0; s < effects.size(); ++s)
        effects[s].cost = plus(effects[s].cost, table.at(static_cast<int>(s), other));
    }
    for (int t : n.terms) add_term(model_.terms[t], node, row, effects);
    deadline_.spend(static_cast<double>(effects.size() * (n.edges.size() + n.terms.size() + 1)) +
                    kTuning.copy_moves.move_cells);
    const Effect now = effects[present];
    for (Effect& effect : effects) {
      effect.usage -= now.usage;
      if (effect.cost < kNever) effect.cost -= now.cost < kNever ? now.cost : kNever / 2;
    }
    return effects;
  }

  /// Cost of the term and usage of its copies, per strategy of the node.
  void add_term(const SharedTerm& term, int node, int row, std::vector<Effect>& effects) const {
    std::vector<int> mine;
    for (std::size_t j = 0; j < term.readers.size(); ++j)
      if (term.readers[j].node == node) mine.push_back(static_cast<int>(j));
    std::vector<unsigned> wanted = groups_without(term, node);
    const int source = term.source.classes[choice_[term.source.node]];
    if (term.source.node == node) {
      std::vector<std::optional<Effect>> by_row(static_cast<std::size_t>(term.rows));
      for (std::size_t s = 0; s < effects.size(); ++s) {
        std::optional<Effect>& effect = by_row[term.source.classes[s]];
        if (!effect) effect = effect_of(term, term.source.classes[s], wanted, row);
        effects[s].add(*effect);
      }
    } else if (mine.size() == 1) {
      add_reader(term, term.readers[mine[0]], source, wanted, row, effects);
    } else if (mine.empty()) {
      for (const SharedCopy& copy : term.copies)
        for (std::size_t s = 0; copy.node == node && s < effects.size(); ++s)
          effects[s].cost = plus(effects[s].cost, serves(copy.supplies[s], wanted[copy.column])
                                                      ? term.cost(source, copy, static_cast<int>(s))
                                                      : kNever);
    } else {
      for (std::size_t s = 0; s < effects.size(); ++s) {
        std::vector<unsigned> all = wanted;
        for (int j : mine) all[term.readers[j].classes[s]] |= 1u << term.readers[j].group;
        effects[s].add(effect_of(term, source, all, row));
      }
    }
  }

  /// The effects of one reader, whose column gains its group.
  void add_reader(const SharedTerm& term, const SharedEnd& reader, int source,
                  const std::vector<unsigned>& wanted, int row,
                  std::vector<Effect>& effects) const {
    std::vector<std::optional<Effect>> by_column(static_cast<std::size_t>(term.columns));
    const int left = reader.classes[choice_[reader.node]];
    const Effect without = column_effect(term, source, left, wanted[left], row);
    for (std::size_t s = 0; s < effects.size(); ++s) {
      const int column = reader.classes[s];
      if (!by_column[column]) {
        Effect effect =
            column_effect(term, source, column, wanted[column] | 1u << reader.group, row);
        if (column != left) {
          const Effect before = column_effect(term, source, column, wanted[column], row);
          effect.usage += without.usage - before.usage;
          if (effect.cost < kNever && before.cost < kNever)
            effect.cost = plus(effect.cost - before.cost, without.cost);
        }
        by_column[column] = effect;
      }
      effects[s].add(*by_column[column]);
    }
  }

  Effect effect_of(const SharedTerm& term, int source, const std::vector<unsigned>& wanted,
                   int row) const {
    Effect sum;
    for (int column = 0; column < term.columns; ++column)
      sum.add(column_effect(term, source, column, wanted[column], row));
    return sum;
  }

  /// Cost and usage of serving the groups. The copy keeps its state if
  /// nothing it depends on changes.
  Effect column_effect(const SharedTerm& term, int source, int column, unsigned groups,
                       int row) const {
    const SharedCopy* copy = copy_of(term, column);
    if (copy == nullptr) return {groups != 0 ? term.cost(source, column) : 0, 0};
    const bool as_it_is = source == term.source.classes[choice_[term.source.node]] &&
                          groups == groups_of(term, column);
    const int state =
        as_it_is ? choice_[copy->node] : states_.cheapest(term, *copy, source, groups);
    const Cost cost =
        serves(copy->supplies[state], groups) ? term.cost(source, *copy, state) : kNever;
    return {plus(cost, model_.nodes[copy->node].costs[state]), amount(copy->node, state, row)};
  }

  static const SharedCopy* copy_of(const SharedTerm& term, int column) {
    for (const SharedCopy& copy : term.copies)
      if (copy.column == column) return &copy;
    return nullptr;
  }

  unsigned groups_of(const SharedTerm& term, int column) const {
    unsigned groups = 0;
    for (const SharedEnd& reader : term.readers)
      if (reader.classes[choice_[reader.node]] == column) groups |= 1u << reader.group;
    return groups;
  }

  /// By column, the groups of all readers but the node's.
  std::vector<unsigned> groups_without(const SharedTerm& term, int node) const {
    std::vector<unsigned> result(static_cast<std::size_t>(term.columns), 0);
    for (const SharedEnd& reader : term.readers)
      if (reader.node != node) result[reader.classes[choice_[reader.node]]] |= 1u << reader.group;
    return result;
  }

  /// Present costs that depend on the node; infinite if a pair is forbidden.
  Cost cost_around(int node) const {
    const ModelNode& n = model_.nodes[node];
    Cost sum = n.costs[choice_[node]];
    for (int e : n.edges)
      sum =
          plus(sum, view(model_, e, node).at(choice_[node], choice_[model_.edges[e].other(node)]));
    for (int t : n.terms) sum = plus(sum, alpa::ilp::price(model_.terms[t], choice_));
    return sum;
  }

  /// The node's strategy s, and the copies of its terms that follow.
  Changes changes_to(int node, int s) {
    Changes changes = {{node, s}};
    if (model_.nodes[node].copy) return changes;
    for (int t : model_.nodes[node].terms) {
      const SharedTerm& term = model_.terms[t];
      std::vector<unsigned> before(term.copies.size());
      for (std::size_t k = 0; k < term.copies.size(); ++k)
        before[k] = groups_of(term, term.copies[k].column);
      const int present = choice_[node], row = term.source.classes[choice_[term.source.node]];
      choice_[node] = s;
      const int new_row = term.source.classes[choice_[term.source.node]];
      for (std::size_t k = 0; k < term.copies.size(); ++k) {
        const SharedCopy& copy = term.copies[k];
        const unsigned after = groups_of(term, copy.column);
        if (after != before[k] || row != new_row)
          changes.emplace_back(copy.node, states_.cheapest(term, copy, new_row, after));
      }
      choice_[node] = present;
    }
    return changes;
  }

  /// Calls `visit` with the nodes whose moves depend on the node's choice, and its own.
  template <class Visit>
  void for_each_near(int node, const Visit& visit) const {
    visit(node);
    for (int e : model_.nodes[node].edges) visit(model_.edges[e].other(node));
    for (int t : model_.nodes[node].terms) {
      const SharedTerm& term = model_.terms[t];
      visit(term.source.node);
      for (const SharedEnd& reader : term.readers) visit(reader.node);
      for (const SharedCopy& copy : term.copies) visit(copy.node);
    }
  }

  Cost amount(int node, int state, int row) const {
    for (const Piece& piece : model_.nodes[node].pieces)
      if (piece.from <= row && row < piece.to) return piece.amounts[state];
    return 0;
  }

  /// True if the node, or a copy that could follow it, uses something at the row.
  bool uses(int node, int row) const {
    if (amount(node, choice_[node], row) > 0) return true;
    if (model_.nodes[node].copy) return false;
    return std::any_of(
        model_.nodes[node].terms.begin(), model_.nodes[node].terms.end(), [&](int t) {
          const std::vector<SharedCopy>& copies = model_.terms[t].copies;
          return std::any_of(copies.begin(), copies.end(), [&](const SharedCopy& copy) {
            return choice_[copy.node] > 0 && amount(copy.node, choice_[copy.node], row) > 0;
          });
        });
  }

  void add_usage(int node, int state, int sign) {
    for (const Piece& piece : model_.nodes[node].pieces)
      for (int r = piece.from; piece.amounts[state] > 0 && r < piece.to; ++r)
        over_[r] += sign * piece.amounts[state];
  }

  void carry_out(const Changes& changes) {
    for (auto [node, state] : changes) {
      add_usage(node, choice_[node], -1);
      add_usage(node, state, 1);
      choice_[node] = state;
    }
  }

  /// A record of changes, for undoing them.
  Changes present(const Changes& changes) const {
    Changes back;
    for (auto [node, state] : changes) back.emplace_back(node, choice_[node]);
    return back;
  }

  bool within(const Changes& changes) const {
    for (auto [node, state] : changes)
      for (const Piece& piece : model_.nodes[node].pieces)
        for (int r = piece.from; r < piece.to; ++r)
          if (over_[r] > 0) return false;
    return true;
  }

  bool improve_node(int node) {
    const std::vector<Effect> effects = effects_of(node, kNoRow);
    std::vector<int> order;
    for (int s = 0; s < static_cast<int>(effects.size()); ++s)
      if (effects[s].cost < 0) order.push_back(s);
    std::sort(order.begin(), order.end(),
              [&](int a, int b) { return effects[a].cost < effects[b].cost; });
    for (int s : order) {
      const Changes changes = changes_to(node, s), back = present(changes);
      carry_out(changes);
      if (within(changes)) return true;
      carry_out(back);
    }
    return false;
  }

  /// To the strategy that costs least, if one is allowed.
  void move_anywhere(int node) {
    const std::vector<Effect> effects = effects_of(node, kNoRow);
    const auto best =
        std::min_element(effects.begin(), effects.end(),
                         [](const Effect& a, const Effect& b) { return a.cost < b.cost; });
    if (best->cost < kNever) carry_out(changes_to(node, static_cast<int>(best - effects.begin())));
  }

  static constexpr int kNoRow = -1;

  const Model& model_;
  std::vector<int>& choice_;
  const CopyStates states_;
  const Deadline& deadline_;
  std::vector<Cost> over_;
  std::vector<int> nodes_;
  int row_ = kNoRow;                            ///< being relieved
  std::vector<std::optional<Relief>> reliefs_;  ///< of that row, per node; none: to be found
};

}  // namespace

void improve_with_copies(const Model& model, std::vector<int>& choice,
                         const std::vector<double>& row_prices, const Deadline& deadline) {
  const Cost before = price(model, choice);
  invariant(before < kNever, "a choice to be improved is forbidden");
  CopySearch(model, choice, row_prices, deadline).improve();
  const Cost after = price(model, choice);
  invariant(after <= before, "small moves took the cost from {} to {}", before, after);
}

bool repair_with_copies(const Model& model, std::vector<int>& choice, int moves,
                        const std::vector<double>& row_prices, const Deadline& deadline) {
  CopySearch search(model, choice, row_prices, deadline);
  if (price(model, choice) >= kNever) search.leave_forbidden();
  while (search.exceeded())
    if (moves-- <= 0 || deadline.passed() || !search.relieve()) return false;
  return price(model, choice) < kNever;
}

}  // namespace alpa::ilp
