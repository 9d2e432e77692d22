#pragma once
/// Problems of the ASPLOS/EuroSys 2025 contest on intra-operator parallelism: JSON, or
/// the same gzip'd. Under `problem`: `nodes.{intervals,costs,usages}`,
/// `edges.{nodes,costs}`, optional `usage_limit`.
#include <string>

#include "src/ilp/model/problem.h"

namespace alpa::ilp {

/// A contest problem. Edges over three or more nodes become one further node each (after the first
/// `num_nodes`), whose strategies are the edge's finite entries.
struct Contest {
  Problem problem;
  int num_nodes = 0;  ///< nodes of the file; the choice of the others follows from theirs
};

/// Throws Error: what is wrong, where in the file, how to mend it. `read_contest`
/// reads at most 1 GiB of JSON.
Contest parse_contest(const std::string& json, const std::string& file_name);
Contest read_contest(const std::string& path);

/// The output of `alpa solve FILE SECONDS`: a line `cost C lower_bound L gap G%`, then the choice
/// as `[0, 0, 2, 1, 0]`. The seconds are wall-clock and include reading. Throws what
/// `read_contest` and `solve` throw.
std::string solve_contest(const std::string& path, double seconds);

}  // namespace alpa::ilp
