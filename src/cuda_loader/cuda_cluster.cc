// src/cuda_loader/cuda_cluster.cc — this machine's CUDA devices as a cluster
#include "cuda_cluster.h"

#include <algorithm>

#include "alpa/base/error.h"
#include "alpa/base/text.h"

namespace alpa {
namespace {

// Floating-point operations of a multiprocessor per clock: vector units for f32,
// tensor cores for the others.
struct UnitRates {
  double f32, f64, half;
};
constexpr UnitRates kSm80{128, 128, 2048}, kSm90{256, 256, 4096};

// Shares of the nominal rates that large products and copies reach.
constexpr double kMatmulShare = 0.75, kMemoryShare = 0.85;
constexpr double kGraphNodeSeconds = 2e-6;  // a node of a replayed graph
constexpr double kSameCardAlpha = 10e-6;    // events and kernels among logical devices
constexpr double kPeerAlpha = 10e-6, kPeerBytesPerSecond = 150e9;  // NVLink
// PCIe, through the host's memory
constexpr double kHostAlpha = 20e-6, kHostBytesPerSecond = 12e9;

// Memory of an NCCL communicator: buffers of 4 MiB both ways in each of 16 channels. And the most
// communicators that a card is a member of (groups of two mesh axes and both, lanes).
constexpr std::int64_t kCommunicatorBytes = std::int64_t{2 * 16 * 4} << 20, kCommunicators = 8;

// Memory of kernels of cuBLASLt, cuDNN and NVRTC, which are loaded after free memory was asked
// for: an estimate. `alpa doctor` and a trace say what a card needs.
constexpr std::int64_t kKernelBytes = std::int64_t{512} << 20;

/// Free memory that arenas leave to others: kernels, what CUDA and its libraries allocate
/// late, fragments, a display; between several cards NCCL's buffers.
std::int64_t reserve_bytes(std::int64_t free_bytes, bool several_cards) {
  const std::int64_t reserve = std::max(std::int64_t{1} << 30, free_bytes / 50),
                     nccl = several_cards ? kCommunicators * kCommunicatorBytes : 0;
  return std::min(reserve + kKernelBytes + nccl, free_bytes / 2);
}

}  // namespace

Cluster cuda_cluster(int n, int cards, const CudaDevice& card, bool peers) {
  const bool shared = n > cards;
  const double share = shared ? 1.0 / n : 1.0;
  const UnitRates& units = card.major >= 9 ? kSm90 : kSm80;
  const double clocks =
      share * kMatmulShare * card.multiprocessors * static_cast<double>(card.clock_hertz);
  Cluster cluster;
  cluster.backend = "cuda";
  cluster.devices_per_host = n;
  cluster.device.memory_bytes =
      (card.free_bytes - reserve_bytes(card.free_bytes, n > 1 && !shared)) / (shared ? n : 1);
  cluster.device.flops_per_second = {{f32, clocks * units.f32},
                                     {f64, clocks * units.f64},
                                     {bf16, clocks * units.half},
                                     {f16, clocks * units.half}};
  cluster.device.memory_bytes_per_second =
      share * kMemoryShare * static_cast<double>(card.memory_bytes_per_second);
  cluster.device.launch_seconds = kGraphNodeSeconds;
  if (shared)  // every byte is read and written in the card's memory
    cluster.within_host = {kSameCardAlpha, 2 / cluster.device.memory_bytes_per_second};
  else
    cluster.within_host = peers ? Link{kPeerAlpha, 1 / kPeerBytesPerSecond}
                                : Link{kHostAlpha, 1 / kHostBytesPerSecond};
  cluster.between_hosts = cluster.within_host;
  return cluster;
}

CudaDevices cuda_devices_of(const CudaSupport& cuda) {
  if (!cuda.usable()) return {0, cuda.reason};
  CudaDevice card{};
  CudaVersions versions{};
  CudaMessage why{};
  require(
      cuda.functions->device(0, &card, &why) == 0 && cuda.functions->versions(&versions, &why) == 0,
      "cuda_devices: {}", why.text);
  return {cuda.devices, fmt::format("{} x {}, CUDA {}, driver for {}; {}", cuda.devices, card.name,
                                    versions.runtime, versions.driver, cuda.path)};
}

}  // namespace alpa
