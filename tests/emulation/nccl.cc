// NCCL's interface: communicators, groups of calls
#include "nccl.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <tuple>
#include <utility>

#include "clique.h"
#include "stream.h"

namespace alpa::emulation {
namespace {

using CommPtr = std::shared_ptr<ncclComm>;

/// A call that waits for the end of its group.
struct Grouped {
  CommPtr comm;
  Call call;
  cudaStream_t stream;
};

/// The group that a thread has open.
struct Group {
  int depth = 0;
  std::vector<Grouped> calls;
  std::vector<CommPtr> joining;
  ncclResult_t error = ncclSuccess;
};
thread_local Group group;

/// Communicators by handle; what is queued keeps them alive.
std::map<ncclComm_t, CommPtr>& comms() {
  static auto* const comms = new std::map<ncclComm_t, CommPtr>;
  return *comms;
}
std::map<std::string, std::weak_ptr<Clique>>& cliques() {
  static auto* const cliques = new std::map<std::string, std::weak_ptr<Clique>>;
  return *cliques;
}

CommPtr find(ncclComm_t comm) {
  const auto found = comms().find(comm);
  return found == comms().end() ? nullptr : found->second;
}

/// One call of the interface: `body(lock)` gives its status.
template <class Body>
ncclResult_t nccl(Body&& body) {
  const Unseen unseen;
  Lock lock(world().mutex);
  return body(lock);
}

ncclResult_t refuse(ncclResult_t why, const std::string& text) {
  std::fprintf(stderr, "emulated NCCL: %s\n", text.c_str());
  return why;
}

// ---- communicators

ncclResult_t check_membership(const Clique& clique, int ranks, int rank, int device) {
  if (clique.size != ranks)
    return refuse(ncclInvalidUsage,
                  fmt::format("rank {} expects {} ranks, others {}", rank, ranks, clique.size));
  for (const ncclComm_t other : clique.comms) {
    if (other == nullptr) continue;
    if (other->rank == rank)
      return refuse(ncclInvalidUsage, fmt::format("rank {} joins twice", rank));
    if (other->device == device)
      return refuse(ncclInvalidUsage, fmt::format("ranks {} and {} are both on device {}",
                                                  other->rank, rank, device));
  }
  return ncclSuccess;
}

CommPtr make_comm(int device) {
  const auto comm = std::make_shared<ncclComm>();
  comm->device = device;
  comms()[comm.get()] = comm;
  Device& own = world().devices[static_cast<std::size_t>(device)];
  own.most_communicators = std::max(own.most_communicators, ++own.communicators);
  return comm;
}

/// Makes a member known to the others.
ncclResult_t join(ncclComm_t* handle, int ranks, const ncclUniqueId& id, int rank, int device) {
  *handle = nullptr;
  if (ranks < 1 || rank < 0 || rank >= ranks)
    return refuse(ncclInvalidArgument, "rank out of range");
  std::weak_ptr<Clique>& known = cliques()[std::string(id.internal, sizeof id.internal)];
  std::shared_ptr<Clique> clique = known.lock();
  if (!clique) known = clique = std::make_shared<Clique>(ranks);
  if (const ncclResult_t error = check_membership(*clique, ranks, rank, device);
      error != ncclSuccess) {
    clique->fail(error, "a communicator whose members disagree");
    return error;
  }
  const CommPtr comm = make_comm(device);
  comm->clique = clique, comm->rank = rank;
  clique->comms[static_cast<std::size_t>(rank)] = *handle = comm.get();
  ++clique->joined;
  notify();
  return ncclSuccess;
}

/// Whether all members have joined, and have come to the splits that this one has come to.
bool is_complete(const ncclComm& comm) {
  if (!comm.clique || comm.clique->joined < comm.clique->size) return false;
  return comm.splits == 0 || comm.clique->splits[comm.splits - 1].members.size() ==
                                 static_cast<std::size_t>(comm.clique->size);
}

ncclResult_t error_of(const ncclComm& comm) {
  return comm.clique && comm.clique->error != ncclSuccess ? comm.clique->error : comm.error;
}

/// Waits for the other members.
ncclResult_t wait_for_members(Lock& lock, const ncclComm& comm) {
  wait_until(lock,
             [&] { return is_complete(comm) || comm.aborted || error_of(comm) != ncclSuccess; });
  return error_of(comm);
}

/// What waits for other members: to the end of the group, if one is open.
ncclResult_t await(Lock& lock, const CommPtr& comm) {
  if (group.depth > 0) {
    group.joining.push_back(comm);
    return ncclSuccess;
  }
  return comm->blocking ? wait_for_members(lock, *comm) : ncclInProgress;
}

/// Members of one color become a communicator, in the order of their keys.
void form(std::vector<Split::Member> members) {
  std::stable_sort(members.begin(), members.end(), [](const auto& a, const auto& b) {
    return std::tie(a.color, a.key, a.rank) < std::tie(b.color, b.key, b.rank);
  });
  for (std::size_t begin = 0, end = 0; begin < members.size(); begin = end) {
    while (end < members.size() && members[end].color == members[begin].color) ++end;
    if (members[begin].color == NCCL_SPLIT_NOCOLOR) continue;
    const auto clique = std::make_shared<Clique>(static_cast<int>(end - begin));
    for (std::size_t m = begin; m < end; ++m) {
      ncclComm& made = *members[m].made;
      made.clique = clique, made.rank = clique->joined++;
      *members[m].handle = &made;
      clique->comms[m - begin] = &made;
    }
  }
}

ncclResult_t split(Lock& lock, const CommPtr& parent, int color, int key, ncclComm_t* made) {
  *made = nullptr;
  if (!parent) return refuse(ncclInvalidArgument, "no such communicator");
  if (const ncclResult_t error = error_of(*parent); error != ncclSuccess) return error;
  if (!is_complete(*parent)) return refuse(ncclInvalidUsage, "the parent is not complete yet");
  CommPtr child;
  if (color != NCCL_SPLIT_NOCOLOR) {
    child = make_comm(parent->device);
    child->blocking = parent->blocking;
  }
  std::vector<Split>& splits = parent->clique->splits;
  if (splits.size() == parent->splits) splits.emplace_back();
  Split& own = splits[parent->splits++];
  own.members.push_back({color, key, parent->rank, child, made});
  if (own.members.size() == static_cast<std::size_t>(parent->clique->size)) form(own.members);
  notify();
  return await(lock, parent);
}

ncclResult_t init_rank(ncclComm_t* handle, int ranks, const ncclUniqueId& id, int rank,
                       bool blocking) {
  return nccl([&](Lock& lock) {
    if (is_forbidden()) return ncclUnhandledCudaError;
    if (const ncclResult_t error = join(handle, ranks, id, rank, current_device());
        error != ncclSuccess)
      return error;
    const CommPtr comm = find(*handle);
    comm->blocking = blocking;
    return await(lock, comm);
  });
}

/// The split that a member waits in ends without the others, if there is one.
void end_split(const ncclComm& comm) {
  if (is_complete(comm) || comm.splits == 0) return;
  for (Split::Member& member : comm.clique->splits[comm.splits - 1].members)
    if (member.rank == comm.rank && member.made) *member.handle = member.made.get();
}

/// The member leaves; the others learn of it if it had work to do with them.
void leave(const CommPtr& comm, bool aborted) {
  comm->aborted = comm->aborted || aborted;
  end_split(*comm);
  comms().erase(comm.get());
  --world().devices[static_cast<std::size_t>(comm->device)].communicators;
  if (comm->clique) {
    std::vector<ncclComm_t>& members = comm->clique->comms;
    members[static_cast<std::size_t>(comm->rank)] = nullptr;
    if (aborted)
      for (const ncclComm_t other : members)
        if (other != nullptr && other->error == ncclSuccess) other->error = ncclRemoteError;
  }
  go_on_with_works();
}

// ---- calls

ncclResult_t check_call(const CommPtr& comm, const Call& call, cudaStream_t stream) {
  if (!comm) return refuse(ncclInvalidArgument, "no such communicator");
  if (const ncclResult_t error = error_of(*comm); error != ncclSuccess) return error;
  if (!is_complete(*comm)) return refuse(ncclInvalidUsage, "the communicator is not complete yet");
  if (call.type < 0 || call.type > ncclBfloat16 || call.op < 0 || call.op > ncclAvg ||
      call.peer < 0 || call.peer >= comm->clique->size)
    return refuse(ncclInvalidArgument, "type, operation or rank out of range");
  if (stream->device != comm->device)
    return refuse(ncclInvalidUsage, fmt::format("rank {} is on device {}, its stream on device {}",
                                                comm->rank, comm->device, stream->device));
  return ncclSuccess;
}

/// A thread that queues for several members must do so in groups: a call alone
/// may wait for the others'.
ncclResult_t check_thread(ncclComm& comm) {
  for (const ncclComm_t other : comm.clique->comms)
    if (other != nullptr && other != &comm && other->thread == std::this_thread::get_id())
      return refuse(ncclInvalidUsage, "one thread queues for several ranks outside of a group");
  return ncclSuccess;
}

/// Queues work behind all earlier work of the communicator, on whichever stream that was.
ncclResult_t queue(ncclComm& comm, Work work, cudaStream_t stream) {
  std::vector<int>& tail = stream->tail;
  const bool same_capture = stream->capture && comm.capture.lock() == stream->capture;
  if (same_capture && std::find(tail.begin(), tail.end(), comm.node) == tail.end())
    tail.push_back(comm.node);
  TicketPtr* const ticket = stream->capture ? nullptr : &comm.last;
  if (enqueue(stream, std::move(work), NodeKind::kernel, {comm.last}, ticket) != cudaSuccess)
    return ncclUnhandledCudaError;
  comm.thread = std::this_thread::get_id();
  comm.capture = stream->capture;
  comm.node = stream->capture ? stream->tail.back() : -1;
  return ncclSuccess;
}

bool is_transfer(const Call& call) {
  return call.kind == Exchange::send || call.kind == Exchange::recv;
}

/// Queues what a group gathered: all sends and receives of a communicator as one piece of work.
ncclResult_t queue_group(std::vector<Grouped> calls) {
  while (!calls.empty()) {
    const Grouped first = calls.front();
    std::vector<Call> transfers;
    const auto same = [&](const Grouped& other) {
      return other.comm == first.comm && other.stream == first.stream && is_transfer(other.call);
    };
    if (is_transfer(first.call)) {
      for (const Grouped& other : calls)
        if (same(other)) transfers.push_back(other.call);
      std::erase_if(calls, same);
    } else {
      calls.erase(calls.begin());
    }
    Work work = transfers.empty() ? collective_work(first.comm, first.call)
                                  : transfer_work(first.comm, std::move(transfers));
    if (const ncclResult_t error = queue(*first.comm, std::move(work), first.stream);
        error != ncclSuccess)
      return error;
  }
  return ncclSuccess;
}

ncclResult_t call_nccl(const Call& call, ncclComm_t handle, cudaStream_t stream_handle) {
  return nccl([&](Lock&) {
    const CommPtr comm = find(handle);
    const cudaStream_t stream = resolve(stream_handle);
    ncclResult_t error = check_call(comm, call, stream);
    if (error == ncclSuccess && group.depth == 0) error = check_thread(*comm);
    if (error != ncclSuccess) return group.error = error;
    if (group.depth == 0) return queue_group({{comm, call, stream}});
    group.calls.push_back({comm, call, stream});
    return ncclSuccess;
  });
}

}  // namespace
}  // namespace alpa::emulation

