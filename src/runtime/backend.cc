#include "backend.h"

#include <algorithm>

#include "alpa/base/error.h"
#include "alpa/base/thread_team.h"
#include "alpa/device/cuda_library.h"
#include "kernels/cuda/epilogue_plan.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/message_box.h"
#include "kernels/cuda/shard_blocks.h"

namespace alpa {
namespace {

// ---- CPU: virtual devices, threads of this process

bool cpu_has_kernel(const OpDef& op) { return op.cpu && *op.cpu; }

std::int64_t cpu_scratch_bytes(const Node& node, const KernelCall& call) {
  invariant(cpu_has_kernel(*node.op), "\"{}\": operator {} has no CPU kernel", node.name, node.op->name);
  return node.op->cpu->workspace_bytes ? node.op->cpu->workspace_bytes(call) : 0;
}

const Backend kCpu = {
    .name = "cpu",
    .memory = {.alignment = 64, .scratch_bytes = cpu_scratch_bytes, .guard_bytes = ALPA_GUARD_BYTES},
    .on_cores = true,
    .has_kernel = cpu_has_kernel,
    .require_devices = [](int) {},
    .make_devices = make_cpu_devices,
};

// ---- CUDA: GPUs, through libalpa_cuda.so

std::int64_t cuda_scratch_bytes(const Node& node, const KernelCall& call) {
  return cuda::scratch_bytes(node.op->name, call);
}

void require_cuda_devices(int devices) {
  const CudaSupport& cuda = cuda_support();
  require(cuda.usable(), "backend \"cuda\": {}; run on \"cpu\", or plan with plan_only", cuda.reason);
  require_cards(cuda, devices, "backend \"cuda\"");
}

std::unique_ptr<Devices> make_cuda_devices(DevicesRequest request) {
  require_cuda_devices(static_cast<int>(request.programs.size()));
  CudaMessage why{};
  std::unique_ptr<Devices> devices(cuda_support().functions->make_devices(&request, &why));
  require(devices != nullptr, "{}", why.text);
  return devices;
}

// 256 bytes is what cudaMalloc aligns to and cuBLASLt's heuristic takes for granted. Room for NCCL's
// blocks is planned for logical devices, too: a plan does not know how many cards it will run on.
const Backend kCuda = {
    .name = "cuda",
    .memory = {.alignment = 256,
               .scratch_bytes = cuda_scratch_bytes,
               .collective_scratch_bytes = nccl_scratch_bytes,
               .message_scratch_bytes = message_scratch_bytes,
               .staged_inputs = true},
    .fuses_epilogue = [](const KernelCall& node) { return cuda::plan_epilogue(node).joint; },
    .launches = true,
    .has_kernel = [](const OpDef& op) { return op.elementwise >= 0 || cuda::has_row(op.name); },
    .require_devices = require_cuda_devices,
    .make_devices = make_cuda_devices,
};

}  // namespace

std::int64_t nccl_scratch_bytes(const CollectiveCall& call, const KernelCall& tensors) {
  std::int64_t bytes = 0;
  const auto add = [&](const KernelTensor& tensor, const ShardedDim& cut) {
    const int ranks = static_cast<int>(call.group.size());
    bytes += cuda::block_scratch_bytes(cuda::shard_blocks(tensor.type.shape, cut.dim, cut.chunk, ranks),
                                       tensor.type);
  };
  for (std::size_t t = 0; t < tensors.inputs.size(); ++t) {
    if (call.kind == CollectiveKind::reduce_scatter || call.kind == CollectiveKind::all_to_all)
      add(tensors.inputs[t], call.dims[t]);
    if (call.kind == CollectiveKind::all_gather) add(tensors.outputs[t], call.dims[t]);
    if (call.kind == CollectiveKind::all_to_all) add(tensors.outputs[t], call.from_dim);
  }
  return bytes;
}

std::int64_t message_scratch_bytes(const Message& message, const KernelTensor& tensor) {
  return cuda::box_scratch_bytes(cuda::message_box(tensor, message.begin, message.extent),
                                 tensor.type.dtype);
}

const Backend& find_backend(std::string_view name) {
  for (const Backend* backend : {&kCpu, &kCuda})
    if (backend->name == name) return *backend;
  fail("backend \"{}\" is unknown; known are \"{}\" and \"{}\"", name, kCpu.name, kCuda.name);
}

MemoryRules memory_rules(std::string_view backend, int threads_per_device) {
  MemoryRules rules = find_backend(backend).memory;
  rules.threads = threads_per_device;
  return rules;
}

int threads_per_device(const Backend& backend, const ExecutorOptions& options, int num_devices) {
  require(options.threads_per_device >= 0,
          "executor: {} threads per device; give 0 for as many as there are cores, or more",
          options.threads_per_device);
  if (!backend.on_cores) return 1;
  return options.threads_per_device > 0 ? options.threads_per_device
                                        : std::max(1, usable_cores() / num_devices);
}

bool overlaps(const Backend& backend, const ExecutorOptions& options, int num_devices) {
  if (options.overlap == Overlap::automatic) return !backend.on_cores || usable_cores() > num_devices;
  return options.overlap == Overlap::always;
}

}  // namespace alpa
