// src/search/stages/range_estimates.cc — what ranges are expected to take, by planned ones
#include <algorithm>
#include <cmath>

#include "src/search/stages/range_costs.h"

namespace alpa {

/// Bytes kept of a micro-batch are guessed by what layers keep for their own gradients, and, for
/// what passes between them, by their number.
double RangeCosts::kept_weight(int range) const {
  const auto [first, last] = ranges_.example(range);
  const double all = held_[ranges_.class_of(0, ranges_.layers() - 1)].per_micro_batch;
  const double per_layer = all > 0 ? all / ranges_.layers() : 1;
  return held_[range].per_micro_batch + per_layer * (last - first + 1);
}

/// A plan of `of` as one of `range` may be: seconds grow as bounds do, state as there is of it.
RangeCosts::Estimate RangeCosts::estimate(int range, int part, int of, const Plan& plan) {
  const double seconds = bound_of({range, part}) / bound_of({of, part});
  const double state = held_[of].always > 0 ? held_[range].always / held_[of].always : 1;
  const double kept = kept_weight(range) / kept_weight(of) * static_cast<double>(plan.bytes.kept);
  const double room = static_cast<double>(budget_) - state * static_cast<double>(plan.bytes.passes);
  const double most = kept > 0 ? room / kept : graph_.num_micro_batches;
  return {plan.seconds * seconds,
          room < 0 ? 0 : static_cast<int>(std::min<double>(most, graph_.num_micro_batches))};
}

/// The planned range on the part that has the most similar number of layers; -1: there is none.
int RangeCosts::nearest_planned(int range, int part) const {
  const auto layers = [&](int of) { return ranges_.example(of).last - ranges_.example(of).first; };
  int nearest = -1;
  for (int of = 0; of < ranges_.classes(); ++of) {
    const Planned& planned = planned_[of * parts_.size() + part];
    if (planned.plans.empty() && planned.first_plans.empty()) continue;
    if (nearest < 0 ||
        std::abs(layers(of) - layers(range)) < std::abs(layers(nearest) - layers(range)))
      nearest = of;
  }
  return nearest;
}

double RangeCosts::estimated_seconds(const RangeQuery& query) {
  return estimated_by(nearest_planned(query.range, query.part), query);
}

/// By the plans of range `of`; -1: there are none.
double RangeCosts::estimated_by(int of, const RangeQuery& query) {
  if (of < 0 || query.in_flight >= planned(query).none_from) return kInfinity;
  const Planned& near = planned({of, query.part});
  double least = kInfinity;
  for (const std::vector<Plan>* plans : {&near.plans, &near.first_plans})
    for (const Plan& plan : *plans) {
      const Estimate as = of == query.range ? Estimate{plan.seconds, plan.most_in_flight}
                                            : estimate(query.range, query.part, of, plan);
      if (as.most_in_flight >= query.in_flight) least = std::min(least, as.seconds);
    }
  return least;
}

inter_op::PartitionCosts RangeCosts::estimates(const std::vector<int>& in_flight) {
  inter_op::PartitionCosts costs(ranges_.layers(), ranges_.class_numbers(),
                                 static_cast<int>(parts_.size()),
                                 static_cast<int>(in_flight.size()));
  for (int part = 0; part < std::ssize(parts_); ++part)
    for (int range = 0; range < ranges_.classes(); ++range) {
      const int of = nearest_planned(range, part);
      for (int c = 0; of >= 0 && c < std::ssize(in_flight); ++c) {
        const std::size_t at = costs.index(range, part, c);
        costs.seconds[at] = estimated_by(of, {range, part, in_flight[c]});
        costs.max_in_flight[at] = in_flight[c];
      }
    }
  return costs;
}

}  // namespace alpa
