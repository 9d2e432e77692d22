#pragma once
/// The JSON of options of alpa_c.h.
#include <string>

#include "alpa/compile/parallel_method.h"
#include "alpa/import/stablehlo.h"
#include "alpa/mesh/cluster.h"

namespace bindings {

/// What is planned: a step, how, and for which cluster.
struct Planned {
  alpa::TrainingStep step;
  alpa::Method method;
  alpa::Cluster cluster;
};

/// Throws Error that names the option if a key is unknown, or a value is of another kind, or has no
/// effect on this function.
Planned planned(const alpa::Imported& function, const std::string& options);

}  // namespace bindings
