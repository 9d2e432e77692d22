// CUDA kernels against the bandwidth of a device copy measured beside them.
//   bench_cuda_kernels [ROUNDS]      default: 15
// One JSON object per line: bytes that must be read and written per second, and their ratio to those of the
// copy.
#include <cuda_runtime.h>
#include <fmt/core.h>

#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "alpa/base/error.h"
#include "interleave.h"
#include "kernels/cuda/combine.h"
#include "kernels/cuda/copy.h"
#include "kernels/cuda/random.h"
#include "kernels/cuda/reduce.h"
#include "kernels/cuda/update.h"
#include "kernels/elementwise.h"
#include "src/cuda/fused_kernel.h"

using namespace alpa;

namespace {

constexpr std::int64_t kRows = 16384, kColumns = 8192, kElements = kRows * kColumns;  // 512 MB of f32

void check(int status) {
  require(status == cudaSuccess, "bench_cuda_kernels: {}",
          cudaGetErrorString(static_cast<cudaError_t>(status)));
}

void* allocate(std::int64_t bytes) {
  void* data = nullptr;
  check(cudaMalloc(&data, static_cast<std::size_t>(bytes)));
  check(cudaMemset(data, 0, static_cast<std::size_t>(bytes)));
  return data;
}

struct Measured {
  std::string name;
  std::int64_t bytes;
  std::function<void()> run;
  std::vector<double> seconds = {};
};

/// Seconds of the device, without the host's.
double timed(const std::function<void()>& run) {
  cudaEvent_t begin, end;
  check(cudaEventCreate(&begin));
  check(cudaEventCreate(&end));
  check(cudaEventRecord(begin));
  run();
  check(cudaEventRecord(end));
  check(cudaEventSynchronize(end));
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, begin, end));
  check(cudaEventDestroy(begin));
  check(cudaEventDestroy(end));
  return milliseconds * 1e-3;
}

/// y = gelu(x + bias) · z in one pass, interpreted and compiled.
void add_elementwise(std::vector<Measured>& all, DType dtype, void* x, void* bias, void* z, void* y) {
  const auto code = [](ElementwiseOp op) { return static_cast<int>(op); };
  ElementwiseProgram program;
  program.num_inputs = 3;
  program.steps = {{code(ElementwiseOp::add), 0, 1, -1},
                   {code(ElementwiseOp::gelu), 3, -1, -1},
                   {code(ElementwiseOp::mul), 4, 2, -1}};
  program.outputs = {5};
  static const Attributes none;
  KernelCall call;
  call.attributes = &none;
  const auto tensor = [&](Shape shape) {
    return KernelTensor{nullptr, {dtype, shape}, Shape(shape.size(), 0), shape};
  };
  call.inputs = {tensor({kRows, kColumns}), tensor({kColumns}), tensor({kRows, kColumns})};
  call.outputs = {tensor({kRows, kColumns})};
  const cpu::ElementwisePlan plan = cpu::plan_elementwise(program, call);
  const cuda::ElementwiseLaunch launch = *cuda::lower_elementwise(plan, call);
  cudaDeviceProp device;
  check(cudaGetDeviceProperties(&device, 0));
  const auto kernel = std::make_shared<cuda::FusedKernel>(plan, call, device.major * 10 + device.minor);
  const std::vector<const void*> in = {x, bias, z};
  const std::vector<void*> out = {y};
  const std::int64_t bytes = 3 * kElements * static_cast<std::int64_t>(size_of(dtype));
  all.push_back({fmt::format("bias, gelu, mul {} interpreted", name_of(dtype)), bytes,
                 [=] { check(cuda::run_elementwise(launch, in.data(), out.data(), nullptr)); }});
  all.push_back({fmt::format("bias, gelu, mul {} compiled", name_of(dtype)), bytes,
                 [=] { check(kernel->run(in.data(), out.data(), nullptr)); }});
}

void add_reductions(std::vector<Measured>& all, DType dtype, void* x, void* y) {
  const std::pair<const char*, std::vector<char>> cases[] = {
      {"rows", {0, 1}}, {"columns", {1, 0}}, {"full", {1, 1}}};
  for (const auto& [name, reduced] : cases) {
    const bool flags[] = {reduced[0] != 0, reduced[1] != 0};
    const std::int64_t shape[] = {kRows, kColumns};
    cuda::ReduceLaunch launch;
    require(cuda::plan_reduce(launch, cuda::ReduceOp::sum, dtype, dtype, 2, shape, flags), "plan_reduce");
    void* const workspace = allocate(cuda::reduce_workspace_bytes(launch) + 16);
    all.push_back({fmt::format("sum of {} {}", name, name_of(dtype)),
                   kElements * static_cast<std::int64_t>(size_of(dtype)),
                   [=] { check(cuda::run_reduce(launch, x, y, workspace, nullptr)); }});
  }
}

