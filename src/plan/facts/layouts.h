#pragma once
/// Numbered specs per tensor type, and the seconds between them. Types are numbered too, so that
/// tables can be shared by number.
#include <unordered_map>
#include <vector>

#include "src/plan/cost/cost_model.h"

namespace alpa::intra_op {

/// Specs of values of one type that occur in the search; number 0 is the replicated one.
struct TypeLayouts {
  TensorType type;
  std::vector<ShardingSpec> specs;
  std::unordered_map<ShardingSpec, int> numbers;
  std::vector<double> seconds;  ///< row-major from x to, infinity where impossible; see `price`
  std::vector<double> cuts;     ///< row-major from x to, of cutting a loop there (node_classes.h)

  int number(const ShardingSpec& spec);
  double between(int from, int to) const {
    return seconds[static_cast<std::size_t>(from) * specs.size() + to];
  }
  double cut(int from, int to) const {
    return cuts[static_cast<std::size_t>(from) * specs.size() + to];
  }
};

class Layouts {
 public:
  /// Number of a type.
  int number(const TensorType& type);
  TypeLayouts& of(int type) { return types_[type]; }
  const TypeLayouts& of(int type) const { return types_[type]; }

  /// Fills `seconds` and `cuts` of every type, after the last spec was numbered.
  void price(cost::ReshardPrices& prices, const DeviceMesh& mesh, const cost::CostModel& model);

 private:
  std::vector<TypeLayouts> types_;
  std::unordered_map<TensorType, int> numbers_;
};

}  // namespace alpa::intra_op
