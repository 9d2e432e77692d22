#pragma once
/// Whether copies of parameters in half precision are kept.
#include "alpa/mesh/cluster.h"
#include "alpa/train/training_step.h"
#include "method_options.h"

namespace alpa {

enum class Copies : std::uint8_t {
  none,       ///< no layer reads parameters in half precision
  fit,        ///< they take little of the memory
  too_large,  ///< beside state and sums of gradients, little else would fit
};

/// By an even share of a step's bytes on the devices of the cluster.
Copies copies_of(const TrainingStep& step, const MethodOptions& method, const Cluster& cluster);

}  // namespace alpa
