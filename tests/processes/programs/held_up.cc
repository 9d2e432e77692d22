// Rank 1 is stopped, and rank 2 then hangs inside MPI, as where the former was stopped in the
// middle of a message to it. tests/processes/held_up_test.cc starts it under mpirun.
#include <fmt/core.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>

#include "src/processes/mpi_library.h"
#include "src/processes/world.h"

namespace {

using namespace alpa::processes;

/// Whether every call of the wire that looks for messages takes for good.
std::atomic<bool> hangs{false};

/// Messages by another wire, until it hangs.
class HangingWire final : public Wire {
 public:
  explicit HangingWire(std::unique_ptr<Wire> wire) : wire_(std::move(wire)) {}
  int rank() const override { return wire_->rank(); }
  int size() const override { return wire_->size(); }
  int host() const override { return wire_->host(); }
  int max_tag() const override { return wire_->max_tag(); }
  int send(int peer, int tag, const std::byte* data, std::int64_t bytes) override {
    return wire_->send(peer, tag, data, bytes);
  }
  int receive(int peer, int tag, std::byte* data, std::int64_t bytes) override {
    return wire_->receive(peer, tag, data, bytes);
  }
  int completed(std::span<int> tickets) override {
    while (hangs) ::usleep(1000);
    return wire_->completed(tickets);
  }
  void abort(int status) noexcept override { wire_->abort(status); }
  bool leave() override { return wire_->leave(); }

 private:
  const std::unique_ptr<Wire> wire_;
};

}  // namespace

int main() {
  const Launcher by = launcher();
  World world([&] { return std::make_unique<HangingWire>(mpi_wire(by, mpi_support())); },
              {.silence = std::chrono::milliseconds(1000), .announce = [](const Failure& failure) {
                 fmt::print(stderr, "{}\n", failure.text);
               }});
  world.all_gather("all have joined");
  if (world.rank() == 1) std::raise(SIGSTOP);
  if (world.rank() == 2) hangs = true;
  while (!world.protocol().failed()) ::usleep(1000);
  ::usleep(200'000);  // the launcher reads what was said
  world.protocol().end_all();
  ::sleep(100);  // until then
}
