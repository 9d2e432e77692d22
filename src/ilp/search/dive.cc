// Depth-first search for a first choice with propagation; dives and repairs in turn
#include "src/ilp/search/dive.h"

#include <algorithm>

#include "src/ilp/model/copy_states.h"
#include "src/ilp/model/tuning.h"
#include "src/ilp/search/local_search.h"

namespace alpa::ilp {

Diver::Diver(const Model& model)
    : model_(model),
      nodes_(live_nodes(model)),
      forbids_(model.edges.size()),
      allowed_(model.nodes.size()),
      open_(model.nodes.size()),
      conflicts_(model.nodes.size()),
      least_(model.nodes.size()),
      used_(model.slack.size()) {
  for (int node : nodes_) {
    for (Cost cost : model.nodes[node].costs) allowed_[node].push_back(cost < kNever);
    open_[node] = static_cast<int>(std::count(allowed_[node].begin(), allowed_[node].end(), 1));
    least_[node].resize(model.nodes[node].pieces.size());
  }
  for (std::size_t e = 0; e < model.edges.size(); ++e)
    forbids_[e] = std::any_of(model.edges[e].costs.begin(), model.edges[e].costs.end(),
                              [](Cost cost) { return cost >= kNever; });
}

std::optional<std::vector<int>> Diver::dive(const Settings& settings, const Deadline& deadline) {
  undo(0, 0);
  decisions_.clear();
  keep_rows_ = settings.keep_rows;
  int conflicts = settings.conflicts;
  difficult_.clear();
  std::copy_if(nodes_.begin(), nodes_.end(), std::back_inserter(difficult_),
               [&](int n) { return conflicts_[n] > 0; });
  for (int node : nodes_) add_neighbours(node);
  exhausted_ = !propagate() ||
               !std::all_of(nodes_.begin(), nodes_.end(), [&](int n) { return raise_usage(n); });
  if (exhausted_) return std::nullopt;
  std::size_t position = 0;
  while (const std::optional<int> node = next_node(position)) {
    if (is_over(deadline)) return std::nullopt;
    decisions_.push_back({*node, position, {}, 0, removed_.size(), raised_.size()});
    if (drop_unfitting(*node)) decisions_.back().order = cheapest_first(*node, deadline);
    if (!decide(conflicts, deadline)) return std::nullopt;
    position = decisions_.back().position;
  }
  std::vector<int> choice(model_.nodes.size(), 0);
  for (int node : nodes_)
    choice[node] = static_cast<int>(first_allowed(node) - allowed_[node].begin());
  return choice;
}

Diver::Strategies::const_iterator Diver::first_allowed(int node) const {
  return std::find(allowed_[node].begin(), allowed_[node].end(), 1);
}

/// The next node with a choice left; nothing if all are decided.
std::optional<int> Diver::next_node(std::size_t& position) const {
  const auto harder = [&](int a, int b) {  // fewer strategies per conflict
    return static_cast<double>(open_[a]) * conflicts_[b] <
           static_cast<double>(open_[b]) * conflicts_[a];
  };
  std::optional<int> hardest;
  for (int node : difficult_)
    if (open_[node] > 1 && (!hardest || harder(node, *hardest))) hardest = node;
  if (hardest) return hardest;
  while (position < nodes_.size() && open_[nodes_[position]] == 1) ++position;
  return position < nodes_.size() ? std::optional<int>(nodes_[position]) : std::nullopt;
}

/// Reports the work done to the deadline.
bool Diver::is_over(const Deadline& deadline) {
  deadline.spend(std::exchange(cells_, 0));
  return deadline.passed();
}

/// Applies the last decision; after a conflict, the next alternative of an earlier one.
bool Diver::decide(int& conflicts, const Deadline& deadline) {
  while (!decisions_.empty()) {
    Decision& last = decisions_.back();
    while (last.next < last.order.size()) {
      if (keep_only(last.node, last.order[last.next++])) return true;
      undo(last.removed, last.raised);
      if (--conflicts <= 0 || is_over(deadline)) return false;
    }
    decisions_.pop_back();
    if (!decisions_.empty() && (--conflicts <= 0 || is_over(deadline))) return false;
    if (!decisions_.empty()) undo(decisions_.back().removed, decisions_.back().raised);
  }
  exhausted_ = true;
  return false;
}

void Diver::remove(int node, int strategy) {
  allowed_[node][strategy] = 0;
  --open_[node];
  removed_.emplace_back(node, strategy);
}

void Diver::undo(std::size_t removed, std::size_t raised) {
  for (; removed_.size() > removed; removed_.pop_back())
    allowed_[removed_.back().first][removed_.back().second] = 1, ++open_[removed_.back().first];
  for (; raised_.size() > raised; raised_.pop_back())
    set_least(raised_.back().node, raised_.back().piece, raised_.back().least);
}

bool Diver::keep_only(int node, int strategy) {
  for (int s = 0; s < model_.nodes[node].size(); ++s)
    if (s != strategy && allowed_[node][s]) remove(node, s);
  if (!raise_usage(node)) return false;
  add_neighbours(node);
  return propagate();
}

std::vector<int> Diver::cheapest_first(int node, const Deadline& deadline) const {
  const ModelNode& n = model_.nodes[node];
  std::vector<int> order = marked(allowed_[node]);
  std::vector<Cost> costs = n.costs;
  for (int e : n.edges) {
    const View table = view(model_, e, node);
    const std::vector<int> others = marked(allowed_[model_.edges[e].other(node)]);
    deadline.spend(static_cast<double>(order.size() * others.size()));
    for (int p : order) {
      Cost least = kNever;
      for (int q : others) least = std::min(least, table.at(p, q));
      costs[p] = plus(costs[p], least);
    }
  }
  std::stable_sort(order.begin(), order.end(), [&](int p, int q) { return costs[p] < costs[q]; });
  return order;
}

void Diver::add_neighbours(int node) {
  for (int e : model_.nodes[node].edges)
    if (forbids_[e]) pending_.emplace_back(model_.edges[e].other(node), e);
}

/// Removes strategies without an allowed partner until nothing changes.
/// False if a node has none left.
bool Diver::propagate() {
  while (!pending_.empty()) {
    const auto [node, edge] = pending_.back();
    pending_.pop_back();
    if (!rule_out(node, edge)) continue;
    if (open_[node] == 0) ++conflicts_[node], ++conflicts_[model_.edges[edge].other(node)];
    if (open_[node] == 0 || !raise_usage(node)) return pending_.clear(), false;
    add_neighbours(node);
  }
  return true;
}

/// Removes strategies of `node` without an allowed partner across `edge`. True if there were any.
bool Diver::rule_out(int node, int edge) {
  const View table = view(model_, edge, node);
  const std::vector<int> others = marked(allowed_[model_.edges[edge].other(node)]);
  cells_ += static_cast<double>(open_[node]) * static_cast<double>(others.size());
  bool changed = false;
  for (int p = 0; p < model_.nodes[node].size(); ++p) {
    if (!allowed_[node][p]) continue;
    if (std::any_of(others.begin(), others.end(), [&](int q) { return table.at(p, q) < kNever; }))
      continue;
    remove(node, p), changed = true;
  }
  return changed;
}

/// Adds the node's least usage to the rows. False if a row then exceeds its slack.
bool Diver::raise_usage(int node) {
  if (!keep_rows_) return true;
  bool fits = true;
  for (std::size_t i = 0; i < model_.nodes[node].pieces.size(); ++i) {
    const Piece& piece = model_.nodes[node].pieces[i];
    Cost least = kNever;
    cells_ += static_cast<double>(piece.amounts.size());
    for (std::size_t s = 0; s < piece.amounts.size(); ++s)
      if (allowed_[node][s]) least = std::min(least, piece.amounts[s]);
    if (least == least_[node][i]) continue;
    raised_.push_back({node, i, least_[node][i]});
    set_least(node, i, least);
    for (int r = piece.from; r < piece.to; ++r) fits &= used_[r] <= model_.slack[r];
  }
  return fits;
}

void Diver::set_least(int node, std::size_t piece, Cost least) {
  const Piece& p = model_.nodes[node].pieces[piece];
  cells_ += p.to - p.from;
  for (int r = p.from; r < p.to; ++r) used_[r] += least - least_[node][piece];
  least_[node][piece] = least;
}

/// Removes strategies that exceed the slack of a row. False if none is left.
bool Diver::drop_unfitting(int node) {
  for (std::size_t i = 0; keep_rows_ && i < model_.nodes[node].pieces.size(); ++i) {
    const Piece& piece = model_.nodes[node].pieces[i];
    Cost slack = kNever;
    cells_ += piece.to - piece.from + static_cast<int>(piece.amounts.size());
    for (int r = piece.from; r < piece.to; ++r) slack = std::min(slack, model_.slack[r] - used_[r]);
    for (std::size_t s = 0; s < piece.amounts.size(); ++s)
      if (allowed_[node][s] && piece.amounts[s] - least_[node][i] > slack)
        remove(node, static_cast<int>(s));
  }
  return open_[node] > 0;
}

namespace {

class DiveSearch {
 public:
  DiveSearch(const Model& model, const Deadline& deadline)
      : model_(model), deadline_(deadline), diver_(model) {}

