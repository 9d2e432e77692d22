// Numbered specs and the seconds between them
#include "src/plan/facts/layouts.h"

#include "src/plan/facts/node_classes.h"

namespace alpa::intra_op {
int TypeLayouts::number(const ShardingSpec& spec) {
  const auto [place, added] = numbers.emplace(spec, static_cast<int>(specs.size()));
  if (added) specs.push_back(spec);
  return place->second;
}

int Layouts::number(const TensorType& type) {
  const auto [place, added] = numbers_.emplace(type, static_cast<int>(types_.size()));
  if (!added) return place->second;
  types_.push_back({type, {}, {}, {}, {}});
  types_.back().number(ShardingSpec::replicated());
  return place->second;
}

void Layouts::price(cost::ReshardPrices& prices, const DeviceMesh& mesh,
                    const cost::CostModel& model) {
  for (TypeLayouts& t : types_) {
    t.seconds = prices.seconds(t.type, t.specs, t.specs);
    t.cuts.clear();
    for (const ShardingSpec& from : t.specs)
      for (const ShardingSpec& to : t.specs)
        t.cuts.push_back(cut_seconds(t.type, from, to, mesh, model));
  }
}

}  // namespace alpa::intra_op
