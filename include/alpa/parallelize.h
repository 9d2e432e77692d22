#pragma once
/// The driver: compiles a training step written for one device into an executable on a cluster.
/// `src/parallelize.cc` lists the passes in order.
#include <string>

#include "alpa/executable.h"
#include "alpa/mesh/cluster.h"
#include "alpa/parallel_method.h"
#include "alpa/train/training_step.h"

namespace alpa {

/// Traces, plans, partitions and loads `step`. Throws Error on a mistake in the model, the method's
/// options or the cluster, and if no plan keeps the memory budget.
Executable parallelize(const TrainingStep& step, const Method& method, const Cluster& cluster);

/// As `parallelize`, but reads the plan from a file instead of searching for one; search options of
/// `method` have no effect. Throws Error if the plan is for another graph or number of devices,
/// exceeds the memory budget, or holds whole what the option `shard_optimizer_state` splits.
Executable load_plan(const TrainingStep& step, const Method& method, const Cluster& cluster,
                     const std::string& path);

/// Throws Error if this process lacks the devices of `cluster`: the backend is unknown, has no
/// devices here, or has several cards but fewer than the cluster. `parallelize` and
/// `load_plan` call it first.
void require_devices(const Cluster& cluster);

/// Plans without loading. Needs no devices, so the cluster may be any.
CompiledStep plan_only(const TrainingStep& step, const Method& method, const Cluster& cluster);

}  // namespace alpa
