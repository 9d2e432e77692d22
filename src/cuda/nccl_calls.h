#pragma once
/// Shared by the collectives and messages that use NCCL.
#include <fmt/core.h>
#include <nccl.h>

#include <chrono>
#include <cstring>
#include <string>
#include <thread>

#include "alpa/base/dtype.h"
#include "alpa/base/error.h"
#include "nccl_group.h"
#include "status.h"

namespace alpa::cuda {

inline ncclDataType_t nccl_type(DType dtype) {
  switch (dtype) {
    case DType::f32: return ncclFloat32;
    case DType::bf16: return ncclBfloat16;
    case DType::f16: return ncclFloat16;
    case DType::f64: return ncclFloat64;
    case DType::i32: return ncclInt32;
    case DType::u8: return ncclUint8;
  }
  bug("unknown element type");
}

/// The device that was current, again at the end.
class SameDevice {
 public:
  SameDevice() { check(cudaGetDevice(&before_), "cudaGetDevice"); }
  ~SameDevice() { cudaSetDevice(before_); }

 private:
  int before_ = 0;
};

/// As `check`, for a call that a non-blocking communicator may still be executing.
inline void check_begun(ncclResult_t status, const char* call) {
  if (status != ncclInProgress) check(status, call);
}

/// Calls of NCCL that belong together; the end is reached also if one throws.
template <class Calls>
void grouped(const Calls& calls) {
  check(ncclGroupStart(), "ncclGroupStart");
  try {
    calls();
  } catch (...) {
    ncclGroupEnd();
    throw;
  }
  check_begun(ncclGroupEnd(), "ncclGroupEnd");
}

/// Begins to join the communicator `id` of `size` ranks as number `rank`, on card `ordinal`; ranks
/// of other processes are not waited for here.
inline void join_communicator(ncclComm_t& comm, int size, const std::string& id, int rank,
                              int ordinal, bool blocking) {
  ncclUniqueId unique;
  invariant(id.size() == sizeof unique.internal, "NCCL group: an id of {} bytes", id.size());
  std::memcpy(unique.internal, id.data(), id.size());
  check(cudaSetDevice(ordinal), "cudaSetDevice");
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = blocking ? 1 : 0;
  check_begun(
      ncclCommInitRankConfig(&comm, size, unique, rank, &config),
      fmt::format("ncclCommInitRankConfig(rank {} of {}, card {})", rank, size, ordinal).c_str());
}

/// Throws Error if a peer was lost or something that was queued failed.
inline void check_communicator(ncclComm_t comm, int rank, int size) {
  require(comm != nullptr, "the NCCL group of rank {} was aborted", rank);
  ncclResult_t error = ncclSuccess;
  check(ncclCommGetAsyncError(comm, &error), "ncclCommGetAsyncError");
  if (error != ncclSuccess && error != ncclInProgress)
    fail("rank {} of {} in its NCCL group: {} ({})", rank, size, ncclGetErrorString(error),
         ncclGetLastError(comm));
}

/// Waits until NCCL has begun what was asked of a communicator that does not block: joining, or a
/// first message, for which it connects to the peer. Throws Error if a peer was lost, or does not
/// answer for so long that it cannot be reached.
inline void wait_until_begun(ncclComm_t comm, int rank, int size, const StillWell& still_well) {
  constexpr std::chrono::seconds kLimit{120};
  const auto begin = std::chrono::steady_clock::now();
  for (;;) {
    ncclResult_t state = ncclSuccess;
    check(ncclCommGetAsyncError(comm, &state), "ncclCommGetAsyncError");
    if (state != ncclInProgress) return check_communicator(comm, rank, size);
    still_well();
    require(std::chrono::steady_clock::now() - begin < kLimit,
            "rank {} of {} in its NCCL group: its peers do not answer for {} s; NCCL_DEBUG=INFO "
            "says which, NCCL_SOCKET_IFNAME names the network to use",
            rank, size, kLimit.count());
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

/// Ends a communicator, which is null afterwards: one that does not block once its work is done, or
/// by force if that takes too long.
inline void leave_communicator(ncclComm_t& comm, bool blocking) noexcept {
  constexpr int kLooks = 100'000;  // 10 s
  if (comm == nullptr) return;
  ncclResult_t state = blocking ? ncclSuccess : ncclCommFinalize(comm);
  for (int look = 0; state == ncclInProgress && look < kLooks; ++look) {
    if (ncclCommGetAsyncError(comm, &state) != ncclSuccess) break;
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  state == ncclSuccess ? ncclCommDestroy(comm) : ncclCommAbort(comm);
  comm = nullptr;
}

}  // namespace alpa::cuda
