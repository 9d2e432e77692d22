// The training step of an MLP on a machine whose cores are taken: busy loops, processes of
// their own, run beside it in every other round. The slowdown is the ratio of a busy round
// to the quiet one before it.
//   bench_busy_machine --help
// With --on-request it reads numbers of steps from its input, a line each, and answers with the
// seconds they took; bench/peers/busy_machine.py asks it and JAX in turn.
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>

#include "arguments.h"
#include "interleave.h"
#include "mlp.h"
#include "on_request.h"

using namespace alpa;

namespace {

/// Processes that do nothing but use a core each. They end with this program, however it ends.
class BusyLoops {
 public:
  /// To be made before any thread is. They start stopped.
  explicit BusyLoops(int count) {
    for (int i = 0; i < count; ++i) processes_.push_back(start());
  }
  ~BusyLoops() {
    for (pid_t process : processes_) kill(process, SIGKILL);
    for (pid_t process : processes_) waitpid(process, nullptr, 0);
  }
  BusyLoops(const BusyLoops&) = delete;
  BusyLoops& operator=(const BusyLoops&) = delete;

  void run(bool running) {
    for (pid_t process : processes_) kill(process, running ? SIGCONT : SIGSTOP);
    // until they are spread over the cores
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }

 private:
  static pid_t start() {
    const pid_t parent = getpid(), process = fork();
    require(process >= 0, "busy loops: a process cannot be started");
    if (process > 0) return process;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    raise(SIGSTOP);
    for (volatile bool forever = true; forever;) {
    }
    _exit(0);
  }

  std::vector<pid_t> processes_;
};

double seconds_of(int steps, const std::function<void()>& step) {
  const Stopwatch watch;
  for (int i = 0; i < steps; ++i) step();
  return watch.seconds();
}

/// Quiet and busy rounds in turn, each of about half a second of quiet steps.
void measure(const std::string& name, const std::function<void()>& step, BusyLoops& loops,
             int rounds) {
  seconds_of(3, step);
  const int steps = std::max(1, static_cast<int>(0.5 * 10 / seconds_of(10, step)));
  std::vector<double> quiet, busy, slowdown;
  for (int round = 0; round < rounds; ++round) {
    loops.run(false);
    quiet.push_back(seconds_of(steps, step) / steps);
    loops.run(true);
    busy.push_back(seconds_of(steps, step) / steps);
    slowdown.push_back(busy.back() / quiet.back());
  }
  loops.run(false);
  fmt::print(
      R"({{"name": "{}", "quiet_seconds": {:.4g}, "busy_seconds": {:.4g}, "slowdown": {:.2f}}})"
      "\n",
      name, median(quiet), median(busy), median(slowdown));
}

std::function<void()> step_on(const bench::MlpSizes& sizes, int devices) {
  return devices == 1 ? bench::mlp_runner(sizes, Serial{}, 1)
                      : bench::mlp_runner(sizes, DataParallel{}, devices);
}

struct Sizes : bench::MlpSizes {
  int devices = 8, loops = 2, rounds = 15;
};

void answer(const Sizes& sizes) { bench::answer(step_on(sizes, sizes.devices)); }

void measure(const Sizes& sizes) {
  BusyLoops loops(sizes.loops);
  measure("one device", step_on(sizes, 1), loops, sizes.rounds);
  measure(fmt::format("{} devices, data parallel", sizes.devices), step_on(sizes, sizes.devices),
          loops, sizes.rounds);
}

}  // namespace

int main(int argc, char** argv) {
  Sizes sizes;
  sizes.dim = 512, sizes.batch = 64;
  bool on_request = false;
  std::vector<cli::Flag> flags = bench::size_flags(sizes);
  flags.push_back(cli::whole("--devices", &sizes.devices, "CPU devices", 1, 1024));
  flags.push_back(cli::whole("--loops", &sizes.loops, "Busy loops", 0, 1024));
  flags.push_back(cli::whole("--rounds", &sizes.rounds, "Counted rounds", 1, 1000));
  flags.push_back(cli::on("--on-request", &on_request, "Answer numbers of steps with seconds"));
  return bench::run(argc, argv, "The training step of an MLP while other processes take the cores.",
                    flags, [&] { on_request ? answer(sizes) : measure(sizes); });
}
