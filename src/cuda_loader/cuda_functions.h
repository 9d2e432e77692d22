#pragma once
/// The interface of libalpa_cuda.so: plain structs and function pointers, except for
/// devices, whose types are the core's: both must come from one build. Every function
/// returns 0 (or an object), or something else (or null) and a message of one line; none
/// throws. They may be called from any thread.
#include <cstdint>

namespace alpa::runtime {
class Devices;
struct DevicesRequest;
}  // namespace alpa::runtime

namespace alpa {

/// Changes with every change of the structs below; the loader refuses a library of another one.
inline constexpr std::int32_t kCudaInterface = 5;

struct CudaMessage {
  char text[2048];
};

/// Versions as "13.0"; `driver` is the newest CUDA the driver supports, "" if there is no driver;
/// `cudnn` is "" if cuDNN is not installed.
struct CudaVersions {
  char runtime[32], driver[32], cublas[32], cublas_lt[32], cudnn[32], nccl[32], nvrtc[32];
};

struct CudaDevice {
  char name[256];
  std::int32_t major, minor;  ///< compute capability
  std::int32_t multiprocessors;
  std::int64_t memory_bytes, free_bytes, l2_bytes;
  std::int64_t clock_hertz;              ///< highest clock of the multiprocessors
  std::int64_t memory_bytes_per_second;  ///< by the memory's clock and the width of its bus
};

/// How one device reaches the memory of another.
struct CudaLink {
  std::int32_t peer;              ///< 1: directly, without passing through the host's memory
  std::int32_t atomics;           ///< 1: atomic operations too
  std::int32_t performance_rank;  ///< 0 is the fastest link of the machine
};

/// The arithmetic `matmul_rate` measures; each accumulates in f32.
enum class CudaMatmul : std::int32_t { f32, tf32, bf16 };

struct CudaFunctions {
  std::int32_t interface_version;  ///< `kCudaInterface`
  /// Works without a driver.
  int (*versions)(CudaVersions* versions, CudaMessage* why);
  /// The number of usable devices. When there is none, `why` says what is
  /// missing and the result is not 0.
  int (*device_count)(std::int32_t* count, CudaMessage* why);
  int (*device)(std::int32_t index, CudaDevice* device, CudaMessage* why);
  /// 32 hexadecimal digits, the same in all processes; takes no memory of the device.
  int (*uuid)(std::int32_t index, CudaMessage* uuid, CudaMessage* why);
  int (*link)(std::int32_t from, std::int32_t to, CudaLink* link, CudaMessage* why);
  /// Floating-point operations per second of a large cuBLASLt product of random numbers: the median
  /// over `seconds`, at least three.
  int (*matmul_rate)(std::int32_t device, CudaMatmul kind, double seconds, double* flops_per_second,
                     CudaMessage* why);
  /// Rate of copying within the device's memory, each byte counted twice: read and written.
  int (*copy_rate)(std::int32_t device, double seconds, double* bytes_per_second, CudaMessage* why);
  /// Tries a convolution and an attention through cuDNN; `report` says in one line what runs.
  int (*try_dnn)(std::int32_t device, CudaMessage* report, CudaMessage* why);
  /// Loads programs onto CUDA devices (src/runtime/devices.h). The caller owns the result.
  runtime::Devices* (*make_devices)(runtime::DevicesRequest* request, CudaMessage* why);
};

/// The library's one entry: `extern "C" const CudaFunctions* alpa_cuda_functions()`.
inline constexpr const char* kCudaEntry = "alpa_cuda_functions";
using CudaEntry = const CudaFunctions* (*)();

}  // namespace alpa