void add_transpose(std::vector<Measured>& all, DType dtype, void* x, void* y) {
  const std::int64_t extent[] = {kColumns, kRows}, from[] = {1, kColumns}, to[] = {kRows, 1};
  const int element = static_cast<int>(size_of(dtype));
  cuda::CopyLaunch launch;
  require(cuda::plan_copy(launch, element, 2, extent, from, to), "plan_copy");
  all.push_back({fmt::format("transpose {}", name_of(dtype)), 2 * kElements * element,
                 [=] { check(cuda::run_copy(launch, x, y, nullptr)); }});
}

void add_random(std::vector<Measured>& all, void* y) {
  const std::int64_t extent[] = {kElements}, at[] = {0};
  const auto* const step = static_cast<const cuda::RandomStep*>(allocate(sizeof(cuda::RandomStep)));
  for (const auto distribution : {cuda::Distribution::uniform, cuda::Distribution::normal}) {
    cuda::RandomLaunch launch;
    require(cuda::plan_random(launch, distribution, f32, 1, 0, 1, 1, extent, at, extent), "plan_random");
    all.push_back({distribution == cuda::Distribution::normal ? "random normal f32" : "random uniform f32",
                   4 * kElements, [=] { check(cuda::run_random(launch, step, y, nullptr)); }});
  }
}

/// 64 parameters of equal size.
void add_updates(std::vector<Measured>& all, std::vector<void*> states) {
  constexpr int kCount = 64;
  std::vector<cuda::UpdateTensor> tensors(kCount);
  for (int i = 0; i < kCount; ++i) {
    const auto at = [&](int state) {
      return static_cast<float*>(states[state]) + i * (kElements / kCount);
    };
    cuda::UpdateTensor& t = tensors[i];
    t.w = t.new_w = at(0), t.first = t.new_first = at(1), t.second = t.new_second = at(2);
    t.gradient = at(3), t.elements = kElements / kCount;
  }
  const float one = 1;
  void* const scalar = allocate(4);
  check(cudaMemcpy(scalar, &one, 4, cudaMemcpyHostToDevice));
  all.push_back({"Adam of 64 parameters f32", 7 * 4 * kElements, [=] {
                   check(cuda::run_adam(tensors.data(), kCount, {}, {scalar, f32}, {scalar, f32}, nullptr));
                 }});
  std::vector<cuda::NormTensor> norms(kCount);
  auto* const sums = static_cast<double*>(
      allocate((kCount * cuda::chunks_of(kElements / kCount) + kCount) * sizeof(double)));
  for (int i = 0; i < kCount; ++i) norms[i] = {tensors[i].gradient, sums + i, f32, f64, kElements / kCount};
  all.push_back({"squared norms of 64 gradients f32", 4 * kElements,
                 [=] { check(cuda::run_squared_norms(norms.data(), kCount, sums + kCount, nullptr)); }});
}

/// An all_reduce of eight logical devices: all read, all written.
void add_all_reduce(std::vector<Measured>& all, void* x) {
  constexpr int kMembers = 8;
  std::vector<void*> members;
  for (int i = 0; i < kMembers; ++i) members.push_back(static_cast<float*>(x) + i * (kElements / kMembers));
  all.push_back({"all_reduce of 8 logical devices f32", 2 * 4 * kElements, [=] {
                   check(cuda::run_combine(f32, cuda::CombineOp::sum, cuda::whole_box(kElements / kMembers),
                                           kMembers, const_cast<const void* const*>(members.data()),
                                           kMembers, members.data(), nullptr));
                 }});
}

std::vector<Measured> measurements() {
  std::vector<void*> buffers;
  for (int i = 0; i < 4; ++i) buffers.push_back(allocate(4 * kElements));
  void* const bias = allocate(4 * kColumns);
  std::vector<Measured> all;
  all.push_back({"copy", 2 * 4 * kElements, [=] {
                   check(cudaMemcpyAsync(buffers[1], buffers[0], 4 * kElements, cudaMemcpyDeviceToDevice));
                 }});
  for (const DType dtype : {f32, bf16}) {
    add_elementwise(all, dtype, buffers[0], bias, buffers[1], buffers[2]);
    add_reductions(all, dtype, buffers[0], buffers[2]);
    add_transpose(all, dtype, buffers[0], buffers[1]);
  }
  add_random(all, buffers[2]);
  add_updates(all, buffers);
  add_all_reduce(all, buffers[0]);
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  int devices = 0;
  const cudaError_t status = cudaGetDeviceCount(&devices);
  if (status != cudaSuccess || devices == 0) {
    fmt::print("skipped: no CUDA device: {}\n", cudaGetErrorString(status));
    return 0;
  }
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 15;
  std::vector<Measured> all = measurements();
  for (int round = -1; round < rounds; ++round)
    for (Measured& m : all) {
      const double seconds = timed(m.run);
      if (round >= 0) m.seconds.push_back(seconds);
    }
  const auto rate = [](const Measured& m) {
    return static_cast<double>(m.bytes) / bench::median(m.seconds);
  };
  for (const Measured& m : all)
    fmt::print("{{\"name\": \"{}\", \"gigabytes_per_second\": {:.1f}, \"ratio_to_copy\": {:.3f}}}\n",
               m.name, rate(m) * 1e-9, rate(m) / rate(all[0]));
}
