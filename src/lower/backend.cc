// src/lower/backend.cc — the backends that programs are lowered for: CPU threads and GPUs
#include "backend.h"

#include <algorithm>

#include "alpa/base/error.h"
#include "kernels/cuda/einsum_group_plan.h"
#include "kernels/cuda/epilogue_plan.h"
#include "kernels/cuda/kernels.h"
#include "src/base/thread_team.h"
#include "src/ir/op_def.h"
#include "src/processes/world.h"

namespace alpa::lower {
namespace {

const Backend kCpuBackend = {
    .name = "cpu",
    .on_cores = true,
    .bucket_bytes = std::int64_t{1} << 20,
    .fixes_sums = true,
    .has_kernel = [](const OpDef& op) { return op.cpu && *op.cpu; },
};

const Backend kCudaBackend = {
    .name = "cuda",
    .fuses_epilogue = [](const KernelCall& node) { return cuda::plan_epilogue(node).joint; },
    .groups_einsums = [](const KernelCall& node) { return cuda::plan_einsum_group(node).joint; },
    .launches = true,
    .bucket_bytes = std::int64_t{25} << 20,
    .has_kernel = [](const OpDef& op) { return op.elementwise >= 0 || cuda::has_row(op.name); },
};

/// Cores for `devices`: this process's share of the launch's, if there are devices for all its
/// processes; else all cores offered to this process.
processes::World::Share cores_for(int devices) {
  const processes::World* const world = processes::world();
  if (world && devices >= world->size()) return world->cores_for(devices);
  return {offered_cores(), devices};
}

}  // namespace

const Backend& find_backend(std::string_view name) {
  for (const Backend* backend : {&kCpuBackend, &kCudaBackend})
    if (backend->name == name) return *backend;
  fail("backend \"{}\" is unknown; known are \"{}\" and \"{}\"", name, kCpuBackend.name,
       kCudaBackend.name);
}

int threads_per_device(const Backend& backend, const ExecutorOptions& options, int num_devices) {
  require(options.threads_per_device >= 0,
          "executor: {} threads per device; give at least 1, or 0 to share all cores",
          options.threads_per_device);
  if (!backend.on_cores) return 1;
  if (options.threads_per_device > 0) return options.threads_per_device;
  const auto [cores, devices] = cores_for(num_devices);
  return std::max(1, cores / devices);
}

bool overlaps(const Backend& backend, const ExecutorOptions& options, int num_devices) {
  if (options.overlap != Overlap::automatic) return options.overlap == Overlap::always;
  if (!backend.on_cores) return true;
  const auto [cores, devices] = cores_for(num_devices);
  return cores > devices;
}

}  // namespace alpa::lower
