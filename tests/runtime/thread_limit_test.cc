// Threads that the system refuses. The limit holds for a user's whole process, and root has none: a
// process of its own gives up its rights, lowers its limit and tells what it saw.
#include <doctest/doctest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <functional>
#include <string_view>

#include "src/base/thread_team.h"
#include "src/runtime/executor.h"
#include "support/error_text.h"
#include "support/steps.h"

namespace thread_limit_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

/// A user who runs nothing else.
constexpr uid_t kNobody = 61234;

void limit_threads(rlim_t threads) {
  const rlimit limit{threads, threads};
  REQUIRE(setrlimit(RLIMIT_NPROC, &limit) == 0);
  if (getuid() == 0) REQUIRE(setuid(kNobody) == 0);
}

/// Prints the Error of `call`, or that there was none, and ends the process.
[[noreturn]] void tell(const std::function<void()>& call) {
  std::puts(error_of(call).c_str());
  std::fflush(stdout);
  _exit(0);
}

/// Output and exit status of another process that runs the skipped test case `name` of this
/// program.
std::string output_of(const std::string& name) {
  std::array<char, 4096> path{};
  REQUIRE(readlink("/proc/self/exe", path.data(), path.size() - 1) > 0);
  const std::string command =
      fmt::format("'{}' --no-skip --test-case='{}' 2>&1; echo status $?", path.data(), name);
  std::FILE* const pipe = popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::string output;
  for (std::array<char, 1024> part; std::fgets(part.data(), part.size(), pipe) != nullptr;)
    if (!std::string_view(part.data()).starts_with("[doctest]")) output += part.data();
  pclose(pipe);
  return output;
}

/// The number after `before` in `text`.
int number_after(const std::string& text, const std::string& before) {
  const std::size_t at = text.find(before);
  REQUIRE_MESSAGE(at != text.npos, text);
  return std::stoi(text.substr(at + before.size()));
}

/// What is told of `whose` where `wanted` threads are too many.
std::string refused(const std::string& whose, int wanted, const std::string& output) {
  return fmt::format(
      "{}: only {} of {} threads could be started (Resource temporarily unavailable); "
      "use fewer devices or fewer threads per device, or allow more threads (ulimit -u) or memory "
      "(ulimit -v)\nstatus "
      "0\n",
      whose, number_after(output, ": only "), wanted);
}

spmd::SpmdProgram program_for(int devices) {
  const Graph graph = training_graph({f32, {12, 10}}, {f32, {12, 6}}, small_mlp, {});
  return lowered(graph, following_plan(graph, mesh_of({devices}), {{"x", "S0@0"}, {"y", "S0@0"}}));
}

}  // namespace

TEST_CASE("in a process of its own: a team" * doctest::skip()) {
  limit_threads(4);
  tell([] { ThreadTeam team(8); });
}

TEST_CASE("in a process of its own: devices" * doctest::skip()) {
  const spmd::SpmdProgram program = program_for(6);
  limit_threads(4);
  // Watched devices have a thread each, on any machine.
  tell([&] { runtime::Executor(program, {.threads_per_device = 1, .stall_seconds = 60}); });
}

TEST_CASE("in a process of its own: devices of several threads" * doctest::skip()) {
  const spmd::SpmdProgram program = program_for(3);
  limit_threads(6);
  tell([&] { runtime::Executor(program, {.threads_per_device = 3}); });
}

TEST_CASE(
    "threads that the system refuses are an Error, whether none or some of them were started") {
  const std::string team = output_of("in a process of its own: a team");
  CHECK(team == refused("thread team", 7, team));
  const std::string devices = output_of("in a process of its own: devices");
  CHECK(devices == refused("devices", 6, devices));
  const std::string both = output_of("in a process of its own: devices of several threads");
  CHECK(both == refused("thread team", 2, both));
  if (getuid() == 0) CHECK(number_after(devices, ": only ") > 0);
}

}  // namespace thread_limit_test
