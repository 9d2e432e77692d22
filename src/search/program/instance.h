#pragma once
/// The solver's problem for a search space. Its nodes are, in order: the graph's nodes; one
/// node for metrics, which need replicated values, and for outputs with a fixed spec; under a
/// memory limit, one node per resharded copy. A value with one reader is an edge. A value
/// with several readers has one shared cost (ilp::SharedCost), so that readers of the same
/// copy pay for it once: its rows are the specs in which the producer leaves the value, its
/// columns the specs that readers need.
///
/// The node of a copy chooses its lifetime: the regions in which it exists, and whether it is kept
/// from one region to the next or made again. ZeRO-3, for example, gathers parameters in the
/// forward pass and again in the backward pass. Copies with a single reader may have nodes as well.
/// A copy that micro-batches read of state is made per micro-batch, in one region or in each; or
/// once per step, and kept for all micro-batches. Kept by every micro-batch in flight it would cost
/// more and take more memory.
#include <optional>

#include "src/ilp/model/problem.h"
#include "src/search/space/search_space.h"

namespace alpa::intra_op {

/// A consumer of a value. The spec it needs depends on its strategy.
struct Reader {
  int node = -1;                             ///< of the solver's problem
  const std::vector<int>* wanted = nullptr;  ///< spec per strategy
  Use use;
};

/// Per value, its readers in the order of uses_of_values, without outputs that accept any spec. An
/// update counts as a reader: the spec it needs is that of the input it replaces.
std::vector<std::vector<Reader>> readers_of_values(const Graph& graph, const SearchSpace& space);

/// A copy made before the first use in region `first` and kept to the last use in region `last`.
struct CopyLifetime {
  Region first = Region::forward, last = Region::forward;
  bool operator==(const CopyLifetime&) const = default;
};

/// A strategy of a copy's node: its lifetimes, in order. The copy is absent if there
/// are none and `own` is false.
struct CopyState {
  std::vector<CopyLifetime> lifetimes;
  bool own = false;   ///< the producer leaves the value in this spec
  bool once = false;  ///< its one lifetime is the whole step
};

/// States of a copy read in these regions, absent first; `held`: of what may be copied once per
/// step.
std::vector<CopyState> copy_states(const std::vector<Region>& regions, bool held = false);

/// True if a use in this region can read the copy.
bool covers(const CopyState& state, Region region);

/// The solver's node for one resharded copy of a value: the copy's spec and
/// the states to choose from.
struct Copy {
  int node = -1, value = -1, phase = 0, spec = -1;
  std::vector<CopyState> states;
};

/// A node whose strategies are specs, determined by the strategy of another node.
struct DependentNode {
  int node = -1, of = -1;
  std::vector<int> states;  ///< per strategy of `of`
};

/// How a part of a graph exposes a value to other parts. Closed: this part pays for its own uses,
/// and other parts see the spec in which the value enters or leaves. Open: other parts use the
/// value too and share its copies, so nothing is paid here; they see the spec that each use in this
/// part needs and the spec in which the part leaves the value.
enum class BoundaryKind : std::uint8_t { none, closed, open };

/// A node of the problem that is visible to other parts. Its strategies are specs.
struct BoundaryNode {
  int node = -1, value = -1;
  std::optional<Use> use;  ///< nullopt: the spec in which the value enters or leaves
  std::vector<int> specs;  ///< ascending numbers
};

/// The solver's problem, and the meaning of its nodes beyond those of the graph.
struct Instance {
  ilp::Problem problem;
  /// of costs: nanoseconds, coarser only where their sum would overflow
  double units_per_second = 1e9;
  std::vector<Copy> copies;
  std::vector<DependentNode> dependents;
  std::vector<BoundaryNode> boundary_nodes;  ///< by ascending node
};

/// The bytes that may be live at once.
struct MemoryLimit {
  std::int64_t bytes = 0;
  int in_flight = 1;  ///< micro-batches that keep what their backward runs read
  /// also copies that one node alone can read, which exist only while it runs
  bool every_copy = false;
  /// only what exists between the forward and the backward runs of every micro-batch: state, sums
  /// over micro-batches, and copies of state
  bool state_alone = false;
};

/// Builds the solver's problem. Without a limit it has no memory usages. With one, a node's usages
/// are the bytes it makes live at each point of `live_ranges`; the usage limit is the memory limit
/// minus an allowance for values too small to count. `boundaries`, per value, is for a part of a
/// graph; empty for a whole graph.
Instance build_instance(const Graph& graph, const SearchSpace& space, const DeviceMesh& mesh,
                        const std::optional<MemoryLimit>& memory = {},
                        const std::vector<BoundaryKind>& boundaries = {});

/// Builds the solver's problem with a price instead of a limit: what exists between the forward and
/// the backward runs of every micro-batch, state, sums and copies of state, costs so many seconds
/// for each of its bytes on a device. Values far below `budget` bytes are free.
Instance build_priced_instance(const Graph& graph, const SearchSpace& space, const DeviceMesh& mesh,
                               std::int64_t budget, double seconds_per_byte);

/// Whole units; kInfinite for infinity.
std::int64_t units(double seconds, double units_per_second);

}  // namespace alpa::intra_op
