// src/api/checkpoint/stop_signals.cc — notes SIGTERM and SIGINT
#include "src/api/checkpoint/stop_signals.h"

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <iostream>
#include <iterator>

#include "src/base/launch_hooks.h"
#include "src/processes/launch_output.h"
#include "src/processes/world.h"

namespace alpa::checkpoint {
namespace {

constexpr int kSignals[] = {SIGTERM, SIGINT};

std::atomic<int> noted = 0;
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler sets it");

/// A handler that does nothing but end the process.
bool ends(void (*handler)(int)) {
  const auto of_launch = launch_hooks().ends_by_signal;
  return handler == SIG_DFL || (of_launch && handler == of_launch);
}

/// The handlers that `note` is in the place of, by place in kSignals.
void (*replaced[std::size(kSignals)])(int) = {};

/// Whether our handler is there; the system has removed it when it was called.
void note(int signal) {
  noted = signal;
  for (const int other : kSignals) ::signal(other, SIG_DFL);
}

}  // namespace

StopSignals::StopSignals(bool active) : active_(active) {
  if (!active_) return;
  noted = 0;
  struct sigaction ours = {}, before = {};
  ours.sa_handler = note;
  ours.sa_flags = SA_RESTART;
  for (std::size_t i = 0; i < std::size(kSignals); ++i)
    if (sigaction(kSignals[i], nullptr, &before) == 0 && ends(before.sa_handler)) {
      replaced[i] = before.sa_handler;
      sigaction(kSignals[i], &ours, nullptr);
    }
  if (processes::World* const world = processes::world())
    world->protocol().watch_signal([] { return noted.load(); });
}

StopSignals::~StopSignals() {
  if (!active_) return;
  if (processes::World* const world = processes::world()) world->protocol().watch_signal({});
  struct sigaction now = {};
  for (std::size_t i = 0; i < std::size(kSignals); ++i)
    if (sigaction(kSignals[i], nullptr, &now) == 0 && now.sa_handler == note)
      ::signal(kSignals[i], replaced[i]);
}

int StopSignals::caught() const { return active_ ? noted.load() : 0; }

void StopSignals::exit_for(int signal) {
  std::cout.flush();
  std::fflush(nullptr);
  processes::flush_output();
  ::_exit(128 + signal);
}

}  // namespace alpa::checkpoint
