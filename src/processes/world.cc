// src/processes/world.cc — what the processes of a launch do together outside of steps
#include "src/processes/world.h"

#include <sched.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <set>
#include <utility>

#include "src/base/exception_text.h"
#include "src/base/fnv.h"
#include "src/base/launch_hooks.h"
#include "src/base/thread_team.h"
#include "src/processes/launch.h"
#include "src/processes/tags.h"

namespace alpa::processes {
namespace {

thread_local World* world_of_thread = nullptr;

/// Installs `speaks_for_all`, before other threads start.
const bool one_writes = [] {
  launch_hooks().writes_files = speaks_for_all;
  return true;
}();

std::vector<int> cores_of_process() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cores;
  if (::sched_getaffinity(0, sizeof set, &set) == 0)
    for (int core = 0; core < CPU_SETSIZE; ++core)
      if (CPU_ISSET(core, &set)) cores.push_back(core);
  return cores;
}

std::string name_of_host() {
  char name[HOST_NAME_MAX + 1] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "?";
}

/// `process` as bytes for the others: host, pid, number of cores, cores, name.
std::string packed(const Process& process) {
  std::string bytes;
  const auto add = [&](std::int64_t number) {
    bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
  };
  add(process.host);
  add(process.pid);
  add(process.offered_cores);
  add(std::ssize(process.cores));
  for (const int core : process.cores) add(core);
  return bytes + process.host_name;
}

Process unpacked(const std::string& bytes, int rank) {
  std::size_t at = 0;
  const auto take = [&] {
    std::int64_t number = 0;
    std::memcpy(&number, bytes.data() + at, sizeof number);
    at += sizeof number;
    return number;
  };
  Process process;
  process.rank = rank;
  process.host = static_cast<int>(take());
  process.pid = take();
  process.offered_cores = static_cast<int>(take());
  process.cores.resize(take());
  for (int& core : process.cores) core = static_cast<int>(take());
  process.host_name = bytes.substr(at);
  return process;
}

}  // namespace

World::World(std::function<std::unique_ptr<Wire>()> make_wire, ProtocolOptions options)
    : protocol_(options), next_tag_(kFirstFreeTag), patience_(options.silence) {
  Process self{0, 0, name_of_host(), ::getpid(), cores_of_process(), offered_cores()};
  int size = 1;
  courier_ = std::make_unique<Courier>(
      [&, make_wire = std::move(make_wire)] {
        std::unique_ptr<Wire> wire = make_wire();
        self.rank = rank_ = wire->rank();
        self.host = wire->host();
        size = wire->size();
        max_tag_ = wire->max_tag();
        return wire;
      },
      protocol_);
  processes_.resize(size);
  for (int peer = 0; peer <= size; ++peer) requests_.emplace_back();
  std::vector<std::string> all;
  try {
    all = all_gather(packed(self));
  } catch (...) {
    protocol_.leave();
    throw;
  }
  for (int rank = 0; rank < size; ++rank) processes_[rank] = unpacked(all[rank], rank);
  courier_->set_crowded(sharing_cores() > std::ssize(self.cores));
  protocol_.watch(processes_);
}

int World::sharing_cores() const {
  const Process& self = processes_[rank_];
  return static_cast<int>(
      std::count_if(processes_.begin(), processes_.end(), [&](const Process& other) {
        return other.host == self.host &&
               std::any_of(other.cores.begin(), other.cores.end(), [&](int core) {
                 return std::find(self.cores.begin(), self.cores.end(), core) != self.cores.end();
               });
      }));
}

World::~World() {
  if (!courier_) return;  // has left
  protocol_.leave();
  courier_.reset();  // waits
}

void World::leave() {
  protocol_.leave();
  courier_.reset();  // waits
  require_alive();
}

std::vector<int> World::all_ranks() const {
  std::vector<int> ranks;
  for (const Process& process : processes_) ranks.push_back(process.rank);
  return ranks;
}

int World::num_hosts() const {
  std::set<int> hosts;
  for (const Process& process : processes_) hosts.insert(process.host);
  return static_cast<int>(hosts.size());
}

