#pragma once
/// Shared by the collectives and messages that use NCCL.
#include <fmt/core.h>
#include <nccl.h>

#include <cstring>
#include <string>

#include "alpa/base/dtype.h"
#include "alpa/base/error.h"
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
  check(ncclGroupEnd(), "ncclGroupEnd");
}

/// Joins the communicator `id` of `size` ranks as number `rank`, on the current card `ordinal`.
inline void join_communicator(ncclComm_t& comm, int size, const std::string& id, int rank,
                              int ordinal) {
  ncclUniqueId unique;
  invariant(id.size() == sizeof unique.internal, "NCCL group: an id of {} bytes", id.size());
  std::memcpy(unique.internal, id.data(), id.size());
  check(cudaSetDevice(ordinal), "cudaSetDevice");
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 1;
  check(ncclCommInitRankConfig(&comm, size, unique, rank, &config),
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

}  // namespace alpa::cuda
