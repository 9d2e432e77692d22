// models/common/interrupt.cc — ends planning on SIGINT and saves the best plan so far
#include "models/common/interrupt.h"

#include <csignal>
#include <cstdlib>

namespace programs {

using namespace alpa;

namespace {

std::atomic<bool> interrupted = false;
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler sets it");

struct sigaction before;

void interrupt(int) { interrupted = true; }

}  // namespace

PlanningInterrupt::PlanningInterrupt(bool active) : active_(active) {
  if (!active_) return;
  interrupted = false;
  struct sigaction once = {};
  once.sa_handler = interrupt;
  once.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  sigaction(SIGINT, &once, &before);
  if (before.sa_handler == SIG_IGN) sigaction(SIGINT, &before, nullptr);
}

PlanningInterrupt::~PlanningInterrupt() {
  if (active_) sigaction(SIGINT, &before, nullptr);
}

bool PlanningInterrupt::came() const { return active_ && interrupted; }

Method PlanningInterrupt::ending(Method method) const {
  if (active_) std::visit([](auto& options) { options.stop = &interrupted; }, method);
  return method;
}

void PlanningInterrupt::exit_with(const CompiledStep& planned, const std::string& path) const {
  if (!active_ || !interrupted) return;
  write_file(path, to_json(planned));
  fmt::print(
      stderr,
      "interrupted while planning: the best plan so far is saved in {} ({}); --load-plan takes "
      "it\n",
      path, proof_text(planned.plan));
  std::exit(kInterruptedStatus);
}

}  // namespace programs
