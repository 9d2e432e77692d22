// src/runtime/backend.cc — the backends: CPU threads, and GPUs through libalpa_cuda.so
#include "backend.h"

#include <algorithm>

#include "alpa/base/error.h"
#include "kernels/cuda/einsum_group_plan.h"
#include "kernels/cuda/epilogue_plan.h"
#include "kernels/cuda/kernels.h"
#include "src/base/thread_team.h"
#include "src/cuda_loader/cuda_library.h"
#include "src/ir/op_def.h"
#include "src/processes/world.h"

namespace alpa::runtime {
namespace {

// ---- CPU: virtual devices, threads of this process

bool cpu_has_kernel(const OpDef& op) { return op.cpu && *op.cpu; }

const Backend kCpu = {
    .name = "cpu",
    .on_cores = true,
    .bucket_bytes = std::int64_t{1} << 20,
    .fixes_sums = true,
    .has_kernel = cpu_has_kernel,
    .require_devices = [](int) {},
    .make_devices = make_cpu_devices,
};

// ---- CUDA: GPUs, through libalpa_cuda.so

/// Number of devices in the process that has the most of `devices`.
int devices_of_process(int devices) {
  const processes::World* const world = processes::world();
  return world ? (devices + world->size() - 1) / world->size() : devices;
}

void require_cuda_devices(int devices) {
  const CudaSupport& cuda = cuda_support();
  require(cuda.usable(), "backend \"cuda\": {}; run on \"cpu\", or plan with plan_only",
          cuda.reason);
  require_cards(cuda, devices_of_process(devices), "backend \"cuda\"");
}

std::unique_ptr<Devices> make_cuda_devices(DevicesRequest request) {
  require(cuda_support().usable(), "backend \"cuda\": {}", cuda_support().reason);
  CudaMessage why{};
  std::unique_ptr<Devices> devices(cuda_support().functions->make_devices(&request, &why));
  require(devices != nullptr, "{}", why.text);
  return devices;
}

const Backend kCuda = {
    .name = "cuda",
    .fuses_epilogue = [](const KernelCall& node) { return cuda::plan_epilogue(node).joint; },
    .groups_einsums = [](const KernelCall& node) { return cuda::plan_einsum_group(node).joint; },
    .launches = true,
    .bucket_bytes = std::int64_t{25} << 20,
    .has_kernel = [](const OpDef& op) { return op.elementwise >= 0 || cuda::has_row(op.name); },
    .require_devices = require_cuda_devices,
    .make_devices = make_cuda_devices,
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
  for (const Backend* backend : {&kCpu, &kCuda})
    if (backend->name == name) return *backend;
  fail("backend \"{}\" is unknown; known are \"{}\" and \"{}\"", name, kCpu.name, kCuda.name);
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

}  // namespace alpa::runtime
