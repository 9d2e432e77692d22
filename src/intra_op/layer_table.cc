// src/intra_op/layer_table.cc — a part of a graph, eliminated to its boundary
#include "layer_table.h"

#include "alpa/ir/subgraph.h"

namespace alpa {

std::vector<Strategy> LayerTable::chosen(const std::vector<int>& specs) const {
  const std::vector<int> choice = table.choice(specs);
  std::vector<Strategy> result;
  for (std::size_t n = 0; n < of_node.size(); ++n) result.push_back(strategies[of_node[n]][choice[n]]);
  return result;
}

namespace {

bool is_inside(const std::vector<LoopShare>& shares, const Use& use) {
  if (use.id.kind != UseKind::node) return false;
  const std::vector<LoopRead>& reads = shares[use.id.index].reads;
  return !reads.empty() && reads[use.operand].kind == LoopRead::Kind::inside;
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
  for (Meeting meeting : part.meetings) key += static_cast<char>('0' + static_cast<int>(meeting));
  for (bool option : {options.replicate_parameters, options.replicate_optimizer_state,
                      options.shard_parameters, options.shard_optimizer_state, options.split_contractions})
    key += option ? '1' : '0';
  for (const LoopShare& share : part.shares) key += text_of(share);
  return key;
}

std::variant<LayerTable, ilp::TableTooLarge> layer_table(const PartView& part,
                                                         const AutoShardOptions& options, MeshFacts& facts,
                                                         std::int64_t most_cells) {
  const SearchSpace space = search_space(part.graph, options, facts, &part.shares);
  const Instance instance = build_instance(part.graph, space, facts.mesh, {}, part.meetings);
  std::vector<int> boundary;
  for (const SeenEnd& end : instance.seen) boundary.push_back(end.node);
  auto eliminated = ilp::eliminate_to(instance.problem, boundary, most_cells);
  if (const auto* failed = std::get_if<ilp::TableTooLarge>(&eliminated)) return *failed;
  LayerTable result;
  result.table = std::get<ilp::BoundaryTable>(std::move(eliminated));
  result.costs = ilp::table(result.table.costs);
  result.units_per_second = instance.units_per_second;
  result.of_node = space.of_node;
  for (const Choices& choices : space.choices) result.strategies.push_back(choices.strategies);
  for (const SeenEnd& end : instance.seen) {
    const ValueInfo& info = part.graph.values[end.value];
    const TypeLayouts& layouts = space.layouts.of(space.of(info.producer).result_types[info.index]);
    result.axes.push_back({end.value, end.use, {}, end.use && is_inside(part.shares, *end.use)});
    for (int spec : end.specs) result.axes.back().specs.push_back(layouts.specs[spec]);
  }
  return result;
}

}  // namespace alpa
