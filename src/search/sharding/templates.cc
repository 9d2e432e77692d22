// Plans with one use per mesh axis, as starting points of the search
#include "src/search/sharding/templates.h"

#include <algorithm>
#include <map>
#include <set>

#include "src/plan/evaluation/evaluate.h"
#include "src/plan/facts/uses.h"
#include "src/search/program/assemble_plan.h"
#include "src/search/tuning.h"

namespace alpa::intra_op {
namespace {

using Uses = std::vector<AxisUse>;

bool is_template(const Uses& uses) {
  std::set<AxisUse> different(uses.begin(), uses.end());
  different.erase(AxisUse::any);
  return !different.empty() &&
         (static_cast<int>(uses.size()) <= search::kTuning.templates.few_axes ||
          different.size() <= search::kTuning.templates.most_uses);
}

void add_combinations(const DeviceMesh& mesh, const Uses& choices, Uses& chosen,
                      std::vector<Uses>& all) {
  const int axis = static_cast<int>(chosen.size());
  if (axis == mesh.num_axes()) {
    if (is_template(chosen) && std::find(all.begin(), all.end(), chosen) == all.end())
      all.push_back(chosen);
    return;
  }
  for (AxisUse use : mesh.size(axis) > 1 ? choices : Uses{AxisUse::any}) {
    chosen.push_back(use);
    add_combinations(mesh, choices, chosen, all);
    chosen.pop_back();
  }
}

/// Least seconds of resharding a value for one reader.
class LeastReshard {
 public:
  explicit LeastReshard(const SearchSpace& space) : space_(space) {}

  double operator()(int type, const std::vector<int>& produced, const std::vector<int>& wanted) {
    const auto [place, added] = known_.try_emplace({&produced, &wanted}, 0);
    if (!added) return place->second;
    double least = space_.layouts.of(type).between(produced[0], wanted[0]);
    for (int from : std::set<int>(produced.begin(), produced.end()))
      for (int to : wanted) least = std::min(least, space_.layouts.of(type).between(from, to));
    return place->second = least;
  }

 private:
  const SearchSpace& space_;
  std::map<std::pair<const void*, const void*>, double> known_;
};

bool is_larger(const TensorType& type, const ShardingSpec& copy, const ShardingSpec& source,
               const DeviceMesh& mesh) {
  return shard_bytes(type, copy, mesh) > shard_bytes(type, source, mesh);
}

}  // namespace

std::vector<Uses> templates_of(const DeviceMesh& mesh) {
  std::vector<Uses> all;
  Uses chosen;
  add_combinations(mesh, {AxisUse::batch, AxisUse::tensor}, chosen, all);
  add_combinations(mesh, {AxisUse::data, AxisUse::zero2, AxisUse::zero3, AxisUse::tensor}, chosen,
                   all);
  return all;
}

Uses wider_template(Uses uses) {
  for (AxisUse& use : uses)
    if (use == AxisUse::data || use == AxisUse::zero2 || use == AxisUse::zero3)
      use = AxisUse::batch;
  return uses;
}

std::string text_of(const Uses& uses) {
  static constexpr const char* kNames[] = {"any",   "batch",  "data",    "zero1",  "zero2",
                                           "zero3", "tensor", "context", "experts"};
  std::string text;
  for (AxisUse use : uses)
    text += (text.empty() ? "" : ", ") + std::string(kNames[static_cast<int>(use)]);
  return text;
}

double least_seconds(const Graph& graph, const SearchSpace& space) {
  double sum = 0;
  for (int n = 0; n < static_cast<int>(graph.nodes.size()); ++n) {
    const std::vector<double>& seconds = space.of(n).seconds;
    sum += runs_per_step(graph, graph.nodes[n]) * *std::min_element(seconds.begin(), seconds.end());
  }
  LeastReshard least(space);
  for (const std::vector<Reader>& readers : readers_of_values(graph, space)) {
    double dearest[2] = {0, 0};  // by phase
    for (const Reader& reader : readers) {
      const ValueInfo& source = graph.values[reader.use.source];
      const NodeStrategies& producer = space.of(source.producer);
      const double seconds = least(producer.result_types[source.index],
                                   producer.result_specs[source.index], *reader.wanted);
      dearest[reader.use.phase] =
          std::max(dearest[reader.use.phase], reader.use.copy_runs * seconds);
    }
    sum += dearest[0] + dearest[1];
  }
  return sum;
}

ShardingPlan with_copies_made_again(ShardingPlan plan, const GraphFacts& facts) {
  const Graph& graph = facts.graph;
  const std::vector<ShardingSpec> starts = starts_of_reshards(plan, facts);
  std::vector<PlannedReshard> reshards;
  for (std::size_t r = 0; r < starts.size(); ++r) {
    PlannedReshard& first = plan.reshards[r];
    PlannedReshard again{first.value, first.path, {}};
    if (is_larger(graph.type(first.value), first.path.steps.back().to, starts[r], plan.mesh)) {
      first.once = false;
      const auto later =
          std::stable_partition(first.uses.begin(), first.uses.end(), [&](UseId use) {
            return region_of_use(graph, use) == region_of_use(graph, first.uses.front());
          });
      again.uses.assign(later, first.uses.end());
      first.uses.erase(later, first.uses.end());
    }
    reshards.push_back(std::move(first));
    if (!again.uses.empty()) reshards.push_back(std::move(again));
  }
  sort_by_first_use(reshards);
  plan.reshards = std::move(reshards);
  return plan;
}

}  // namespace alpa::intra_op