std::vector<int> World::ranks_of_devices(int devices) const {
  require(
      devices >= size(),
      "{} device{} for {} processes: every process needs at least one; start fewer processes, or "
      "take more devices",
      devices, devices == 1 ? "" : "s", size());
  std::vector<int> order(size());
  for (int rank = 0; rank < size(); ++rank) order[rank] = rank;
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return processes_[a].host < processes_[b].host; });
  std::vector<int> ranks(devices);
  std::map<int, int> of_host;
  for (int device = 0; device < devices; ++device) {
    ranks[device] = order[static_cast<std::int64_t>(device) * size() / devices];
    ++of_host[processes_[ranks[device]].host];
  }
  const auto name_of = [&](int host) {
    return std::find_if(processes_.begin(), processes_.end(),
                        [&](const Process& process) { return process.host == host; })
        ->host_name;
  };
  for (const auto& [host, count] : of_host)
    require(
        count == of_host.begin()->second,
        "{} devices on {} hosts: {} would have {}, {} would have {}; start as many processes on "
        "every host, and take a multiple of them as devices",
        devices, of_host.size(), name_of(of_host.begin()->first), of_host.begin()->second,
        name_of(host), count);
  return ranks;
}

World::Share World::cores_for(int devices) const {
  std::map<int, int> cores, of_host;
  for (const Process& process : processes_)
    cores[process.host] = std::max(cores[process.host], process.offered_cores);
  for (const int rank : ranks_of_devices(devices)) ++of_host[processes_[rank].host];
  Share least{0, 0};
  for (const auto& [host, count] : of_host) {
    const Share share{cores[host], count};
    if (least.devices == 0 || share.cores * least.devices < least.cores * share.devices)
      least = share;
  }
  return least;
}

/// Runs a collective call; if the launch fails meanwhile, throws LaunchFailed.
template <class Call>
auto World::together(Call&& call) {
  require_alive();
  try {
    return call();
  } catch (const Aborted&) {
    rethrow();
  }
}

void World::post(Request& request, int peer, std::byte* data, std::int64_t bytes, bool sends) {
  request.set(peer, kHostTag, data, bytes, sends);
  courier_->post(request, /*waits=*/true);
}

/// Waits for the message of a collective call. If the peer has finished the call and the message is
/// not here, it was lost: fails the launch.
void World::wait(Request& request, int peer) {
  bool sent = false;
  while (!courier_->wait_for(request, patience_)) {
    if (sent)
      protocol_.fail(
          {fmt::format("a message of {} to {} was lost; start the program again",
                       to_string(processes_[peer], size()), to_string(processes_[rank_], size())),
           kTryAgain, -1, true});
    const auto reports = protocol_.ask({peer});
    sent = reports && reports->front().together > num_together_;
  }
}

void World::note_call(std::string_view text, std::uint64_t hash) {
  require_alive();
  protocol_.call(++num_calls_, fnv1a(text) ^ hash, text);
}

void World::require_equal(std::string_view what, const std::string& text) {
  const std::uint64_t hash = fnv1a(text);
  std::map<std::string, std::vector<int>> kinds;
  const std::vector<std::string> hashes =
      all_gather({reinterpret_cast<const char*>(&hash), sizeof hash});
  for (int rank = 0; rank < size(); ++rank) kinds[hashes[rank]].push_back(rank);
  if (kinds.size() == 1) return;
  std::vector<std::vector<int>> ranks;
  for (auto& [of, same] : kinds) ranks.push_back(std::move(same));
  std::sort(ranks.begin(), ranks.end(), [](const auto& a, const auto& b) {
    return a.size() != b.size() ? a.size() > b.size() : a.front() < b.front();
  });
  const std::string most = broadcast(text, ranks[0].front()),
                    other = broadcast(text, ranks[1].front());
  protocol_.fail(different_texts(what, most, ranks[0], other, ranks[1]));
  rethrow();
}

/// Along a binomial tree of places, of which the root has 0: place p gets the bytes from p less its
/// lowest set bit, and sends them to p plus each lower bit, the largest subtree first.
void World::broadcast(std::byte* data, std::int64_t bytes, int root) {
  together([&] {
    const int place = (rank_ - root + size()) % size();
    const auto rank_of = [&](int other) { return (other + root) % size(); };
    int bit = 1;
    while (bit < size() && (place & bit) == 0) bit *= 2;
    if (place != 0) {
      const int from = rank_of(place - bit);
      post(requests_[from], from, data, bytes, /*sends=*/false);
      wait(requests_[from], from);
    }
    std::vector<int> to;
    for (bit /= 2; bit > 0; bit /= 2)
      if (place + bit < size()) to.push_back(rank_of(place + bit));
    for (const int peer : to) post(requests_[peer], peer, data, bytes, /*sends=*/true);
    for (const int peer : to) wait(requests_[peer], peer);
    protocol_.set_together(++num_together_);
  });
}

