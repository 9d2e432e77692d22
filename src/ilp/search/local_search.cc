// Feasible choices improved, and infeasible ones repaired, by moves of few nodes and their copies;
// choices of the problem carried over to the reduced model
#include "src/ilp/search/local_search.h"

#include <algorithm>
#include <optional>
#include <queue>
#include <utility>

#include "alpa/base/error.h"
#include "src/ilp/model/copy_states.h"
#include "src/ilp/model/tuning.h"

namespace alpa::ilp {
namespace {

/// New choices of a node, or of two neighbours, and of the copies that follow.
using Move = std::vector<std::pair<int, int>>;

/// What a strategy costs, and what it uses at one row; mostly relative to the present one.
struct Effect {
  Cost forbidden = 0;  ///< number of infinite costs
  Cost cost = 0;       ///< sum of the others
  Cost usage = 0;
  void add(Cost more) {
    const bool never = more >= kNever;
    forbidden += never, cost += never ? 0 : more;
  }
  void add(const Effect& other, int sign = 1) {
    forbidden += sign * other.forbidden, cost += sign * other.cost, usage += sign * other.usage;
  }
  bool is_better() const { return forbidden < 0 || (forbidden == 0 && cost < 0); }
};

/// A strategy that takes usage from a row.
struct Relief {
  double rate;  ///< cost per unit
  int node, strategy;
  std::int64_t looked_at;  ///< when, in numbers of moves and looks
  bool operator>(const Relief& other) const {
    return rate != other.rate ? rate > other.rate : node > other.node;
  }
};

/// Per term and column, the copy that serves it; null: none.
std::vector<std::vector<const SharedCopy*>> copies_by_column(const Model& model) {
  std::vector<std::vector<const SharedCopy*>> copies(model.terms.size());
  for (std::size_t t = 0; t < copies.size(); ++t) {
    copies[t].resize(static_cast<std::size_t>(model.terms[t].columns));
    for (const SharedCopy& copy : model.terms[t].copies) copies[t][copy.column] = &copy;
  }
  return copies;
}

class LocalSearch {
 public:
  LocalSearch(const Model& model, std::vector<int>& choice, const std::vector<double>& row_prices,
              const Deadline& deadline)
      : model_(model),
        choice_(choice),
        states_(model, row_prices),
        copies_(copies_by_column(model)),
        deadline_(deadline),
        over_(excess(model, choice)),
        nodes_(live_nodes(model)),
        touched_(model.nodes.size(), 0),
        settled_nodes_(model.nodes.size(), 0),
        settled_edges_(model.edges.size(), 0) {}

  void leave_forbidden() {
    states_.complete(choice_);
    over_ = excess(model_, choice_);
    for (int node : nodes_) {
      if (deadline_.passed()) return;
      const std::vector<Effect>& effects = effects_of(node, kNoRow);
      const auto best =
          std::min_element(effects.begin(), effects.end(), [](const Effect& a, const Effect& b) {
            return std::pair(a.forbidden, a.cost) < std::pair(b.forbidden, b.cost);
          });
      if (best->forbidden < 0) carry_out(move_to(node, static_cast<int>(best - effects.begin())));
    }
  }

  /// The best move of each node in turn, as long as one helps; then those of two neighbours.
  void improve() {
    const std::vector<int> edges = live_edges(model_);
    const auto sweep = [&](const std::vector<int>& items, auto&& improved) {
      bool changed = false;
      for (int item : items) {
        if (deadline_.passed()) break;
        changed |= improved(item);
      }
      return changed;
    };
    while (sweep(nodes_, [&](int node) { return improve_node(node); }) ||
           sweep(edges, [&](int e) { return improve_edge(e); }))
      if (deadline_.passed()) return;
  }

  /// True once no row is exceeded: relieves the one exceeded most, and so on.
  bool relieve(int moves) {
    while (!over_.empty()) {
      const auto worst = std::max_element(over_.begin(), over_.end());
      if (*worst <= 0) break;
      const int made = relieve_row(static_cast<int>(worst - over_.begin()), moves);
      if (made == 0) return false;
      moves -= made;
    }
    return true;
  }

 private:
  /// The cheapest moves per unit of relief, `most` of them at most. Returns how many.
  int relieve_row(int row, int most) {
    std::priority_queue<Relief, std::vector<Relief>, std::greater<>> queue;
    const auto add = [&](int node) {
      if (const std::optional<Relief> relief = relief_by(node, row)) queue.push(*relief);
    };
    for (int node : nodes_) {
      if (deadline_.passed()) return 0;
      add(node);
    }
    deadline_.spend(kTuning.local_search.use_cells * static_cast<double>(nodes_.size()));
    int made = 0;
    while (over_[row] > 0 && !queue.empty() && made < most && !deadline_.passed()) {
      const Relief relief = queue.top();
      queue.pop();
      if (touched_[relief.node] <= relief.looked_at) {
        const Move move = move_to(relief.node, relief.strategy);
        carry_out(move), touch(move), ++made;
      }
      add(relief.node);
    }
    return made;
  }

