// What the processes of a launch tell each other beside data (docs/cluster.md, "What the protocol
// costs"). Prints on rank 0 a JSON line per quantity:
//   idle        processor seconds of a process per second, for signs of life and looking around
//   call        processor seconds of rank 0 per call that another rank tells it of
//   telling     processor seconds of that rank per call
//   compare     seconds in which rank 0 compares one call of one of 1,024 ranks
//   hop         seconds from a process to another, by broadcasts of 32 bytes to and fro
//   mpirun -n 2 bench_protocol
#include <fmt/core.h>
#include <sys/resource.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "alpa/base/program.h"
#include "src/base/timing.h"
#include "src/processes/calls.h"
#include "src/processes/world.h"

using namespace alpa;

namespace {

constexpr int kRounds = 15, kRanks = 1024;
constexpr const char* kCall = "run 123 on labels i32[8, 128], tokens i32[8, 128]";

/// Of all threads of this process.
double processor_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](timeval time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

template <class Measure>
double median_of(const Measure& measure) {
  std::vector<double> results;
  for (int i = 0; i < kRounds; ++i) results.push_back(measure());
  return median(results);
}

double idle_seconds() {
  const double begin = processor_seconds();
  const Stopwatch watch;
  ::sleep(1);
  return (processor_seconds() - begin) / watch.seconds();
}

/// Of rank 1, which makes as many calls at once as 1,024 processes make in a step; and of rank 0,
/// which has made them before and hears of them. Less what the process takes anyway.
double seconds_of_call(processes::World& world, double idle) {
  const auto make_calls = [&](int rank) {
    for (int i = 0; i < kRanks && world.rank() == rank; ++i) world.note_call(kCall);
  };
  make_calls(0);
  ::usleep(20'000);
  world.broadcast("begin");
  const double begin = processor_seconds();
  const Stopwatch watch;
  make_calls(1);
  ::usleep(300'000);
  return (processor_seconds() - begin - idle * watch.seconds()) / kRanks;
}

double seconds_of_comparing() {
  processes::Calls calls(kRanks);
  const Stopwatch watch;
  for (int rank = 0; rank < kRanks; ++rank) calls.add(rank, 1, 1, kCall);
  return watch.seconds() / kRanks;
}

double seconds_of_hop(processes::World& world) {
  constexpr int kTimes = 1000;
  std::byte bytes[32] = {};
  const Stopwatch watch;
  for (int i = 0; i < kTimes; ++i) world.broadcast(bytes, sizeof bytes, i % 2);
  return watch.seconds() / kTimes;
}

int run(int, char** argv) {
  processes::World* const world = processes::world();
  require(world && world->size() == 2, "start it as two processes: mpirun -n 2 {}", argv[0]);
  const auto print = [&](std::string_view what, double seconds, int rank = 0) {
    world->broadcast(reinterpret_cast<std::byte*>(&seconds), sizeof seconds, rank);
    fmt::print("{{\"name\": \"{}\", \"seconds\": {:.9f}}}\n", what, seconds);
  };
  const double idle = median_of(idle_seconds);
  print("idle", idle);
  const double of_call = median_of([&] { return seconds_of_call(*world, idle); });
  print("call", of_call);
  print("telling", of_call, 1);
  print("compare", median_of(seconds_of_comparing));
  print("hop", median_of([&] { return seconds_of_hop(*world); }));
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return run_program("bench_protocol", run, argc, argv); }
