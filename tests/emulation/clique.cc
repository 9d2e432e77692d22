// How the members of a communicator meet
#include "clique.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "graph.h"

namespace alpa::emulation {
namespace {

bool agree(const Call& a, const Call& b) {
  return a.kind == b.kind && a.count == b.count && a.type == b.type && a.op == b.op &&
         a.peer == b.peer;
}

/// Whether the member has nothing to wait for any more. A lost peer is no such reason: NCCL's
/// kernels spin until their own communicator is aborted.
bool is_over(const ncclComm& comm) { return comm.aborted || comm.clique->error != ncclSuccess; }

bool is_present(const Clique& clique) {
  return std::find(clique.comms.begin(), clique.comms.end(), nullptr) == clique.comms.end();
}

bool is_addressable(const ncclComm& comm, const Call& call) {
  const std::size_t from = from_bytes(call, comm.clique->size, comm.rank);
  const std::size_t to = to_bytes(call, comm.clique->size, comm.rank);
  return (from == 0 || allocation_of(call.from, from) != nullptr) &&
         (to == 0 || allocation_of(call.to, to) != nullptr);
}

void check_memory(const ncclComm& comm, const Call& call) {
  if (is_addressable(comm, call)) return;
  std::fprintf(stderr, "emulated NCCL: rank %d: %s leaves its memory\n", comm.rank,
               describe(call).c_str());
  throw cudaErrorIllegalAddress;
}

/// The member comes to its next collective. Null if the others disagree.
Meeting* arrive(ncclComm& comm, const Call& call) {
  Clique& clique = *comm.clique;
  const std::uint64_t number = comm.operations++;
  Meeting& meeting = clique.meetings[number];
  const auto rank = static_cast<std::size_t>(comm.rank),
             size = static_cast<std::size_t>(clique.size);
  if (meeting.calls.empty())
    meeting.calls.resize(size), meeting.arrived.resize(size), meeting.left.resize(size);
  for (std::size_t r = 0; r < size; ++r) {
    if (!meeting.arrived[r] || agree(meeting.calls[r], call)) continue;
    clique.fail(ncclInvalidUsage,
                fmt::format("operation {} of the communicator: rank {} has {}, rank {} has {}",
                            number, r, describe(meeting.calls[r]), rank, describe(call)));
    return nullptr;
  }
  meeting.calls[rank] = call;
  meeting.arrived[rank] = true;
  release_unseen(&meeting.begin);
  return &meeting;
}

void leave(Clique& clique, const ncclComm& comm, std::uint64_t number) {
  Meeting& meeting = clique.meetings.at(number);
  acquire_unseen(&meeting.end);
  meeting.left[static_cast<std::size_t>(comm.rank)] = true;
  if (std::find(meeting.left.begin(), meeting.left.end(), false) == meeting.left.end())
    clique.meetings.erase(number);
}

/// One member's part of a collective: the last to come does the work of all.
bool meet(ncclComm& comm, const Call& call, std::shared_ptr<void>& state) {
  Lock lock(world().mutex);
  if (is_over(comm)) return true;
  Clique& clique = *comm.clique;
  if (!state) {
    check_memory(comm, call);
    state = std::make_shared<std::uint64_t>(comm.operations);
    Meeting* const meeting = arrive(comm, call);
    if (meeting == nullptr) return true;
    const auto& arrived = meeting->arrived;
    if (std::find(arrived.begin(), arrived.end(), false) == arrived.end() && is_present(clique)) {
      acquire_unseen(&meeting->begin);
      const std::vector<Call> calls = meeting->calls;
      lock.unlock();
      {
        const Seen seen;
        exchange(calls);
      }
      lock.lock();
      release_unseen(&meeting->end);
      meeting->done = true;
      go_on_with_works();
    }
  }
  const std::uint64_t number = *static_cast<std::uint64_t*>(state.get());
  const auto meeting = clique.meetings.find(number);
  if (meeting == clique.meetings.end() || !meeting->second.done) return false;
  leave(clique, comm, number);
  return true;
}

// ---- sends and receives

using PostPtr = std::shared_ptr<Post>;
using Posts = std::deque<PostPtr>;

/// Moves the data of a send and a receive that have found each other.
void transfer(Lock& lock, Clique& clique, Post& send, Post& recv, int from, int to) {
  if (send.call.count != recv.call.count || send.call.type != recv.call.type) {
    clique.fail(ncclInvalidUsage, fmt::format("rank {} has {} to rank {}, which has {}", from,
                                              describe(send.call), to, describe(recv.call)));
    return;
  }
  acquire_unseen(&send.begin), acquire_unseen(&recv.begin);
  lock.unlock();
  {
    const Seen seen;
    if (send.call.count > 0)
      std::memcpy(recv.call.to, send.call.from, send.call.count * bytes_of(send.call.type));
  }
  lock.lock();
  release_unseen(&send.end), release_unseen(&recv.end);
  send.done = recv.done = true;
  go_on_with_works();
}

PostPtr post(Lock& lock, ncclComm& comm, const Call& call) {
  Clique& clique = *comm.clique;
  check_memory(comm, call);
  const auto own = std::make_shared<Post>(Post{call});
  release_unseen(&own->begin);
  const bool sends = call.kind == Exchange::send;
  const std::pair<int, int> way = {sends ? comm.rank : call.peer, sends ? call.peer : comm.rank};
  Posts& waiting = sends ? clique.recvs[way] : clique.sends[way];
  if (waiting.empty()) {
    (sends ? clique.sends : clique.recvs)[way].push_back(own);
    return own;
  }
  const PostPtr other = waiting.front();
  waiting.pop_front();
  transfer(lock, clique, sends ? *own : *other, sends ? *other : *own, way.first, way.second);
  return own;
}

bool transfer_all(ncclComm& comm, const std::vector<Call>& calls, std::shared_ptr<void>& state) {
  Lock lock(world().mutex);
  if (!state) {
    const auto posts = std::make_shared<std::vector<PostPtr>>();
    ++world().totals.messages;
    state = posts;
    for (const Call& call : calls)
      if (!is_over(comm)) posts->push_back(post(lock, comm, call));
  }
  if (is_over(comm)) return true;
  const auto& posts = *static_cast<std::vector<PostPtr>*>(state.get());
  if (!std::all_of(posts.begin(), posts.end(), [](const PostPtr& p) { return p->done; }))
    return false;
  for (const PostPtr& p : posts) acquire_unseen(&p->end);
  return true;
}

}  // namespace

void Clique::fail(ncclResult_t why, const std::string& text) {
  error = why;
  message = text;
  std::fprintf(stderr, "emulated NCCL: %s\n", text.c_str());
  go_on_with_works();
}

Work collective_work(std::shared_ptr<ncclComm> comm, const Call& call) {
  return [comm, call](std::shared_ptr<void>& state) { return meet(*comm, call, state); };
}
Work transfer_work(std::shared_ptr<ncclComm> comm, std::vector<Call> calls) {
  return [comm, calls](std::shared_ptr<void>& state) { return transfer_all(*comm, calls, state); };
}

}  // namespace alpa::emulation
