// src/processes/launch.cc — joins the launch of this process, and ends it with the program
#include "src/processes/launch.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "src/base/launch_hooks.h"
#include "src/processes/launch_output.h"
#include "src/processes/mpi_library.h"
#include "src/processes/sibling_watch.h"
#include "src/processes/world.h"

namespace alpa::processes {
namespace {

/// Time from a failure to the end of all processes: enough to say why and to unwind.
constexpr std::chrono::milliseconds kGrace{1500};

/// Microseconds for the launcher to read why. What it has not read when the launch is aborted is
/// lost.
constexpr int kRead = 200'000;

/// The seconds that a variable of the environment gives, or `usual`.
std::chrono::milliseconds seconds_in(const char* name, std::chrono::milliseconds usual) {
  const char* const text = std::getenv(name);
  if (!text) return usual;
  char* end = nullptr;
  const double seconds = std::strtod(text, &end);
  require(end != text && *end == '\0' && seconds >= 0.5 && seconds <= 1e6,
          "{} is \"{}\"; give seconds from 0.5 to 1e6", name, text);
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

/// Longest silence of a process before it counts as lost.
std::chrono::milliseconds silence() {
  return seconds_in("ALPA_SILENCE_SECONDS", ProtocolOptions{}.silence);
}

/// Time limit for all processes to join.
std::chrono::milliseconds join_timeout() {
  return seconds_in("ALPA_JOIN_SECONDS", ProtocolOptions{}.joining);
}

/// The one of this process. Never destroyed by a destructor of another static object.
struct Launch {
  std::mutex mutex;
  std::unique_ptr<World> world;
  bool over = false;
  std::exception_ptr failure;  ///< why it could not be joined
  int status = 0;              ///< of processes that joined when it had failed
};

Launch& launch() {
  static Launch& launch = *new Launch;
  return launch;
}

/// Says it at once: the launcher may end this process before the program can.
void announce(const Failure& failure) {
  const std::string line = fmt::format("alpa: {}\n", failure.text);
  if (::write(STDERR_FILENO, line.data(), line.size()) < 0) return;
}

std::atomic<int> ending_signal{0};
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler sets it");

/// The progress thread ends the process. A second signal ends it at once.
void note_ending(int signal) {
  ending_signal = signal;
  std::signal(signal, SIG_DFL);
}

/// mpirun sends SIGTERM to all others when a process is killed, often before they have noticed.
/// Left alone where the program handles it.
void handle_termination() {
  struct sigaction action = {};
  if (::sigaction(SIGTERM, nullptr, &action) != 0 || action.sa_handler != SIG_DFL) return;
  action.sa_handler = note_ending;
  action.sa_flags = SA_RESTART;
  if (::sigaction(SIGTERM, &action, nullptr) == 0) launch_hooks().ends_by_signal = note_ending;
}

std::string host_name() {
  char host[256] = {};
  ::gethostname(host, sizeof host - 1);
  return host;
}

/// Ends this process, and so the launch, for others that are waited for inside MPI.
void give_up(const Launcher& by, bool speaks, const std::string& why) {
  // Who speaks looks at another time, and may not look yet. Its end ends this process.
  if (!speaks) std::this_thread::sleep_for(std::chrono::milliseconds(1200 + 100 * by.rank % 800));
  announce({why});
  flush_output();
  ::usleep(kRead);
  mpi_support().functions->abort(kTryAgain);
  ::_exit(kTryAgain);
}

/// The same for a stopped sibling.
void give_up(const Launcher& by, const Sibling& lost, bool speaks, std::string_view when) {
  const Process process{lost.rank, 0, host_name(), lost.pid, {}};
  give_up(by, speaks,
          fmt::format("lost {}, which has been stopped, by a signal or a debugger, while {}; "
                      "start the program again, with --resume if it has checkpoints",
                      to_string(process, by.size), when));
}

/// The same for those that have not come in time. What is on other hosts they say there.
void give_up_late(const Launcher& by) {
  std::map<int, bool> joins = {{by.rank, true}};  // by rank, of those that run here
  for (const Sibling& sibling : siblings(/*of_wrappers=*/true))
    joins[sibling.rank] = joins[sibling.rank] || sibling.joins;
  const char* const here = std::getenv("OMPI_COMM_WORLD_LOCAL_SIZE");
  const bool one_host = here && std::to_string(by.size) == here;
  std::string who;
  for (int rank = 0; rank < by.size; ++rank) {
    const auto found = joins.find(rank);
    if (found == joins.end() ? !one_host : found->second) continue;
    who += fmt::format("{}rank {} of {} (host {}) {}", who.empty() ? "" : ", ", rank, by.size,
                       host_name(),
                       found == joins.end() ? "has ended before it" : "runs, but has not");
  }
  const auto first = std::ranges::find_if(joins, [](const auto& entry) { return entry.second; });
  const bool speaks = first->first == by.rank && !who.empty();
  if (who.empty())
    who = fmt::format("all processes of host {} have, but some of another have not", host_name());
  const auto seconds = static_cast<double>(join_timeout().count()) / 1000;
  give_up(by, speaks,
          fmt::format("{} joined the launch within {} s: every process must call alpa; if it needs "
                      "longer to get there, raise ALPA_JOIN_SECONDS, or --join-timeout",
                      who, seconds));
}

/// Ends a program of a failed launch: rank 0, or who speaks in its place, ends all the others; they
/// wait for it.
[[noreturn]] void end_failed(World& world) {
  const Failure failure = *world.protocol().failure();
  std::fflush(nullptr);
  world.protocol().say();
  flush_output();
  ::usleep(kRead);
  if (world.protocol().speaks()) world.protocol().end_all();
  ::usleep(2 * std::chrono::microseconds(kGrace).count());
  ::_exit(failure.status);
}

/// Runs at the exit of a program whose launch failed while it joined. mpirun would name a process
/// that ends before rank 0, which says why.
void end_unjoined() {
  flush_output();
  ::usleep(launcher().rank == 0 ? kRead : 2 * std::chrono::microseconds(kGrace).count());
  mpi_support().functions->abort(launch().status);
}

/// Leaves the launch, at the exit of the program.
void leave() {
  std::unique_ptr<World> world;
  {
    const std::lock_guard lock(launch().mutex);
    launch().over = true;
    world = std::move(launch().world);
  }
  if (!world) return;
  Protocol& protocol = world->protocol();
  const SiblingWatch watch(2 * silence(), [](const Sibling& lost, bool speaks) {
    give_up(launcher(), lost, speaks, "the others waited for it to leave the launch");
  });
  try {
    world->note_call("the end of the program");
    protocol.leave();
    while (!protocol.left() && !protocol.failed()) ::usleep(200);
  } catch (const LaunchFailed&) {
  }
  if (protocol.failed()) end_failed(*world);
}

/// The launch, or null and why it could not be joined.
World* joined(std::optional<Failure>& failure) {
  try {
    return world();
  } catch (const LaunchFailed& failed) {  // another process failed meanwhile
    failure = failed.failure();
  } catch (const Error&) {
  }
  return nullptr;
}

/// Runs at the exit of a program that has not called alpa: joins the launch if other processes of
/// this host wait for that. Otherwise mpirun would end them, in its own words. `leave` runs next
/// and tells all.
void join_if_awaited() {
  {
    const std::unique_lock lock(launch().mutex, std::try_to_lock);
    if (!lock || launch().world || launch().over || launch().failure) return;
  }
  const std::vector<Sibling> all = siblings(/*of_wrappers=*/true);
  std::optional<Failure> ignored;
  if (std::ranges::any_of(all, &Sibling::joins)) joined(ignored);
}

/// A program that fails: rank 0, or who speaks in its place, says why, once.
bool program_fails(const char* name, const char* message, int& status) {
  std::optional<Failure> failed;
  World* const all = joined(failed);
  if (failed) status = failed->status;
  if (!all) return status == kTryAgain || launcher().rank != 0;  // fails in all alike
  Protocol& protocol = all->protocol();
  if (!protocol.failed()) protocol.fail({message, status, all->rank()});
  while (!protocol.failed()) ::usleep(100);
  const Failure failure = *protocol.failure();
  status = failure.status;
  if (failure.status == kTryAgain || !protocol.speaks()) return true;  // said by `announce`
  protocol.set_said();
  // Mistakes that all make, such as a wrong flag, are not of one rank.
  const bool own = failure.rank == all->rank() || (!all->has_thrown() && failure.text == message);
  const std::string who = own || failure.names_ranks
                              ? ""
                              : to_string(all->processes()[failure.rank], all->size()) + ": ";
  std::fprintf(stderr, "%s: %s%s\n", name, who.c_str(), failure.text.c_str());
  return true;
}

/// Error in the launcher's environment variables; "" if there is none.
std::string& launcher_error() {
  static std::string& text = *new std::string;
  return text;
}

/// A program of several that know nothing of each other: srun's first one says so.
bool is_said_by_another(const char*, const char* message, int&) {
  const char* const rank = std::getenv("SLURM_PROCID");
  return message == launcher_error() && rank && std::strcmp(rank, "0") != 0;
}

/// Before `main`: whether there is a launcher can be seen in the environment.
const bool prepared = [] {
  try {
    const Launcher by = launcher();
    if (!by.launched() || by.size == 1) return false;
    divide_output(by);
    launch_hooks().program_fails = program_fails;
    std::atexit(join_if_awaited);
    return true;
  } catch (const Error& error) {  // `world_of_process` throws it
    launcher_error() = error.what();
    launch_hooks().program_fails = is_said_by_another;
    return false;
  }
}();

}  // namespace

World* world_of_process() {
  const std::lock_guard lock(launch().mutex);
  if (launch().world || launch().over) return launch().world.get();
  static const Launcher by = launcher();
  if (!by.launched() || by.size == 1) return nullptr;
  if (launch().failure) std::rethrow_exception(launch().failure);  // MPI starts once
  const MpiSupport& mpi = mpi_support();
  try {
    const SiblingWatch watch(
        silence(),
        [](const Sibling& lost, bool speaks) {
          give_up(by, lost, speaks, "the others waited for it to join the launch");
        },
        join_timeout(), [] { give_up_late(by); });
    launch().world = std::make_unique<World>([&] { return mpi_wire(by, mpi); },
                                             ProtocolOptions{.silence = silence(),
                                                             .joining = 2 * join_timeout(),
                                                             .grace = kGrace,
                                                             .announce = announce,
                                                             .ending_signal = &ending_signal});
  } catch (const LaunchFailed& failed) {
    launch().failure = std::current_exception();
    launch().status = failed.failure().status;
    std::atexit(end_unjoined);
    throw;
  } catch (...) {
    launch().failure = std::current_exception();
    throw;
  }
  if (launch().world->size() == 1) {
    launch().world.reset();
    launch().over = true;
    return nullptr;
  }
  launch_hooks().sharing_cores = launch().world->sharing_cores();
  launch().world->protocol().stay_if_failed();
  handle_termination();
  std::atexit(leave);
  return launch().world.get();
}

}  // namespace alpa::processes
