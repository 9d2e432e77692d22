#pragma once
/// The report of `alpa doctor`: collected in doctor_examine.cc, printed in doctor_report.cc.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "src/cuda_loader/cuda_library.h"

namespace doctor {

/// Measured rates by element type, in floating-point operations per second.
using Rates = std::vector<std::pair<std::string, double>>;

struct Processor {
  std::string model;
  int usable_cores = 0, cores = 0;
  std::vector<std::string> instruction_sets;
  std::string kernels;  ///< the instruction set alpa's kernels use
  std::int64_t memory_bytes = 0;
  /// what its control groups let the process use; `memory_bytes` if they set no limit
  std::int64_t limit_bytes = 0;
  std::int64_t available_bytes = 0;
  Rates matmul;  ///< empty: not measured
  double copy_bytes_per_second = 0;
};

struct Gpu {
  alpa::CudaDevice device{};
  Rates matmul;
  double copy_bytes_per_second = 0;
  std::string dnn;    ///< operations that cuDNN ran; "" if it was not tried
  std::string error;  ///< failure during the examination; "" if none
};

struct GpuLink {
  int from = 0, to = 0;
  alpa::CudaLink link{};
};

struct Cuda {
  std::string reason;             ///< why there is no device; "" if there is one
  std::string library;            ///< path of libalpa_cuda.so; "" if there is none
  int cards_seen = 0;             ///< NVIDIA's display controllers on the PCI bus
  alpa::CudaVersions versions{};  ///< all "" without the library
  std::vector<Gpu> gpus;
  std::vector<GpuLink> links;
};

/// Something that is not there, and how it gets there.
struct Missing {
  std::string what, remedy;
  bool operator==(const Missing&) const = default;
};

struct Report {
  std::string version;
  Processor processor;
  Cuda cuda;
  std::vector<Missing> missing;
};

/// Looks at this machine and measures each ceiling for `seconds`; 0 measures nothing.
Report examine(double seconds);

/// The reason why CUDA does not run here; empty if it does.
std::vector<Missing> missing_for_cuda(const Cuda& cuda);

std::string report_text(const Report& report);
std::string report_json(const Report& report);

}  // namespace doctor
