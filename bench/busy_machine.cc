// The training step of an MLP on a machine whose cores are taken: busy loops, processes of their own, run
// beside it in every other round. The slowdown is the ratio of a busy round to the quiet one before it.
//   bench_busy_machine [DIM [BATCH [LAYERS [DEVICES [LOOPS [ROUNDS]]]]]]    defaults: 512 64 10 8 2 15
//   bench_busy_machine --on-request DIM BATCH LAYERS DEVICES
// The second form reads numbers of steps from its input, a line each, and answers with the seconds they
// took; bench/peers/busy_machine.py asks it and JAX in turn.
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <iostream>

#include "interleave.h"
#include "mlp.h"

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
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // until they are spread over the cores
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
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < steps; ++i) step();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Quiet and busy rounds in turn, each of about half a second of quiet steps.
void measure(const std::string& name, const std::function<void()>& step, BusyLoops& loops, int rounds) {
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
  fmt::print(R"({{"name": "{}", "quiet_seconds": {:.4g}, "busy_seconds": {:.4g}, "slowdown": {:.2f}}})"
             "\n",
             name, bench::median(quiet), bench::median(busy), bench::median(slowdown));
}

std::function<void()> step_on(const bench::MlpSizes& sizes, int devices) {
  return devices == 1 ? bench::mlp_runner(sizes, Serial{}, 1)
                      : bench::mlp_runner(sizes, DataParallel{}, devices);
}

int answer(char** arguments) {
  const bench::MlpSizes sizes{std::atoll(arguments[0]), std::atoll(arguments[1]), std::atoll(arguments[2])};
  const auto step = step_on(sizes, std::atoi(arguments[3]));
  for (int steps; std::cin >> steps;) {
    fmt::print("{:.6g}\n", seconds_of(steps, step));
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 6 && std::string(argv[1]) == "--on-request") return answer(argv + 2);
  const auto argument = [&](int i, int otherwise) { return argc > i ? std::atoi(argv[i]) : otherwise; };
  const bench::MlpSizes sizes{argument(1, 512), argument(2, 64), argument(3, 10)};
  const int devices = argument(4, 8), rounds = argument(6, 15);
  BusyLoops loops(argument(5, 2));
  measure("one device", step_on(sizes, 1), loops, rounds);
  measure(fmt::format("{} devices, data parallel", devices), step_on(sizes, devices), loops, rounds);
}