using namespace alpa::emulation;

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess: return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
    case ncclSystemError: return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
    case ncclInternalError: return "internal error";
    case ncclInvalidArgument: return "invalid argument (run with NCCL_DEBUG=WARN for details)";
    case ncclInvalidUsage: return "invalid usage (run with NCCL_DEBUG=WARN for details)";
    case ncclRemoteError: return "remote process exited or there was a network error";
    case ncclInProgress: return "NCCL operation in progress";
    default: return "unknown result code";
  }
}

const char* ncclGetLastError(ncclComm_t handle) {
  const Unseen unseen;
  const Lock lock(world().mutex);
  const CommPtr comm = find(handle);
  return comm && comm->clique ? comm->clique->message.c_str() : "";
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  static std::uint64_t count = 0;
  return nccl([&](Lock&) {
    *id = {};
    const std::string text = fmt::format("alpa emulated NCCL {}", ++count);
    std::memcpy(id->internal, text.c_str(), text.size());
    return ncclSuccess;
  });
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
  return init_rank(comm, ranks, id, rank, true);
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  return init_rank(comm, ranks, id, rank, config == nullptr || config->blocking != 0);
}

ncclResult_t ncclCommSplit(ncclComm_t parent, int color, int key, ncclComm_t* made, ncclConfig_t*) {
  return nccl([&](Lock& lock) {
    if (is_forbidden()) return ncclUnhandledCudaError;
    return split(lock, find(parent), color, key, made);
  });
}