  std::optional<Relief> relief_by(int node, int row) {
    std::optional<Relief> best;
    if (!uses(node, row)) return best;
    const std::vector<Effect>& effects = effects_of(node, row);
    for (int s = 0; s < static_cast<int>(effects.size()); ++s) {
      const Cost relief = std::min(-effects[s].usage, over_[row]);
      if (relief <= 0 || effects[s].forbidden > 0) continue;
      const double cost = static_cast<double>(effects[s].cost) +
                          static_cast<double>(kNever) * static_cast<double>(effects[s].forbidden);
      const double rate = cost / static_cast<double>(relief);
      if (!best || rate < best->rate) best = Relief{rate, node, s, clock_};
    }
    return best;
  }

  /// One entry per strategy of the node; the edge `without` costs nothing.
  void find_effects(int node, int row, int without, std::vector<Effect>& effects) {
    const ModelNode& n = model_.nodes[node];
    effects.resize(n.costs.size());
    const Piece* piece = n.piece_at(row);
    for (std::size_t s = 0; s < effects.size(); ++s) {
      effects[s] = {0, 0, piece ? piece->amounts[s] : 0};
      effects[s].add(n.costs[s]);
    }
    for (int e : n.edges) {
      if (e == without) continue;
      const View table = view(model_, e, node);
      const int other = choice_[model_.edges[e].other(node)];
      for (std::size_t s = 0; s < effects.size(); ++s)
        effects[s].add(table.at(static_cast<int>(s), other));
    }
    for (int t : n.terms) add_term(model_.terms[t], node, row, effects);
    deadline_.spend(
        static_cast<double>(effects.size() * (n.edges.size() + 1) + std::exchange(term_cells_, 0)) +
        kTuning.local_search.move_cells);
    const Effect now = effects[choice_[node]];
    for (Effect& effect : effects) effect.add(now, -1);
  }

  const std::vector<Effect>& effects_of(int node, int row) {
    find_effects(node, row, -1, effects_);
    return effects_;
  }

  /// Cost of the term and usage of its copies, per strategy of the node, up to a constant.
  void add_term(const SharedTerm& term, int node, int row, std::vector<Effect>& effects) {
    find_groups(term, node);
    const std::vector<unsigned>& wanted = wanted_by_others_;
    const int source = term.source.classes[choice_[term.source.node]];
    if (term.source.node == node) {
      std::vector<std::optional<Effect>> by_row(static_cast<std::size_t>(term.rows));
      for (std::size_t s = 0; s < effects.size(); ++s) {
        std::optional<Effect>& effect = by_row[term.source.classes[s]];
        if (!effect) effect = effect_of(term, term.source.classes[s], row);
        effects[s].add(*effect);
      }
    } else if (model_.nodes[node].copy) {
      for (const SharedCopy& copy : term.copies)
        for (std::size_t s = 0; copy.node == node && s < effects.size(); ++s)
          effects[s].add(serves(copy.supplies[s], wanted[copy.column])
                             ? term.cost(source, copy, static_cast<int>(s))
                             : kNever);
    } else {
      add_reader(term, node, source, row, effects);
    }
    term_cells_ += effects.size();
  }

  /// What the columns that the node wants gain by its groups.
  void add_reader(const SharedTerm& term, int node, int source, int row,
                  std::vector<Effect>& effects) {
    own_readers_.clear();
    for (const SharedEnd& reader : term.readers)
      if (reader.node == node) own_readers_.push_back(&reader);
    gains_.assign(wanted_by_others_.size(), {});
    added_.assign(wanted_by_others_.size(), 0);
    term_cells_ += effects.size() * own_readers_.size();
    for (std::size_t s = 0; s < effects.size(); ++s) {
      for (const SharedEnd* reader : own_readers_)
        added_[reader->classes[s]] |= 1u << reader->group;
      for (const SharedEnd* reader : own_readers_) {
        const int column = reader->classes[s];
        const unsigned groups = std::exchange(added_[column], 0);
        if (groups == 0) continue;
        auto& [of, gain] = gains_[column];
        if (of != groups) {
          const unsigned others = wanted_by_others_[column];
          gain = column_effect(term, source, column, others | groups, row);
          gain.add(column_effect(term, source, column, others, row), -1);
          of = groups;
        }
        effects[s].add(gain);
      }
    }
  }

  /// Of a source that takes this row: cost and usage of serving what all readers want.
  Effect effect_of(const SharedTerm& term, int source, int row) {
    Effect sum;
    for (int column = 0; column < term.columns; ++column)
      sum.add(column_effect(term, source, column, wanted_by_others_[column], row));
    return sum;
  }

