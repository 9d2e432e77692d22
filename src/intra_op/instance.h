#pragma once
/// The search space as a problem for the solver. Its nodes are, in order: the nodes of the graph; one for
/// metrics, which want their values replicated, and outputs that want one spec; and, under a memory limit,
/// one for each copy. A value with one reader is an edge. What the copies of a value with several readers
/// cost is shared by them (ilp::SharedCost): rows are the specs it is left in, columns those wanted.
///
/// A copy's node says when the copy exists: in which regions, and whether it is kept from one to the next
/// or made again (ZeRO-3 gathers its parameters in the forward and again in the backward pass). Copies that
/// only one use can read may have nodes, too.
#include <optional>

#include "alpa/ilp/problem.h"
#include "live_ranges.h"
#include "search_space.h"
#include "uses.h"

namespace alpa {

/// A consumer of a value. The spec it needs depends on its strategy.
struct Reader {
  int node = -1;                             ///< of the solver's problem
  const std::vector<int>* wanted = nullptr;  ///< spec per strategy
  Use use;
};

/// Per value, its readers in the order of uses_of_values, without outputs that take any spec. An update
/// reads on behalf of the input that it replaces.
std::vector<std::vector<Reader>> readers_of_values(const Graph& graph, const SearchSpace& space);

/// A copy made before the first use in region `first` and kept to the last use in region `last`.
struct CopyLifetime {
  Region first = Region::forward, last = Region::forward;
};

/// A strategy of a copy's node: the lifetimes, in order; none of them and not `own`: absent.
struct CopyState {
  std::vector<CopyLifetime> lifetimes;
  bool own = false;  ///< the producer leaves the value in this spec
};

/// States of a copy read in these regions, absent first.
std::vector<CopyState> copy_states(const std::vector<Region>& regions);

/// True if a use in this region can read the copy.
bool covers(const CopyState& state, Region region);

/// The solver's node for one resharded copy of a value: in which spec, and the states it can choose.
struct Copy {
  int node = -1, value = -1, phase = 0, spec = -1;
  std::vector<CopyState> states;
};

/// A node for a spec, which follows from the strategy of another node.
struct Follower {
  int node = -1, of = -1;
  std::vector<int> states;  ///< per strategy of `of`
};

/// How a value of a part of a graph meets other parts. Closed: what the uses in this part cost is paid
/// here, and other parts see the spec in which the value is found or left. Open, as other parts use it,
/// too, and share its copies: nothing is paid here, and they see the spec that each use in this part wants,
/// and that in which the part leaves it.
enum class Meeting : std::uint8_t { none, closed, open };

/// A node of the problem that other parts see. Its states are specs.
struct SeenEnd {
  int node = -1, value = -1;
  std::optional<Use> use;  ///< none: the spec in which the value is found or left
  std::vector<int> specs;  ///< ascending numbers
};

/// The program for the solver, and what its nodes beyond those of the graph stand for.
struct Instance {
  ilp::Problem problem;
  double units_per_second = 1e9;  ///< of costs: nanoseconds, coarser only where their sum would overflow
  std::vector<Copy> copies;
  std::vector<Follower> followers;
  std::vector<SeenEnd> seen;  ///< by ascending node
};

/// The bytes that may be live at once.
struct MemoryLimit {
  std::int64_t bytes = 0;
  bool every_copy = false;  ///< also copies that one node alone can read, which exist only while it runs
};

/// Without a limit, nothing is said about bytes. With it, the usage of every node is the bytes it makes
/// live, over the points of `live_ranges`, and the usage limit is this one less what is too small to be
/// worth counting. `meetings` are those of a part of a graph, per value; empty: of a whole.
Instance build_instance(const Graph& graph, const SearchSpace& space, const DeviceMesh& mesh,
                        const std::optional<MemoryLimit>& memory = {},
                        const std::vector<Meeting>& meetings = {});

/// Whole units; kInfinite for infinity.
std::int64_t units(double seconds, double units_per_second);

}  // namespace alpa
