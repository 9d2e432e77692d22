// Numbered specs and the seconds between them
#include "src/intra_op/facts/layouts.h"

#include "src/intra_op/facts/node_classes.h"

namespace alpa::intra_op {
namespace {

std::size_t hash_of(const TensorType& type) {
  std::size_t hash = static_cast<std::size_t>(type.dtype) + 1;
  for (std::int64_t extent : type.shape)
    hash = hash * 0x9e3779b97f4a7c15 + static_cast<std::size_t>(extent);
  return hash;
}

}  // namespace

int TypeLayouts::number(const ShardingSpec& spec) {
  const auto [place, added] = numbers.emplace(spec, static_cast<int>(specs.size()));
  if (added) specs.push_back(spec);
  return place->second;
}

int Layouts::number(const TensorType& type) {
  const std::size_t hash = hash_of(type);
  const auto [begin, end] = by_hash_.equal_range(hash);
  for (auto entry = begin; entry != end; ++entry) {
    if (types_[entry->second].type == type) return entry->second;
  }
  by_hash_.emplace(hash, static_cast<int>(types_.size()));
  types_.push_back({type, {}, {}, {}, {}});
  types_.back().number(ShardingSpec::replicated());
  return static_cast<int>(types_.size()) - 1;
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
