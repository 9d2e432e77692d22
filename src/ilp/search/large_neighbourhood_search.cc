// Frees parts of a choice and solves them again while the rest stays fixed
#include "src/ilp/search/large_neighbourhood_search.h"

#include <algorithm>
#include <random>

#include "alpa/base/error.h"
#include "src/ilp/model/shared_terms.h"
#include "src/ilp/model/tuning.h"
#include "src/ilp/search/core.h"

namespace alpa::ilp {
namespace {

/// Live nodes except those of copies, which join the parts of their terms.
std::vector<int> chosen_alone(const Model& model) {
  std::vector<int> result = live_nodes(model);
  std::erase_if(result, [&](int node) { return model.nodes[node].copy; });
  return result;
}

class LargeNeighbourhoodSearch {
 public:
  LargeNeighbourhoodSearch(const Model& model, std::vector<int>& choice, const Options& options,
                           int round, const Deadline& deadline)
      : model_(model),
        choice_(choice),
        options_(inner_options(options)),
        deadline_(deadline),
        nodes_(chosen_alone(model)),
        position_(model.nodes.size(), kOutside),
        engine_(1000 + static_cast<std::uint64_t>(round)) {
    options_.methods.dual_sweeps = std::min(options_.methods.dual_sweeps, kSpent.dual_sweeps);
  }

  Cost run(Cost enough) {
    for (int k = 0; !deadline_.passed() && price(model_, choice_) > enough; ++k) {
      std::vector<int> part = k % 3 == 0 ? stretch() : k % 3 == 1 ? ball() : tight_row();
      add_copies(part);
      double before = deadline_.elapsed();
      bool finished = solve_part(part);
      double seconds = deadline_.elapsed() - before;
      if (!finished || seconds > kSpent.longest_seconds / 2)
        size_ = std::max(kSpent.least_size, size_ * kSpent.shrink);
      else if (seconds < kSpent.longest_seconds / 6)
        size_ = std::min(size_ * kSpent.grow, static_cast<double>(nodes_.size()));
      if (static_cast<std::size_t>(size_) >= nodes_.size() && finished) break;
    }
    return price(model_, choice_);
  }

 private:
  static constexpr const auto& kSpent = kTuning.large_neighbourhoods;
  static constexpr int kOutside = -1;

  std::size_t below(std::size_t n) { return static_cast<std::size_t>(engine_() % n); }
  std::size_t wanted() const { return std::min(static_cast<std::size_t>(size_), nodes_.size()); }

  /// Nodes that follow each other in the order given: close in time.
  std::vector<int> stretch() {
    std::size_t first = below(nodes_.size() - wanted() + 1);
    return {nodes_.begin() + static_cast<std::ptrdiff_t>(first),
            nodes_.begin() + static_cast<std::ptrdiff_t>(first + wanted())};
  }

  /// Nodes around one, breadth first.
  std::vector<int> ball() {
    std::vector<int> members = {nodes_[below(nodes_.size())]};
    std::vector<char> seen(model_.nodes.size());
    seen[members[0]] = 1;
    const auto add = [&](int other) {
      if (!seen[other] && members.size() < wanted()) seen[other] = 1, members.push_back(other);
    };
    for (std::size_t i = 0; i < members.size() && members.size() < wanted(); ++i) {
      const ModelNode& node = model_.nodes[members[i]];
      for (int e : node.edges) add(model_.edges[e].other(members[i]));
      for (int t : node.terms) {
        add(model_.terms[t].source.node);
        for (const SharedEnd& reader : model_.terms[t].readers) add(reader.node);
      }
    }
    return members;
  }

  /// Nodes that share a row with little slack.
  std::vector<int> tight_row() {
    if (model_.slack.empty()) return ball();
    std::vector<Cost> over = excess(model_, choice_);
    int row = static_cast<int>(below(over.size()));
    for (int draw = 0; draw < kSpent.row_draws; ++draw) {
      int other = static_cast<int>(below(over.size()));
      if (over[other] > over[row]) row = other;
    }
    std::vector<int> members;
    for (int node : nodes_)
      if (uses(node, row)) members.push_back(node);
    for (std::size_t i = members.size(); i > 1; --i) std::swap(members[i - 1], members[below(i)]);
    members.resize(std::min(members.size(), wanted()));
    return members;
  }