  std::vector<int> run(int dives) {
    const bool rows = !model_.slack.empty();
    settings_.conflicts = kTuning.dive.first_conflicts;
    for (int k = 0; k < dives && !deadline_.passed(); ++k) {
      settings_.keep_rows = rows && k % 2 == 1;
      if (auto choice = dive()) return *std::move(choice);
      if (rows && !settings_.keep_rows) continue;
      settings_.conflicts = std::min(2 * settings_.conflicts, kTuning.dive.most_conflicts);
    }
    return {};
  }

 private:
  std::optional<std::vector<int>> dive() {
    std::optional<std::vector<int>> choice = diver_.dive(settings_, deadline_);
    if (diver_.exhausted()) throw Contradiction{};
    if (!choice) return std::nullopt;
    if (has_copies(model_)) CopyStates(model_, {}).complete(*choice);
    const bool allowed = !has_copies(model_) || price(model_, *choice) < kNever;
    if ((allowed && fits(model_, *choice)) ||
        repair(model_, *choice, settings_.conflicts, deadline_))
      return choice;
    return std::nullopt;
  }

  const Model& model_;
  const Deadline& deadline_;
  Diver diver_;
  Diver::Settings settings_;
};

}  // namespace

std::vector<int> first_choice(const Model& model, int dives, const Deadline& deadline) {
  return DiveSearch(model, deadline).run(dives);
}

}  // namespace alpa::ilp
