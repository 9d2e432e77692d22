#include "core.h"

#include "branch.h"

namespace alpa::ilp {

CoreSolution solve_core(Model& model, const Options& options, const Deadline& deadline,
                        Statistics& statistics) {
  if (live_nodes(model).empty()) return {std::vector<int>(model.nodes.size(), 0), 0};
  Branched result;
  if (options.use_cbc) result = branch(model, std::nullopt, deadline, statistics);
  if (result.closed && !result.choice) throw Contradiction{};
  if (!result.choice) throw TimedOut("no feasible choice was found in time; allow more seconds");
  Cost cost = price(model, *result.choice);
  return {*std::move(result.choice), result.closed ? cost : result.bound};
}

}  // namespace alpa::ilp
