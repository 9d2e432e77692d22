#pragma once
/// The driver: compiles a training step written for one device into an executable on a cluster.
/// `src/api/parallelize.cc` lists the passes in order.
#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "alpa/compile/parallel_method.h"
#include "alpa/executable.h"
#include "alpa/mesh/cluster.h"
#include "alpa/train/training_step.h"
#pragma GCC visibility push(default)

namespace alpa {

/// Traces, plans, partitions and loads `step`. Throws Error on a mistake in the model, the method's
/// options or the cluster, and if no plan fits the memory budget.
Executable parallelize(const TrainingStep& step, const Method& method, const Cluster& cluster);

/// Several steps on one state, for example `auto [train, evaluate] = parallelize(step, evaluation,
/// method, cluster)`. The first is planned, by `method`. The others follow its plan, without a
/// search, in their own batch sizes: state is where the first step leaves it, so it is neither
/// copied nor held twice, and a state from `init` of any of them serves all. Several steps may
/// train, each with an optimizer of its own, such as the two of a GAN: the state is that of all.
/// Each step counts its own runs, except those with `TrainingStep::counts_with_first`, which count
/// with the first. A step has as many micro-batches as the first, or the next larger number that
/// divides its batch. Collectives that `method` forbids are forbidden to the first step alone.
/// Throws Error as above, if a step reads state that the first one lacks and none updates, or if
/// one counts with the first but does not update the same state.
std::vector<Executable> parallelize(std::span<const TrainingStep> steps, const Method& method,
                                    const Cluster& cluster);
std::array<Executable, 2> parallelize(const TrainingStep& first, const TrainingStep& second,
                                      const Method& method, const Cluster& cluster);
/// For more than two: `auto [a, b, c] = parallelize({step, evaluation, prediction}, …)`.
template <std::size_t count>
std::array<Executable, count> parallelize(const TrainingStep (&steps)[count], const Method& method,
                                          const Cluster& cluster) {
  const auto loaded = parallelize(std::span<const TrainingStep>(steps), method, cluster);
  return [&]<std::size_t... i>(std::index_sequence<i...>) {
    return std::array<Executable, count>{loaded[i]...};
  }
  (std::make_index_sequence<count>());
}

/// As `parallelize`, but reads the plan from a file instead of searching for one; search options of
/// `method` have no effect. Throws Error if the plan is for another graph or number of devices,
/// exceeds the memory budget, or holds whole what the option `shard_optimizer_state` splits.
Executable load_plan(const TrainingStep& step, const Method& method, const Cluster& cluster,
                     const std::string& path);
/// The plan of the first step is read from the file; the others follow it.
std::vector<Executable> load_plan(std::span<const TrainingStep> steps, const Method& method,
                                  const Cluster& cluster, const std::string& path);
/// The same with two steps.
std::array<Executable, 2> load_plan(const TrainingStep& first, const TrainingStep& second,
                                    const Method& method, const Cluster& cluster,
                                    const std::string& path);

/// Throws Error if this process lacks the devices of `cluster`: the backend is unknown, has no
/// devices here, or has several cards but fewer than the cluster. `parallelize` and
/// `load_plan` call it first.
void require_devices(const Cluster& cluster);

/// `Cluster::local(devices)` with what the CPU devices of this machine achieve while all of them
/// work: matrix products by shape and element type, elementwise loops by bytes, one instruction,
/// all-reduces. Takes about `seconds`, more if steps are slow; other programs falsify the result.
/// Throws Error if devices < 1.
Cluster profile(int devices, double seconds = 10);

/// Plans without loading. Needs no devices, so the cluster may be any.
CompiledStep plan_only(const TrainingStep& step, const Method& method, const Cluster& cluster);
/// The plan of a file without loading it, as `load_plan` reads it; it too needs no devices.
CompiledStep plan_only(const TrainingStep& step, const Method& method, const Cluster& cluster,
                       const std::string& path);

}  // namespace alpa
#pragma GCC visibility pop
