// src/processes/launch.cc — joins the launch of this process, and ends it with the program
#include "src/processes/launch.h"

#include <fmt/core.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>

#include "src/base/launch_hooks.h"
#include "src/processes/launch_output.h"
#include "src/processes/mpi_library.h"
#include "src/processes/world.h"

namespace alpa::processes {
namespace {

/// From a failure to the end of all processes: enough to say why and to unwind.
constexpr std::chrono::milliseconds kGrace{1500};

/// ALPA_SILENCE_SECONDS, or 2: how long a process may be silent before it counts as lost.
std::chrono::milliseconds silence() {
  const char* const text = std::getenv("ALPA_SILENCE_SECONDS");
  if (!text) return ProtocolOptions{}.silence;
  char* end = nullptr;
  const double seconds = std::strtod(text, &end);
  require(end != text && *end == '\0' && seconds >= 0.5 && seconds <= 1e6,
          "ALPA_SILENCE_SECONDS is \"{}\"; give seconds from 0.5 to 1e6", text);
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

/// The one of this process. Never destroyed by a destructor of another static object.
struct Launch {
  std::mutex mutex;
  std::unique_ptr<World> world;
  bool over = false;
};

Launch& launch() {
  static Launch& launch = *new Launch;
  return launch;
}

/// Says it at once: the launcher may end this process before the program can.
void announce(const Failure& failure) {
  if (failure.status != kTryAgain) return;  // the program says it
  const std::string line = fmt::format("alpa: {}\n", failure.text);
  if (::write(STDERR_FILENO, line.data(), line.size()) < 0) return;
}

/// Ends a program of a failed launch: rank 0, or who speaks in its place, ends all the others; they
/// wait for it.
[[noreturn]] void end_failed(World& world) {
  const Failure failure = *world.protocol().failure();
  std::fflush(nullptr);
  flush_output();
  if (world.protocol().speaks())
    world.protocol().end_all();
  ::usleep(2 * std::chrono::microseconds(kGrace).count());
  ::_exit(failure.status);
}

/// At the end of the program.
void leave() {
  std::unique_ptr<World> world;
  {
    const std::lock_guard lock(launch().mutex);
    launch().over = true;
    world = std::move(launch().world);
  }
  if (!world) return;
  if (!world->protocol().failed()) {
    try {
      world->note_call("the end of the program");
      world->leave();
    } catch (const LaunchFailed&) {
    }
  }
  if (world->protocol().failed()) end_failed(*world);
}

/// Whether the launch is joined, and has failed soon: other processes may be about to say why.
World* joined() {
  try {
    return world();
  } catch (const Error&) {
    return nullptr;
  }
}

/// A program that fails: rank 0, or who speaks in its place, says why, once.
bool program_fails(const char* name, const char* message, int& status) {
  World* const all = joined();
  if (!all) return launcher().rank != 0;  // what fails to join fails in all alike
  Protocol& protocol = all->protocol();
  if (!protocol.failed()) protocol.fail({message, status, all->rank()});
  while (!protocol.failed()) ::usleep(100);
  const Failure failure = *protocol.failure();
  status = failure.status;
  if (failure.status == kTryAgain || !protocol.speaks()) return true;  // said by `announce`
  const std::string who = failure.rank == all->rank()
                              ? ""
                              : to_string(all->processes()[failure.rank], all->size()) + ": ";
  std::fprintf(stderr, "%s: %s%s\n", name, who.c_str(), failure.text.c_str());
  return true;
}

/// Before `main`: whether there is a launcher can be seen in the environment.
const bool prepared = [] {
  try {
    const Launcher by = launcher();
    if (!by.launched() || by.size == 1) return false;
    divide_output(by);
    launch_hooks().program_fails = program_fails;
    return true;
  } catch (const Error&) {
    return false;  // `world_of_process` throws it
  }
}();

}  // namespace

World* world_of_process() {
  const std::lock_guard lock(launch().mutex);
  if (launch().world || launch().over) return launch().world.get();
  static const Launcher by = launcher();
  if (!by.launched() || by.size == 1) return nullptr;
  const MpiSupport& mpi = mpi_support();
  launch().world = std::make_unique<World>([&] { return mpi_wire(by, mpi); },
                                           ProtocolOptions{silence(), kGrace, announce});
  if (launch().world->size() == 1) {
    launch().world.reset();
    launch().over = true;
    return nullptr;
  }
  launch_hooks().sharing_cores = launch().world->sharing_cores();
  std::atexit(leave);
  return launch().world.get();
}

}  // namespace alpa::processes
