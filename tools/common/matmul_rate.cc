// tools/common/matmul_rate.cc — how fast this machine multiplies matrices
#include "tools/common/matmul_rate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "alpa/tensor/array.h"
#include "kernels/cpu/kernels.h"
#include "src/base/thread_team.h"
#include "src/base/timing.h"
#include "src/cuda_loader/cuda_library.h"
#include "src/tensor/kernel.h"

namespace cli {

using namespace alpa;

namespace {

/// Of all cards.
double card_matmul_rate(DType dtype, double seconds) {
  if (dtype != f32 && dtype != bf16) return 0;
  const CudaSupport& cuda = cuda_support();
  double total = 0;
  for (std::int32_t card = 0; card < cuda.devices; ++card) {
    double rate = 0;
    CudaMessage why{};
    const CudaMatmul kind = dtype == f32 ? CudaMatmul::f32 : CudaMatmul::bf16;
    require(cuda.functions->matmul_rate(card, kind, seconds, &rate, &why) == 0, "{}", why.text);
    total += rate;
  }
  return total;
}

}  // namespace

double cpu_matmul_rate(DType dtype, double seconds) {
  const std::int64_t n = seconds < 0.1 ? 256 : 512;
  std::vector<double> numbers(static_cast<std::size_t>(n * n));
  for (std::size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = static_cast<double>(i % 17) * 0.125 - 1;
  Array a = Array(numbers, {n, n}).cast(dtype), b = a, c(TensorType{dtype, {n, n}});
  const auto tensor = [&](Array& array) {
    return KernelTensor{array.mutable_data(), array.type(), {0, 0}, {n, n}};
  };
  const Attributes attributes = {{"equation", "mk,kn->mn"}};
  ThreadTeam team(usable_cores());
  KernelCall call;
  call.inputs = {tensor(a), tensor(b)};
  call.outputs = {tensor(c)};
  call.attributes = &attributes;
  call.team = &team;
  call.threads = team.size();
  call.prepared = cpu::einsum.prepare(call);
  std::vector<std::byte> workspace(static_cast<std::size_t>(cpu::einsum.workspace_bytes(call)) +
                                   64);
  void* aligned = workspace.data();
  std::size_t space = workspace.size();
  call.workspace = static_cast<std::byte*>(std::align(64, space - 64, aligned, space));
  cpu::einsum.run(call);
  double fastest = std::numeric_limits<double>::infinity();
  for (const Stopwatch all; all.seconds() < seconds || std::isinf(fastest);) {
    const Stopwatch one;
    cpu::einsum.run(call);
    fastest = std::min(fastest, one.seconds());
  }
  return 2.0 * static_cast<double>(n * n * n) / fastest;
}

double matmul_rate(const Cluster& cluster, DType dtype, double seconds) {
  return cluster.backend == "cuda" ? card_matmul_rate(dtype, seconds)
                                   : cpu_matmul_rate(dtype, seconds);
}

}  // namespace cli
