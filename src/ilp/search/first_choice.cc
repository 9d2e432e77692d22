// Dives and repairs in turn, under rising prices of exceeded rows, until a choice is feasible
#include "src/ilp/search/first_choice.h"

#include <algorithm>
#include <cmath>

#include "src/ilp/model/copy_states.h"
#include "src/ilp/model/tuning.h"
#include "src/ilp/search/dive.h"
#include "src/ilp/search/local_search.h"

namespace alpa::ilp {
namespace {

/// Mean difference between the costs of a node's strategies, per mean usage of a node.
double mean_price(const Model& model) {
  double costs = 0, amounts = 0;
  for (int i : live_nodes(model)) {
    const ModelNode& node = model.nodes[i];
    Cost least = kNever, most = -kNever;
    for (Cost cost : node.costs)
      if (cost < kNever) least = std::min(least, cost), most = std::max(most, cost);
    if (most > least) costs += static_cast<double>(most - least);
    for (const Piece& piece : node.pieces)
      amounts += static_cast<double>(*std::max_element(piece.amounts.begin(), piece.amounts.end()));
  }
  return std::max(costs, 1.0) / std::max(amounts, 1.0);
}

class DiveSearch {
 public:
  DiveSearch(const Model& model, const Deadline& deadline)
      : model_(model), deadline_(deadline), diver_(model), price_(mean_price(model) / 4) {}

  std::vector<int> run(int dives) {
    const bool rows = !model_.slack.empty();
    settings_.conflicts = kTuning.first_choice.first_conflicts;
    for (int k = 0; k < dives && !deadline_.passed(); ++k) {
      settings_.keep_rows = rows && k % 2 == 1;
      if (auto choice = dive()) return *std::move(choice);
      if (rows && !settings_.keep_rows) continue;
      settings_.conflicts = std::min(2 * settings_.conflicts, kTuning.first_choice.most_conflicts);
    }
    return {};
  }

 private:
  std::optional<std::vector<int>> dive() {
    std::optional<std::vector<int>> choice = diver_.dive(settings_, deadline_);
    if (diver_.exhausted()) throw Contradiction{};
    if (!choice) {
      raise_prices(diver_.exceeded_rows());
      return std::nullopt;
    }
    if (has_copies(model_)) CopyStates(model_, settings_.row_prices).complete(*choice);
    const std::vector<Cost> over = excess(model_, *choice);
    const bool allowed = !has_copies(model_) || price(model_, *choice) < kNever;
    if ((allowed && std::all_of(over.begin(), over.end(), [](Cost c) { return c <= 0; })) ||
        repair(model_, *choice, settings_.conflicts, deadline_))
      return choice;
    std::vector<int> exceeded(over.size());
    std::transform(over.begin(), over.end(), exceeded.begin(), [](Cost c) { return c > 0; });
    raise_prices(exceeded);
    return std::nullopt;
  }

  void raise_prices(const std::vector<int>& exceeded) {
    if (std::all_of(exceeded.begin(), exceeded.end(), [](int f) { return f == 0; })) return;
    std::vector<double>& prices = settings_.row_prices;
    prices.resize(exceeded.size(), 0);
    const double least = std::max(price_, *std::max_element(prices.begin(), prices.end()) / 16);
    for (std::size_t r = 0; r < exceeded.size(); ++r)
      if (exceeded[r] > 0) prices[r] = std::max(prices[r] * kTuning.first_choice.rise, least);
  }

  const Model& model_;
  const Deadline& deadline_;
  Diver diver_;
  Diver::Settings settings_;
  double price_;  ///< of a row exceeded for the first time
};

}  // namespace

std::vector<int> first_choice(const Model& model, int dives, const Deadline& deadline) {
  return DiveSearch(model, deadline).run(dives);
}

}  // namespace alpa::ilp
