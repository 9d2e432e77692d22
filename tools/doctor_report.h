#pragma once
/// The report of `alpa doctor`: collected in doctor_examine.cc, doctor_launch.cc and
/// doctor_libraries.cc, printed in doctor_report.cc.
#include <cstdint>
#include <optional>
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
  std::string dnn;                     ///< operations that cuDNN ran; "" if it was not tried
  std::int64_t free_behind_bytes = 0;  ///< once the kernels of all that was measured are loaded
  std::string error;                   ///< failure during the examination; "" if none
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

/// A host of a launch.
struct LaunchHost {
  std::string name;
  std::vector<int> ranks;
  int cores = 0;             ///< that its processes may use, all together
  int offered_cores = 0;     ///< that they could use, if the launcher bound none
  int fewest = 0, most = 0;  ///< cores of one process
  int gpus = 0;              ///< that one process sees
};

/// How this program was started, and whether several processes can be.
struct Launch {
  std::string launcher = {};  ///< "mpirun", "srun"; "" without one
  int size = 1;               ///< processes; 0: unknown, or they know nothing of each other
  std::string library = {};   ///< path of libalpa_mpi.so; "" if none loads
  std::string version = {};   ///< of the MPI that it was built with: "Open MPI v4.1.4"
  std::string reason = {};    ///< why no libalpa_mpi.so loads; "" if it does
  std::string mpirun = {};  ///< without a launcher: what mpirun says of itself; "" if there is none
  std::vector<LaunchHost> hosts = {};   ///< none if the processes did not find together
  std::vector<std::string> wrong = {};  ///< what is wrong with the launch, and how it is mended
};

/// A library that alpa uses.
struct Library {
  std::string name;
  std::string version;  ///< "" if it is not found
  std::string tested;   ///< the version that alpa was tested with; "" if with none
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
  std::optional<Launch> launch;
  std::vector<Library> libraries;
  std::vector<Missing> missing;
};

/// Looks at this machine and measures each ceiling for `seconds`; 0 measures nothing.
Report examine(double seconds);

/// Collective: finds the other processes of the launch, if there are any.
Launch examine_launch();

/// Those of CUDA, if its backend is there, of MPI and of the core.
std::vector<Library> libraries(const Cuda& cuda, const Launch& launch);

/// "ok", "older than tested", "newer than tested", "not tested" or "not found"; by the numbers that
/// both versions have.
std::string verdict(const Library& library);

/// What is wrong with bindings and numbers of processes; a line each.
std::vector<std::string> wrong_bindings(const Launch& launch);

/// Of several processes that do not find together, too: whether this one speaks for them.
bool speaks();

/// The reason why CUDA does not run here; empty if it does.
std::vector<Missing> missing_for_cuda(const Cuda& cuda);

std::string report_text(const Report& report);
std::string report_json(const Report& report);

}  // namespace doctor
