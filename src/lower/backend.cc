// src/lower/backend.cc — the backends that programs are lowered for: CPU threads and GPUs
#include "backend.h"

#include <algorithm>
#include <string>

#include "alpa/base/error.h"
#include "kernels/cuda/einsum_group_plan.h"
#include "kernels/cuda/epilogue_plan.h"
#include "kernels/cuda/kernels.h"
#include "src/base/thread_team.h"
#include "src/ir/op_def.h"
#include "src/processes/world.h"

namespace alpa::lower {
namespace {

std::int64_t cpu_scratch_bytes(const Node& node, const KernelCall& call) {
  invariant(node.op->cpu && *node.op->cpu, "\"{}\": operator {} has no CPU kernel", node.name,
            node.op->name);
  return node.op->cpu->workspace_bytes ? node.op->cpu->workspace_bytes(call) : 0;
}

std::int64_t cuda_scratch_bytes(const Node& node, const KernelCall& call) {
  if (node.op->custom) return cpu_scratch_bytes(node, call);
  return cuda::scratch_bytes(node.op->name, call);
}

const Backend kBackends[] = {
    {
        .name = "cpu",
        .on_cores = true,
        .bucket_bytes = std::int64_t{1} << 20,
        .fixes_sums = true,
        .has_kernel = [](const OpDef& op) { return op.cpu && *op.cpu; },
        .memory = {.scratch_bytes = cpu_scratch_bytes, .guard_bytes = ALPA_GUARD_BYTES},
    },
    {
        .name = "cuda",
        .fuses_epilogue = [](const KernelCall& node) { return cuda::plan_epilogue(node).joint; },
        .groups_einsums =
            [](const KernelCall& node) { return cuda::plan_einsum_group(node).joint; },
        .launches = true,
        .bucket_bytes = std::int64_t{25} << 20,
        .has_kernel = [](const OpDef& op) { return op.elementwise >= 0 || cuda::has_row(op.name); },
        // 256 bytes is what cudaMalloc aligns to and cuBLASLt's heuristic takes for granted.
        // Room for NCCL's blocks is planned for logical devices, too: a plan does not know how
        // many cards it will run on.
        .memory = {.alignment = 256,
                   .scratch_bytes = cuda_scratch_bytes,
                   .collective_scratch_bytes = nccl_scratch_bytes,
                   .message_scratch_bytes = message_scratch_bytes,
                   .staged_inputs = true,
                   .side_by_side = true},
    },
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
  std::string known;
  for (const Backend& backend : kBackends) {
    if (backend.name == name) return backend;
    known += fmt::format("{}\"{}\"", known.empty() ? "" : " and ", backend.name);
  }
  fail("backend \"{}\" is unknown; known are {}", name, known);
}

MemoryRules memory_rules(std::string_view backend, int threads_per_device) {
  MemoryRules rules = find_backend(backend).memory;
  rules.threads = threads_per_device;
  return rules;
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
