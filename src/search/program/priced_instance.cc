// src/search/program/priced_instance.cc — bytes of state at a price, as costs of strategies
#include <cmath>

#include "src/search/program/instance.h"

namespace alpa::intra_op {
namespace {

/// Adds an edge between ends `a` and `b` with the cost of each pair of their classes.
template <class CostOf>
void pay_between(ilp::Problem& problem, const ilp::SharedEnd& a, const ilp::SharedEnd& b,
                 const CostOf& cost_of) {
  std::vector<std::int64_t> costs;
  bool any = false;
  for (const int from : a.classes)
    for (const int to : b.classes) {
      costs.push_back(cost_of(from, to));
      any |= costs.back() != 0;
    }
  if (any) problem.edges.push_back({a.node, b.node, ilp::table(std::move(costs))});
}

std::int64_t cost_of_state(const ilp::SharedCost& term, const ilp::SharedCopy& copy, int row,
                           int state) {
  const ilp::Supply& supply = copy.supplies[state];
  if (supply.own) return row == copy.home ? 0 : ilp::kInfinite;
  const std::int64_t once = supply.times == 0 ? 0 : (*term.costs)[row * term.columns + copy.column];
  return once >= ilp::kInfinite ? once : supply.times * once;
}

/// Edges between the source, the readers and the copies' nodes in place of the shared cost. A
/// column without a copy has one reader, or is free.
void expand(const ilp::SharedCost& term, ilp::Problem& problem) {
  std::vector<bool> has_copy(term.columns, false);
  for (const ilp::SharedCopy& copy : term.copies) {
    has_copy[copy.column] = true;
    ilp::SharedEnd states{copy.node, {}};
    for (int s = 0; s < std::ssize(copy.supplies); ++s) states.classes.push_back(s);
    pay_between(problem, term.source, states,
                [&](int row, int state) { return cost_of_state(term, copy, row, state); });
    for (const ilp::SharedEnd& reader : term.readers)
      pay_between(problem, reader, states, [&](int wanted, int state) {
        const ilp::Supply& supply = copy.supplies[state];
        const bool serves = supply.own || (supply.serves >> reader.group & 1u) != 0;
        return wanted == copy.column && !serves ? ilp::kInfinite : 0;
      });
  }
  for (const ilp::SharedEnd& reader : term.readers)
    pay_between(problem, term.source, reader, [&](int row, int column) {
      return has_copy[column] ? 0 : (*term.costs)[row * term.columns + column];
    });
}

}  // namespace

Instance build_priced_instance(const Graph& graph, const SearchSpace& space, const DeviceMesh& mesh,
                               std::int64_t budget, double seconds_per_byte) {
  Instance instance =
      build_instance(graph, space, mesh, MemoryLimit{.bytes = budget, .state_alone = true});
  ilp::Problem& problem = instance.problem;
  problem.usage_limit = {};
  for (ilp::Node& node : problem.nodes) {
    for (const ilp::Usage& usage : node.usages)
      for (std::size_t s = 0; s < node.costs.size(); ++s)
        if (node.costs[s] < ilp::kInfinite)
          node.costs[s] +=
              static_cast<std::int64_t>(std::floor(static_cast<double>(usage.amounts[s]) *
                                                   seconds_per_byte * instance.units_per_second));
    node.usages.clear();
  }
  std::vector<ilp::SharedCost> plain;
  for (ilp::SharedCost& term : problem.shared) {
    if (term.copies.empty())
      plain.push_back(std::move(term));
    else
      expand(term, problem);
  }
  problem.shared = std::move(plain);
  return instance;
}

}  // namespace alpa::intra_op
