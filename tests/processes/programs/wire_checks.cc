// The checks of wires on MPI. tests/processes/mpi_wire_test.cc starts it under mpirun. Its argument
// says what to do; MPI runs on a thread that is not the main one.
#include <fmt/core.h>

#include <cstdio>
#include <cstring>
#include <exception>
#include <string>
#include <thread>

#include "alpa/base/error.h"
#include "processes/wire_contract.h"
#include "src/processes/mpi_library.h"

namespace {

using alpa::processes::Wire;

/// Process 0 sends `sent` bytes, process 1 awaits 4.
void mismatch(Wire& wire, std::int64_t sent) {
  std::byte data[64] = {};
  if (wire.rank() == 0) alpa::testing::wait_for(wire, {wire.send(1, 3, data, sent)});
  if (wire.rank() == 1) alpa::testing::wait_for(wire, {wire.receive(0, 3, data, 4)});
}

/// The last process aborts; the others wait for good.
void abort_launch(Wire& wire) {
  if (wire.rank() == wire.size() - 1) wire.abort(75);
  int ticket = 0;
  wire.receive(0, 1, nullptr, 0);
  while (wire.completed({&ticket, 1}) == 0) std::this_thread::yield();
}

void run(const std::string& what) {
  const alpa::processes::Launcher launcher = alpa::processes::launcher();
  const auto& support = alpa::processes::mpi_support();
  const std::unique_ptr<Wire> wire = alpa::processes::mpi_wire(launcher, support);
  if (what == "checks") {
    for (const alpa::testing::WireCheck& check : alpa::testing::wire_checks()) {
      check.run(*wire);
      if (wire->rank() == 0) fmt::print(stderr, "passed: {}\n", check.claim);
    }
  } else if (what == "describe") {
    fmt::print(stderr, "{} {} of {}: wire {} of {}, host {}, tags to {}, {}\n", launcher.name,
               launcher.rank, launcher.size, wire->rank(), wire->size(), wire->host(),
               wire->max_tag(), support.version);
  } else if (what == "shorter") {
    mismatch(*wire, 3);
  } else if (what == "longer") {
    mismatch(*wire, 5);
  } else if (what == "abort") {
    abort_launch(*wire);
  } else if (what.starts_with("bytes ")) {
    alpa::testing::pass_around(*wire, std::stoll(what.substr(6)));
  } else if (what == "unfinished") {
    wire->receive(wire->rank(), 1, nullptr, 0);
  }
  alpa::testing::leave(*wire);
}

}  // namespace

int main(int argc, char** argv) {
  int status = 1;
  const std::string what = argc > 1 ? argv[1] : "";
  std::thread progress([&] {
    try {
      run(what);
      status = 0;
    } catch (const alpa::Bug& bug) {
      fmt::print(stderr, "bug: {}\n", bug.what());
      std::fflush(stdout);
    } catch (const std::exception& error) {
      fmt::print(stderr, "failed: {}\n", error.what());
      std::fflush(stdout);
    }
  });
  progress.join();
  return status;
}