  /// Cost and usage of serving the groups. The copy keeps its state if
  /// nothing it depends on changes.
  Effect column_effect(const SharedTerm& term, int source, int column, unsigned groups, int row) {
    const SharedCopy* copy = copies_[&term - model_.terms.data()][column];
    if (copy == nullptr) return {0, groups != 0 ? term.cost(source, column) : 0, 0};
    const bool as_it_is = source == term.source.classes[choice_[term.source.node]] &&
                          groups == wanted_by_all_[column];
    term_cells_ += as_it_is ? 1 : copy->supplies.size();
    const int state =
        as_it_is ? choice_[copy->node] : states_.cheapest(term, *copy, source, groups);
    Effect effect{0, 0, amount(copy->node, state, row)};
    effect.add(serves(copy->supplies[state], groups) ? term.cost(source, *copy, state) : kNever);
    effect.add(model_.nodes[copy->node].costs[state]);
    return effect;
  }

  unsigned groups_of(const SharedTerm& term, int column) const {
    unsigned groups = 0;
    for (const SharedEnd& reader : term.readers)
      if (reader.classes[choice_[reader.node]] == column) groups |= 1u << reader.group;
    return groups;
  }

  /// Sets the groups that want each column of the term: of all readers, and of all but the node's.
  void find_groups(const SharedTerm& term, int node) {
    wanted_by_all_.assign(static_cast<std::size_t>(term.columns), 0);
    wanted_by_others_.assign(static_cast<std::size_t>(term.columns), 0);
    for (const SharedEnd& reader : term.readers) {
      const int column = reader.classes[choice_[reader.node]];
      wanted_by_all_[column] |= 1u << reader.group;
      if (reader.node != node) wanted_by_others_[column] |= 1u << reader.group;
    }
    term_cells_ += term.readers.size();
  }