std::string World::broadcast(std::string bytes, int root) {
  std::int64_t length = std::ssize(bytes);
  broadcast(reinterpret_cast<std::byte*>(&length), sizeof length, root);
  bytes.resize(length);
  broadcast(reinterpret_cast<std::byte*>(bytes.data()), length, root);
  return bytes;
}

/// Each round doubles what a process has (Bruck et al. 1997, "Efficient algorithms for all-to-all
/// communications"): it gets the first parts of the process that many ranks on.
void World::gather_behind(std::byte* data, const std::vector<std::int64_t>& ends) {
  together([&] {
    for (int have = 1; have < size(); have *= 2) {
      const int more = std::min(have, size() - have);
      const int to = (rank_ - have + size()) % size(), from = (rank_ + have) % size();
      post(requests_[from], from, data + ends[have], ends[have + more] - ends[have],
           /*sends=*/false);
      post(requests_[size()], to, data, ends[more], /*sends=*/true);  // `from` may be `to`
      wait(requests_[from], from);
      wait(requests_[size()], to);
      protocol_.set_together(++num_together_);
    }
  });
}

std::vector<std::string> World::all_gather(const std::string& bytes) {
  const int n = size();
  std::vector<std::int64_t> lengths(n), ends(n + 1);  // from this rank on, around a ring
  for (int i = 0; i <= n; ++i) ends[i] = i * static_cast<std::int64_t>(sizeof(std::int64_t));
  lengths[0] = std::ssize(bytes);
  gather_behind(reinterpret_cast<std::byte*>(lengths.data()), ends);
  for (int i = 0; i < n; ++i) ends[i + 1] = ends[i] + lengths[i];
  std::string parts = bytes;
  parts.resize(ends[n]);
  gather_behind(reinterpret_cast<std::byte*>(parts.data()), ends);
  std::vector<std::string> all(n);
  for (int i = 0; i < n; ++i) all[(rank_ + i) % n] = parts.substr(ends[i], lengths[i]);
  return all;
}

std::string World::from_rank_0(const std::function<std::string()>& make) {
  char outcome = 'o';  // 'o': fine, 'e': Error, 'b': Bug
  std::string text;
  if (rank_ == 0) {
    try {
      text = make();
    } catch (const LaunchFailed&) {
      throw;
    } catch (const Bug& thrown) {
      outcome = 'b', text = thrown.what();
    } catch (...) {
      outcome = 'e', text = text_of(std::current_exception());
    }
  }
  text = broadcast(outcome + text);
  outcome = text.front();
  text.erase(0, 1);
  if (outcome == 'e') throw Error(text);
  if (outcome == 'b') throw Bug(text);
  return text;
}

int World::reserve_tags(int count) {
  require(next_tag_ <= max_tag_ - count,
          "no tags are left for messages between processes; make fewer executables, or batches of "
          "fewer different sizes");
  return std::exchange(next_tag_, next_tag_ + count);
}

void World::require_alive() const {
  if (protocol_.failed()) throw_failure();
}

void World::rethrow() const {
  while (!protocol_.failed()) ::usleep(100);  // requests are aborted right behind
  throw_failure();
}

void World::throw_failure() const {
  has_thrown_ = true;
  throw LaunchFailed(*protocol_.failure());
}

void World::fail(const std::exception_ptr& thrown) {
  bool bug = false;
  try {
    std::rethrow_exception(thrown);
  } catch (const LaunchFailed&) {
    return;
  } catch (const Bug&) {
    bug = true;
  } catch (...) {
  }
  protocol_.fail({text_of(thrown), bug ? 3 : 2, rank_});
}

InWorld::InWorld(World& world) : before_(std::exchange(world_of_thread, &world)) {}
InWorld::~InWorld() { world_of_thread = before_; }

World* world() { return world_of_thread ? world_of_thread : world_of_process(); }

bool speaks_for_all() {
  const World* const all = world();
  return !all || all->rank() == 0;
}

}  // namespace alpa::processes
