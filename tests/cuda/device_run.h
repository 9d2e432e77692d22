#pragma once
/// Operators on the device, as the executor loads and queues them.
#include "device_call.h"
#include "kernels/cuda/kernels.h"
#include "src/cuda/dnn_plans.h"
#include "src/cuda/kernel.h"
#include "src/cuda/matmul.h"
#include "src/ir/op_def.h"

namespace alpa::testing {

struct DeviceRun {
  Attributes attributes = {};
  StepContext step = {};
  std::size_t shift = 0;                           ///< of all buffers from a multiple of 256 bytes
  std::vector<std::pair<int, int>> in_place = {};  ///< (output, input) that share a buffer
  bool captured = false;                           ///< launched by a CUDA graph
  cuda::ElementwiseForm elementwise = cuda::ElementwiseForm::automatic;
  cuda::EpilogueForm epilogues = cuda::EpilogueForm::automatic;
  cuda::Matmuls* products = nullptr;  ///< null: the first ones that cuBLASLt proposes
  cuda::DnnPlans* dnn = nullptr;      ///< null: the first ones that cuDNN proposes
};

/// The current device.
inline cuda::Gpu this_card(cuda::Matmuls& products) {
  int ordinal, major, minor;
  check(cudaGetDevice(&ordinal));
  check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, ordinal));
  check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, ordinal));
  return {ordinal, major * 10 + minor, &products};
}

/// Queues `launch`, directly or as a graph that was captured of it, and waits.
inline void queue(const cuda::Launch& launch, const KernelCall& call, bool captured) {
  cudaStream_t stream;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  if (captured) {
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    launch(call, stream);
    check(cudaStreamEndCapture(stream, &graph));
    check(cudaGraphInstantiate(&executable, graph, 0));
    check(cudaGraphLaunch(executable, stream));
    check(cudaStreamSynchronize(stream));
    check(cudaGraphExecDestroy(executable));
    check(cudaGraphDestroy(graph));
  } else {
    launch(call, stream);
    check(cudaStreamSynchronize(stream));
  }
  check(cudaStreamDestroy(stream));
}

/// Runs `op` on the device; `outputs` give types, offsets and global shapes. Outputs and scratch
/// are poisoned, guards around all buffers must stay untouched.
inline std::vector<HostTensor> run_on_device(const OpDef& op, const std::vector<HostTensor>& inputs,
                                             std::vector<HostTensor> outputs,
                                             const DeviceRun& run) {
  KernelCall call;
  for (const HostTensor& t : inputs) call.inputs.push_back(kernel_tensor(t));
  for (const HostTensor& t : outputs) call.outputs.push_back(kernel_tensor(t));
  call.attributes = &run.attributes;
  const cuda::MatmulOptions untuned{.measured = false, .cached = false};
  cuda::Matmuls first(untuned);
  cuda::DnnPlans first_dnn(untuned);
  cuda::Gpu card = this_card(run.products == nullptr ? first : *run.products);
  card.dnn = run.dnn == nullptr ? &first_dnn : run.dnn;
  card.elementwise = run.elementwise;
  card.epilogues = run.epilogues;
  cuda::Load* const load = cuda::find_kernel(op);
  REQUIRE(static_cast<bool>(load));
  const cuda::Launch launch = load(op, call, card);

  std::vector<DeviceBuffer> buffers;
  const auto bytes = [](void* p) { return static_cast<std::byte*>(p); };
  for (std::size_t i = 0; i < inputs.size(); ++i)
    call.inputs[i].data = bytes(buffers.emplace_back(inputs[i], run.shift).data());
  for (std::size_t o = 0; o < outputs.size(); ++o)
    call.outputs[o].data = bytes(buffers.emplace_back(outputs[o].bytes.size(), run.shift).data());
  std::vector<std::size_t> at;  // the buffer of every output
  for (std::size_t o = 0; o < outputs.size(); ++o) at.push_back(inputs.size() + o);
  for (const auto& [o, i] : run.in_place) call.outputs[o].data = call.inputs[i].data, at[o] = i;
  const DeviceBuffer scratch(static_cast<std::size_t>(cuda::scratch_bytes(op.name, call))),
      step(sizeof run.step);
  check(cudaMemcpy(step.data(), &run.step, sizeof run.step, cudaMemcpyHostToDevice));
  call.workspace = bytes(scratch.data());
  call.step = static_cast<const StepContext*>(step.data());

  if (run.captured) {  // a kernel's first launch loads its code, which a capture forbids
    queue(launch, call, false);
    for (std::size_t i = 0; i < inputs.size(); ++i)
      check(cudaMemcpy(buffers[i].data(), inputs[i].bytes.data(), inputs[i].bytes.size(),
                       cudaMemcpyHostToDevice));
  }
  queue(launch, call, run.captured);
  scratch.check_guards();
  for (std::size_t o = 0; o < outputs.size(); ++o) buffers[at[o]].download(outputs[o].bytes.data());
  return outputs;
}

}  // namespace alpa::testing