ncclResult_t ncclCommInitAll(ncclComm_t* handles, int devices, const int* list) {
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  return nccl([&](Lock&) {
    if (is_forbidden()) return ncclUnhandledCudaError;
    for (int rank = 0; rank < devices; ++rank) {
      const int device = list == nullptr ? rank : list[rank];
      if (device < 0 || device >= world().machine.devices) return ncclInvalidArgument;
      const ncclResult_t error = join(&handles[rank], devices, id, rank, device);
      if (error != ncclSuccess) return error;
    }
    return ncclSuccess;
  });
}

ncclResult_t ncclCommFinalize(ncclComm_t handle) {
  return nccl([&](Lock& lock) {
    const CommPtr comm = find(handle);
    if (!comm || !is_complete(*comm)) return ncclInvalidArgument;
    wait_for(lock, comm->last);
    return error_of(*comm);
  });
}

ncclResult_t ncclCommDestroy(ncclComm_t handle) {
  return nccl([&](Lock& lock) {
    const CommPtr comm = find(handle);
    if (!comm) return ncclInvalidArgument;
    wait_for(lock, comm->last);
    leave(comm, false);
    return ncclSuccess;
  });
}

ncclResult_t ncclCommAbort(ncclComm_t handle) {
  return nccl([&](Lock&) {
    const CommPtr comm = find(handle);
    if (!comm) return ncclInvalidArgument;
    leave(comm, true);
    return ncclSuccess;
  });
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t handle, ncclResult_t* error) {
  return nccl([&](Lock&) {
    const CommPtr comm = find(handle);
    if (!comm) return ncclInvalidArgument;
    *error = error_of(*comm);
    if (*error == ncclSuccess && !is_complete(*comm)) *error = ncclInProgress;
    return ncclSuccess;
  });
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
  *count = comm->clique->size;
  return ncclSuccess;
}
ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int* device) {
  *device = comm->device;
  return ncclSuccess;
}
ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  *rank = comm->rank;
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  if (group.depth++ == 0) group = {1, {}, {}, ncclSuccess};
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  return nccl([&](Lock& lock) {
    if (group.depth == 0) return refuse(ncclInvalidUsage, "ncclGroupEnd without ncclGroupStart");
    if (--group.depth > 0) return ncclSuccess;
    Group ended = std::exchange(group, {});
    for (const CommPtr& comm : ended.joining) {
      if (!comm->blocking && !is_complete(*comm)) return ncclInProgress;
      if (const ncclResult_t error = wait_for_members(lock, *comm); error != ncclSuccess)
        return error;
    }
    return ended.error != ncclSuccess ? ended.error : queue_group(std::move(ended.calls));
  });
}

ncclResult_t ncclAllReduce(const void* from, void* to, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return call_nccl({Exchange::all_reduce, count, type, op, 0, from, to}, comm, stream);
}
ncclResult_t ncclReduceScatter(const void* from, void* to, size_t to_count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return call_nccl({Exchange::reduce_scatter, to_count, type, op, 0, from, to}, comm, stream);
}
ncclResult_t ncclAllGather(const void* from, void* to, size_t from_count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return call_nccl({Exchange::all_gather, from_count, type, ncclSum, 0, from, to}, comm, stream);
}
ncclResult_t ncclBroadcast(const void* from, void* to, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  return call_nccl({Exchange::broadcast, count, type, ncclSum, root, from, to}, comm, stream);
}
ncclResult_t ncclReduce(const void* from, void* to, size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
  return call_nccl({Exchange::reduce, count, type, op, root, from, to}, comm, stream);
}
ncclResult_t ncclSend(const void* from, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return call_nccl({Exchange::send, count, type, ncclSum, peer, from, nullptr}, comm, stream);
}
ncclResult_t ncclRecv(void* to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return call_nccl({Exchange::recv, count, type, ncclSum, peer, nullptr, to}, comm, stream);
}
}
