#pragma once
/// One step of a plan in f64 on CPU devices, beside the same step on one device.
#include <string>
#include <vector>

#include "alpa/mesh/cluster.h"
#include "alpa/plan/pipeline_plan.h"
#include "alpa/tensor/array.h"

namespace tools {

/// How far a tensor is from that of one device.
struct TensorDifference {
  std::string name;
  double largest = 0;  ///< of all elements
  double scale = 0;    ///< the largest element of one device

  /// Rounding of f64 in another order of sums; far below what a wrong element makes.
  bool is_rounding() const;
};

/// Throws Error unless both are arrays of f64 of one shape.
TensorDifference difference_of(const std::string& name, const alpa::Array& found,
                               const alpa::Array& expected);

/// The graphs of the stages with f64 in the place of every other floating type. Throws Error, which
/// says why, if there is none: operators that convert types may not have it.
std::vector<alpa::StagePlan> stages_in_f64(const alpa::Plan& plan);

/// State, metrics and outputs after one step on random data, the largest difference first.
/// `plan`: of stages in f64, for devices of `cluster`.
std::vector<TensorDifference> compared_step(const alpa::Plan& plan, const alpa::Cluster& cluster);

}  // namespace tools
