#pragma once
/// The table of a part of a graph: its cost for every choice of specs at its boundary, and the
/// strategies behind each entry. A value that another part computes and only this part reads is
/// closed: its copies are made here, and its axis is the spec in which it enters. A value that
/// several parts read (tied weights, an activation kept for two layers) is open. A copy that
/// several parts read is paid once, so no single part can pay for it: the axes are the specs that
/// its uses need, and the copies are priced when the tables are combined.
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "src/ilp/model/boundary_table.h"
#include "src/ilp/search/boundary_bounds.h"
#include "src/search/program/instance.h"
#include "src/search/space/auto_shard_options.h"

namespace alpa::intra_op {

/// An axis of the table.
struct TableAxis {
  int value = -1;          ///< of the part's graph
  std::optional<Use> use;  ///< as in BoundaryNode
  std::vector<ShardingSpec> specs;
  bool inside = false;  ///< the use is of a node that runs in one loop with what makes the value
};

/// Plain data; knows nothing of the graph that it was made for but its structure, and serves
/// every part of equal hash.
struct LayerTable {
  std::vector<TableAxis> axes;
  std::vector<int> sizes;  ///< of the axes
  std::optional<ilp::BoundaryTable> exact;
  std::shared_ptr<ilp::BoundaryBounds> bounds;  ///< where an exact table is too large
  double units_per_second = 0;
  std::vector<std::vector<Strategy>> strategies;  ///< by choices of the search space
  std::vector<int> of_node;                       ///< choices of each node

  /// Proven costs by the places of the axes' specs, the last one's fastest.
  const std::vector<std::int64_t>& lower() const { return exact ? exact->costs : bounds->lower(); }

  /// Strategies of the part's nodes, given the place of each axis's spec. Without an exact table, a
  /// choice of that cell must be known.
  std::vector<Strategy> chosen(const std::vector<int>& specs) const;

  /// Place among the costs.
  std::size_t index(const std::vector<int>& specs) const { return ilp::place_of(sizes, specs); }
};

/// A part of a graph as the planner sees it: how its values meet other parts, and what its nodes do
/// of the loops of the whole, which may reach into other parts.
struct PartView {
  const Graph& graph;
  std::vector<BoundaryKind> boundaries;  ///< per value
  std::vector<LoopShare> shares;         ///< per node
};

/// Key of a part's table: hash of the part, boundaries of its boundary values,
/// shares of its nodes, options.
std::string table_key(const PartView& part, const AutoShardOptions& options);

/// The part's table: exact if no table of the elimination has more than `most_cells` cells, else
/// bounds. TableTooLarge if the table of the boundary alone has more. Adds the cells of tables that
/// it read to `work`.
std::variant<LayerTable, ilp::TableTooLarge> layer_table(const PartView& part,
                                                         const AutoShardOptions& options,
                                                         MeshFacts& facts, std::int64_t most_cells,
                                                         std::int64_t& work);

}  // namespace alpa::intra_op