  /// The node's strategy s, and the copies of its terms that follow.
  Move move_to(int node, int s) {
    Move changes = {{node, s}};
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
    const Piece* piece = model_.nodes[node].piece_at(row);
    return piece ? piece->amounts[state] : 0;
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

  void carry_out(const Move& changes) {
    for (auto [node, state] : changes) {
      add_usage(node, choice_[node], -1);
      add_usage(node, state, 1);
      choice_[node] = state;
    }
  }

  /// A record of changes, for undoing them.
  Move present(const Move& changes) const {
    Move back;
    for (auto [node, state] : changes) back.emplace_back(node, choice_[node]);
    return back;
  }

  bool within(const Move& changes) const {
    for (auto [node, state] : changes)
      for (const Piece& piece : model_.nodes[node].pieces)
        for (int r = piece.from; r < piece.to; ++r)
          if (over_[r] > 0) return false;
    return true;
  }

  /// Carries the move out if the rows allow it.
  bool try_move(const Move& move) {
    const Move back = present(move);
    carry_out(move);
    if (within(move)) return touch(move), true;
    carry_out(back);
    return false;
  }

  /// Notes a move for all whose costs depend on it.
  void touch(const Move& move) {
    ++clock_;
    for (auto [node, state] : move) for_each_near(node, [&](int near) { touched_[near] = clock_; });
  }

  bool improve_node(int node) {
    if (settled_nodes_[node] > touched_[node]) return false;
    const std::vector<Effect>& effects = effects_of(node, kNoRow);
    std::vector<int> order;
    for (int s = 0; s < static_cast<int>(effects.size()); ++s)
      if (effects[s].is_better()) order.push_back(s);
    std::sort(order.begin(), order.end(),
              [&](int a, int b) { return effects[a].cost < effects[b].cost; });
    if (order.empty()) settled_nodes_[node] = ++clock_;
    return std::any_of(order.begin(), order.end(),
                       [&](int s) { return try_move(move_to(node, s)); });
  }

  /// The best choice of both ends, if they meet in no term.
  bool improve_edge(int e) {
    const ModelEdge& edge = model_.edges[e];
    if (settled_edges_[e] > std::max(touched_[edge.a], touched_[edge.b])) return false;
    if (share_a_term(edge.a, edge.b)) return false;
    find_effects(edge.a, kNoRow, e, effects_);
    find_effects(edge.b, kNoRow, e, others_);
    deadline_.spend(static_cast<double>(edge.costs.size()));
    const std::size_t width = others_.size();
    Cost best = edge.costs[choice_[edge.a] * width + choice_[edge.b]];
    std::optional<std::pair<int, int>> better;
    for (std::size_t p = 0; p < effects_.size(); ++p) {
      if (effects_[p].forbidden > 0) continue;
      const Cost* row = edge.costs.data() + p * width;
      for (std::size_t q = 0; q < width; ++q)
        if (const Cost cost = effects_[p].cost + others_[q].cost + row[q];
            cost < best && others_[q].forbidden == 0)
          best = cost, better = {static_cast<int>(p), static_cast<int>(q)};
    }
    if (!better) return settled_edges_[e] = ++clock_, false;
    Move both = move_to(edge.a, better->first);
    const Move second = move_to(edge.b, better->second);
    both.insert(both.end(), second.begin(), second.end());
    return try_move(both);
  }

  bool share_a_term(int a, int b) const {
    const std::vector<int>& theirs = model_.nodes[b].terms;
    return std::any_of(model_.nodes[a].terms.begin(), model_.nodes[a].terms.end(), [&](int t) {
      return std::find(theirs.begin(), theirs.end(), t) != theirs.end();
    });
  }

  static constexpr int kNoRow = -1;

  const Model& model_;
  std::vector<int>& choice_;
  const CopyStates states_;
  const std::vector<std::vector<const SharedCopy*>> copies_;  ///< by term and column
  const Deadline& deadline_;
  std::vector<Cost> over_;
  std::vector<int> nodes_;
  std::vector<Effect> effects_, others_;  ///< of the nodes looked at last
  /// The term looked at last: groups by column, readers at the node, and what a column gains by
  /// these groups.
  std::vector<unsigned> wanted_by_all_, wanted_by_others_, added_;
  std::vector<const SharedEnd*> own_readers_;
  std::vector<std::pair<unsigned, Effect>> gains_;
  std::size_t term_cells_ = 0;  ///< of work on terms that has not been reported yet
  /// Numbers of moves and looks: when what a node costs last changed, and when a node or an edge
  /// was last found to have no cheaper choice. One that has not changed since is skipped.
  std::vector<std::int64_t> touched_, settled_nodes_, settled_edges_;
  std::int64_t clock_ = 1;
};

}  // namespace

void improve(const Model& model, std::vector<int>& choice, const Deadline& deadline,
             const std::vector<double>& row_prices) {
  const Cost before = price(model, choice);
  invariant(before < kNever, "a choice to be improved is forbidden");
  LocalSearch(model, choice, row_prices, deadline).improve();
  const Cost after = price(model, choice);
  invariant(after <= before, "small moves took the cost from {} to {}", before, after);
}

bool repair(const Model& model, std::vector<int>& choice, int moves, const Deadline& deadline,
            const std::vector<double>& row_prices) {
  LocalSearch search(model, choice, row_prices, deadline);
  if (price(model, choice) >= kNever) search.leave_forbidden();
  return search.relieve(moves) && price(model, choice) < kNever;
}

namespace {

constexpr int kDropped = -1;

/// True for steps that renumber a node's strategies and keep the node.
bool renumbers(const Step& step) { return step.scope.size() == 1 && step.scope[0] == step.node; }

/// The choice in the numbers of the strategies that are left; kDropped where there is none.
void renumber(const Model& model, std::vector<int>& choice) {
  for (const Step& step : model.trail) {
    if (!renumbers(step) || choice[step.node] == kDropped) continue;
    const auto at = std::find(step.table->begin(), step.table->end(), choice[step.node]);
    choice[step.node] =
        at == step.table->end() ? kDropped : static_cast<int>(at - step.table->begin());
  }
}

/// The cheapest strategy given the neighbours' choices; dropped nodes may take any strategy.
int cheapest(const Model& model, int node, const std::vector<int>& choice) {
  std::vector<Cost> costs = model.nodes[node].costs;
  for (int e : model.nodes[node].edges) {
    const View table = view(model, e, node);
    const int q = choice[model.edges[e].other(node)];
    for (int p = 0; p < static_cast<int>(costs.size()); ++p) {
      Cost least = q == kDropped ? kNever : table.at(p, q);
      for (int r = 0; q == kDropped && r < table.columns; ++r)
        least = std::min(least, table.at(p, r));
      costs[p] = plus(costs[p], least);
    }
  }
  return static_cast<int>(std::min_element(costs.begin(), costs.end()) - costs.begin());
}

}  // namespace

std::vector<int> carry_over(const Model& model, std::vector<int> choice, const Deadline& deadline) {
  choice.resize(model.nodes.size(), kDropped);
  renumber(model, choice);
  for (int node : live_nodes(model))
    if (choice[node] == kDropped) choice[node] = cheapest(model, node, choice);
  for (std::size_t i = 0; i < choice.size(); ++i)
    if (!model.nodes[i].alive) choice[i] = 0;
  if ((price(model, choice) >= kNever || !fits(model, choice)) &&
      !repair(model, choice, kTuning.local_search.start_repair_moves, deadline))
    return {};
  improve(model, choice, deadline.within(deadline.left() / 4));
  return choice;
}

}  // namespace alpa::ilp