  /// True if the node or a copy of its terms can use something at the row.
  bool uses(int node, int row) const {
    const auto at_row = [&](int n) { return model_.nodes[n].piece_at(row) != nullptr; };
    if (at_row(node)) return true;
    return std::any_of(model_.nodes[node].terms.begin(), model_.nodes[node].terms.end(),
                       [&](int t) {
                         const std::vector<SharedCopy>& copies = model_.terms[t].copies;
                         return std::any_of(copies.begin(), copies.end(),
                                            [&](const SharedCopy& c) { return at_row(c.node); });
                       });
  }

  /// The copies of all terms that the part has an end of.
  void add_copies(std::vector<int>& part) const {
    std::vector<int> copies;
    for (int node : part)
      for (int t : model_.nodes[node].terms)
        for (const SharedCopy& copy : model_.terms[t].copies) copies.push_back(copy.node);
    copies = distinct(std::move(copies));
    part.insert(part.end(), copies.begin(), copies.end());
  }

  /// The model of the part, in its order; everything else is fixed to the present choice.
  Model model_of(const std::vector<int>& part) {
    deadline_.spend(kSpent.node_cells *
                    static_cast<double>(model_.nodes.size() + model_.slack.size()));
    Model result;
    result.times = model_.times;
    for (Cost over : excess(model_, choice_)) result.slack.push_back(-over);
    for (std::size_t k = 0; k < part.size(); ++k) {
      position_[part[k]] = static_cast<int>(k);
      ModelNode& node = result.nodes.emplace_back(model_.nodes[part[k]]);
      node.edges.clear();
      node.terms.clear();
      for (const Piece& piece : node.pieces)
        for (int r = piece.from; r < piece.to; ++r)
          result.slack[r] += piece.amounts[choice_[part[k]]];
    }
    for (int i : part)
      for (int e : model_.nodes[i].edges) copy_edge(i, e, result);
    for (std::size_t t = 0; t < model_.terms.size(); ++t)
      if (model_.terms[t].alive) add_part_of_term(result, model_.terms[t], position_, choice_);
    for (int i : part) position_[i] = kOutside;
    return result;
  }

  void copy_edge(int i, int e, Model& result) const {
    const ModelEdge& edge = model_.edges[e];
    const int from = position_[i], to = position_[edge.other(i)];
    if (to != kOutside) {
      if (edge.a == i) add_edge(result, from, to, edge.costs);
      return;
    }
    const View table = view(model_, e, i);
    const int q = choice_[edge.other(i)];
    std::vector<Cost>& costs = result.nodes[from].costs;
    for (std::size_t p = 0; p < costs.size(); ++p)
      costs[p] = plus(costs[p], table.at(static_cast<int>(p), q));
  }

  /// Returns false if the part was too hard for its time.
  bool solve_part(const std::vector<int>& part) {
    const Deadline deadline = deadline_.within(kSpent.longest_seconds);
    try {
      Model sub = model_of(part);
      std::vector<int> present(sub.nodes.size(), 0);
      for (std::size_t k = 0; k < part.size(); ++k) present[k] = choice_[part[k]];
      const Cost cutoff = price(sub, present);
      const std::vector<int> better = solve_inner(std::move(sub), cutoff, options_, deadline);
      if (!better.empty()) take(part, better);
    } catch (const Contradiction&) {
    }
    return !deadline.passed();
  }

  void take(const std::vector<int>& part, const std::vector<int>& better) {
    const Cost before = price(model_, choice_);
    for (std::size_t k = 0; k < part.size(); ++k) choice_[part[k]] = better[k];
    const Cost after = price(model_, choice_);
    invariant(after < before, "a part's better choice took the cost from {} to {}", before, after);
  }

  const Model& model_;
  std::vector<int>& choice_;
  Options options_;
  const Deadline& deadline_;
  std::vector<int> nodes_;
  std::vector<int> position_;  // of each node in the part
  std::mt19937_64 engine_;
  double size_ = kSpent.first_size;
};

}  // namespace

Cost large_neighbourhood_search(const Model& model, std::vector<int>& choice,
                                const Options& options, int round, Cost enough,
                                const Deadline& deadline) {
  return LargeNeighbourhoodSearch(model, choice, options, round, deadline).run(enough);
}

}  // namespace alpa::ilp
