#pragma once
/// Plans under the costs of Alpa's tests: communication alone, un-rounded formulas with the tails
/// that break its ties. They are run, and the runtime measures what they claim.
#include <alpa/alpa.h>
#include <doctest/doctest.h>

#include <cstdio>
#include <fstream>

#include "search/plans.h"
#include "support/communication_only.h"
#include "support/unrepeated.h"

namespace alpa::testing {

/// The plan, which must cost no more than Alpa's, as an executable.
inline Executable planned_like_alpa(const TrainingStep& step, const DeviceMesh& mesh,
                                    const intra_op::AutoShardOptions& options,
                                    double alpas_objective) {
  const Graph graph = step.trace(1);
  const cost::CostModel model =
      alpa::testing::communication_only({.tie_break_tails = true, .allow_all_gather = true});
  const ShardingPlan plan = plan_without_repeats(graph, mesh, model, options);
  CHECK(plan.cost.objective_seconds <= alpas_objective + 1e-3);
  const std::string path = "reference_test_plan.json";
  std::ofstream(path) << to_json(plan, graph);
  const ShardParallel method{.executor = {.bucket_bytes = std::int64_t{1} << 30}};
  Executable executable = load_plan(step, method, Cluster::local(mesh.num_devices()), path);
  std::remove(path.c_str());
  return executable;
}

struct Expected {
  std::string counts;  ///< "all_reduce 1", by name
  double bytes;        ///< that each device sends
};

/// Checks what the last step sent: as planned, and as expected.
inline void check_traffic(const Executable& train, const Expected& expected) {
  const auto planned = train.traffic(), measured = train.measured_traffic();
  std::string counts;
  double bytes = 0;
  for (const auto& [kind, traffic] : measured) {
    counts += fmt::format("{}{} {}", counts.empty() ? "" : ", ", kind, traffic.count);
    bytes += traffic.bytes;
    CHECK(planned.at(kind).count == traffic.count);
    CHECK(planned.at(kind).bytes == doctest::Approx(traffic.bytes).epsilon(1e-12));
  }
  CHECK(planned.size() == measured.size());
  CHECK(counts == expected.counts);
  CHECK(bytes == doctest::Approx(expected.bytes).epsilon(1e-12));
}

}  // namespace alpa::testing
