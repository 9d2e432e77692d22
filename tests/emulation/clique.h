#pragma once
/// The members of an emulated NCCL communicator and what they exchange. The rules of world.h hold.
#include <string>

#include "graph.h"
#include "nccl.h"
#include "world.h"

namespace alpa::emulation {

enum class Exchange { all_reduce, reduce_scatter, all_gather, broadcast, reduce, send, recv };

/// What the members of a collective must agree in, and what one member gives.
struct Call {
  Exchange kind;
  std::size_t count;  ///< the parameter of the call
  ncclDataType_t type;
  ncclRedOp_t op = ncclSum;
  int peer = 0;  ///< the root; of send and recv the other side
  const void* from = nullptr;
  void* to = nullptr;
};

/// "all_reduce of 8 f32 (sum)".
std::string describe(const Call& call);
std::size_t bytes_of(ncclDataType_t type);
/// Bytes that `call` reads and writes as rank `rank` of `size`.
std::size_t from_bytes(const Call& call, int size, int rank);
std::size_t to_bytes(const Call& call, int size, int rank);

/// The data of a collective: calls[r] is rank r's. Combined along the tree over ranks, as by groups
/// of threads, f16 and bf16 in f32 and rounded once. Called in a Seen.
void exchange(const std::vector<Call>& calls);

/// A collective that some members have come to.
struct Meeting {
  std::vector<Call> calls;
  std::vector<bool> arrived, left;
  bool done = false;
  char begin = 0, end = 0;  ///< addresses that stand for its order
};

/// A send or recv that waits for its other side.
struct Post {
  Call call;
  bool done = false;
  char begin = 0, end = 0;
};

/// A call of ncclCommSplit, as far as members have come to it. `made`: null if a member stays out.
/// NCCL writes it to `handle` when all have come, or when the parent's member is aborted.
struct Split {
  struct Member {
    int color, key, rank;
    std::shared_ptr<ncclComm> made;
    ncclComm_t* handle;
  };
  std::vector<Member> members;
};

struct Clique {
  explicit Clique(int members) : size(members), comms(static_cast<std::size_t>(members), nullptr) {}

  const int size;
  std::vector<ncclComm_t> comms;  ///< null before they join and after they leave
  int joined = 0;
  std::vector<Split> splits;         ///< in the order of the calls
  ncclResult_t error = ncclSuccess;  ///< of all members
  std::string message;
  std::map<std::uint64_t, Meeting> meetings;  ///< by number of the operation
  std::map<std::pair<int, int>, std::deque<std::shared_ptr<Post>>> sends,
      recvs;  ///< by sender and receiver

  /// Ends everything with an error that every member learns of.
  void fail(ncclResult_t why, const std::string& text);
};

}  // namespace alpa::emulation

/// One member.
struct ncclComm {
  std::shared_ptr<alpa::emulation::Clique> clique;  ///< null until a split has all members
  int rank = 0, device = 0;
  bool blocking = true;
  bool aborted = false;
  ncclResult_t error = ncclSuccess;  ///< its own
  std::uint64_t operations = 0;      ///< collectives that it came to
  std::size_t splits = 0;            ///< calls of ncclCommSplit that it came to
  std::thread::id thread;            ///< that queued last
  alpa::emulation::TicketPtr last;   ///< of what was queued last
  /// in which it was queued last, and as which node
  std::weak_ptr<alpa::emulation::Capture> capture;
  int node = -1;
};

namespace alpa::emulation {

/// The work of one member: a collective, or the sends and receives of a group,
/// which go on at the same time.
Work collective_work(std::shared_ptr<ncclComm> comm, const Call& call);
Work transfer_work(std::shared_ptr<ncclComm> comm, std::vector<Call> calls);

}  // namespace alpa::emulation
