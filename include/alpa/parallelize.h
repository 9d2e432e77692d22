#pragma once
/// The driver: from a training step written for one device to an executable on a cluster.
/// `src/parallelize.cc` is the reader's map.
#include <string>

#include "alpa/executable.h"
#include "alpa/mesh/cluster.h"
#include "alpa/parallel_method.h"
#include "alpa/train/training_step.h"

namespace alpa {

/// Traces, plans, partitions and loads `step`. Throws Error on a mistake of the model, the method's options
/// or the cluster, and if no plan keeps the memory budget.
Executable parallelize(const TrainingStep& step, const Method& method, const Cluster& cluster);

/// The same with the plan read from a file instead of solved for; of the method's options those of the
/// search are without effect. Throws Error if the plan belongs to another graph or number of devices, or
/// exceeds the memory budget.
Executable load_plan(const TrainingStep& step, const Method& method, const Cluster& cluster,
                     const std::string& path);

/// Throws Error if this process does not have the devices of `cluster`: the backend is unknown, has none
/// here, or has several cards, but fewer than devices. `parallelize` and `load_plan` begin with it.
void require_devices(const Cluster& cluster);

/// Plans only: no devices needed, so any cluster can be planned for.
Planned plan_only(const TrainingStep& step, const Method& method, const Cluster& cluster);

}  // namespace alpa
