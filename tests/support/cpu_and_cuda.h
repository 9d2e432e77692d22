#pragma once
/// One step on CPU devices and on CUDA devices.
#include <alpa/alpa.h>

namespace alpa::testing {

struct CpuAndCuda {
  Executable cpu, cuda;
};

/// `step` under `method` on so many CPU devices, and on as many CUDA devices.
inline CpuAndCuda on_cpu_and_cuda(const TrainingStep& step, const Method& method, int devices) {
  return {parallelize(step, method, Cluster::local(devices)),
          parallelize(step, method, Cluster::local(devices, "cuda"))};
}

}  // namespace alpa::testing
