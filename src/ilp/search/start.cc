// A choice of the problem carried over to the reduced model
#include "src/ilp/search/start.h"

#include <algorithm>

#include "src/ilp/model/tuning.h"
#include "src/ilp/search/local_search.h"

namespace alpa::ilp {
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
      !repair(model, choice, kTuning.start.repair_moves, deadline))
    return {};
  improve(model, choice, deadline.within(deadline.left() / 4));
  return choice;
}

}  // namespace alpa::ilp
