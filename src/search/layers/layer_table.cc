// Eliminates a part of a graph to its boundary
#include "src/search/layers/layer_table.h"

#include <algorithm>

#include "src/ir/input.h"
#include "src/ir/subgraph.h"

namespace alpa::intra_op {

std::vector<Strategy> LayerTable::chosen(const std::vector<int>& specs) const {
  const std::vector<int> choice =
      exact ? exact->choice(specs) : bounds->known().at(index(specs)).choice;
  std::vector<Strategy> result;
  for (std::size_t n = 0; n < of_node.size(); ++n)
    result.push_back(strategies[of_node[n]][choice[n]]);
  return result;
}

namespace {

bool reads_inside(const std::vector<LoopShare>& shares, const Use& use) {
  return use.id.kind == UseKind::node && shares[use.id.index].reads_inside(use.operand);
}

std::string text_of(const LoopShare& share) {
  std::string text = fmt::format(" {}{}", share.launches ? 'l' : '-', share.vanishes ? 'v' : '-');
  for (const LoopRead& read : share.reads) {
    text += fmt::format(",{}", static_cast<int>(read.kind));
    for (int dim : read.dims) text += fmt::format(".{}", dim);
  }
  for (bool written : share.writes) text += written ? 'w' : '-';
  return text;
}

}  // namespace

std::string table_key(const PartView& part, const AutoShardOptions& options) {
  std::string key = fmt::format("{:016x} {} {} ", layer_hash(part.graph), part.graph.nodes.size(),
                                part.graph.values.size());
  for (BoundaryKind boundary : part.boundaries)
    key += static_cast<char>('0' + static_cast<int>(boundary));
  const AllowedPlans& allowed = options.allowed;
  for (Holding holding : {allowed.parameters, allowed.optimizer_state, allowed.gradients})
    key += static_cast<char>('0' + static_cast<int>(holding));
  key += options.part.whole_boundary_inputs ? '1' : '0';
  for (const PinnedNode& pin : allowed.pins)
    key += fmt::format(" {}={}", pin.node, to_string(pin.spec));
  for (const LoopShare& share : part.shares) key += text_of(share);
  return key;
}

namespace {

/// Estimates how much another spec of a value saves at most: the price of resharding to it.
std::vector<ilp::Table> moves_of(const PartView& part, const SearchSpace& space,
                                 const Instance& instance) {
  std::vector<ilp::Table> moves;
  for (const BoundaryNode& end : instance.boundary_nodes) {
    const TypeLayouts& layouts = space.layouts_of(part.graph.values[end.value]);
    const Input* input = find_input(part.graph, end.value);
    const bool found = input && input->kind == InputKind::boundary && !end.use;
    std::vector<std::int64_t> costs;
    for (int p : end.specs)
      for (int q : end.specs)
        costs.push_back(units(found ? layouts.between(p, q) : layouts.between(q, p),
                              instance.units_per_second));
    moves.push_back(ilp::table(std::move(costs)));
  }
  return moves;
}

}  // namespace

std::variant<LayerTable, ilp::TableTooLarge> layer_table(const PartView& part,
                                                         const AutoShardOptions& options,
                                                         MeshFacts& facts, std::int64_t most_cells,
                                                         std::int64_t& work) {
  const SearchSpace space =
      search_space(std::make_shared<GraphFacts>(part.graph, &facts.rules, &part.shares,
                                                copies_state_once(options)),
                   options, facts);
  const Instance instance = build_instance(part.graph, space, facts.mesh, {}, part.boundaries);
  std::vector<int> boundary;
  double cells = 1;
  LayerTable result;
  for (const BoundaryNode& end : instance.boundary_nodes) {
    boundary.push_back(end.node);
    result.sizes.push_back(static_cast<int>(end.specs.size()));
    cells *= static_cast<double>(end.specs.size());
  }
  if (cells > static_cast<double>(most_cells)) return ilp::TableTooLarge{cells};
  auto eliminated = ilp::eliminate_to(instance.problem, boundary, most_cells, {}, &work);
  if (auto* exact = std::get_if<ilp::BoundaryTable>(&eliminated)) {
    result.exact = std::move(*exact);
  } else {
    result.bounds = std::make_shared<ilp::BoundaryBounds>(instance.problem, boundary,
                                                          moves_of(part, space, instance));
    work += result.bounds->work();
  }
  result.units_per_second = instance.units_per_second;
  result.of_node = space.of_node;
  for (const NodeStrategies& choices : space.choices)
    result.strategies.push_back(choices.strategies);
  for (const BoundaryNode& end : instance.boundary_nodes) {
    const TypeLayouts& layouts = space.layouts_of(part.graph.values[end.value]);
    result.axes.push_back({end.value, end.use, {}, end.use && reads_inside(part.shares, *end.use)});
    for (int spec : end.specs) result.axes.back().specs.push_back(layouts.specs[spec]);
  }
  return result;
}

}  // namespace alpa::intra_op
