#pragma once
/// A lower bound of a graph's plans on one mesh, without a search for a plan.
#include <functional>

#include "src/plan/facts/graph_facts.h"
#include "src/search/space/auto_shard_options.h"
#include "src/search/space/planning_cache.h"

namespace alpa::intra_op {

/// Price of a byte of a device that is in use between forward and backward runs.
struct BytePrice {
  double seconds = 0;       ///< of a step
  std::int64_t budget = 0;  ///< bytes of a device: values far below it are free
};

/// A question whose answer, which any thread may find, is proven: no plan of the graph on the mesh
/// of `facts` takes fewer seconds per step; infinite: it has none. `quick`: the least that every
/// node and every resharding takes; otherwise a few sweeps of the dual bound over the program of
/// the whole (ilp::dual_bound), often twice as much, in several times the time. No time limit and
/// no budget count. With a price, it is of seconds and the price of state, sums over micro-batches
/// and copies of state. Only the call itself adds to `facts`: one thread at a time for each mesh.
std::function<double()> quick_bound(SharedFacts graph, const AutoShardOptions& options,
                                    MeshFacts& facts, bool quick, BytePrice price = {});

}  // namespace alpa::intra_op
