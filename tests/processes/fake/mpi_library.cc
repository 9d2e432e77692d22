// A libalpa_mpi.so without MPI. FAKE_INTERFACE is its interface. FAKE_VERSION is what it says of
// MPI, or "" if even that fails. It never starts, or with FAKE_BREAKS as a process of two whose
// messages all fail. On stderr it says when it ends the launch.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <stdexcept>

#include "src/processes/mpi_functions.h"
#include "src/processes/wire.h"

namespace {

using alpa::processes::MpiMessage;

void set(MpiMessage* message, const char* text) {
  std::snprintf(message->text, sizeof message->text, "%s", text);
}

void end_launch(int status) { dprintf(STDERR_FILENO, "the launch ends with %d\n", status); }

#ifdef FAKE_BREAKS
class BrokenWire final : public alpa::processes::Wire {
 public:
  int rank() const override { return std::atoi(std::getenv("OMPI_COMM_WORLD_RANK")); }
  int size() const override { return 2; }
  int host() const override { return 0; }
  int max_tag() const override { return 32767; }
  int send(int, int, const std::byte*, std::int64_t) override { throw std::runtime_error("cut"); }
  int receive(int, int, std::byte*, std::int64_t) override { return tickets_++; }
  int completed(std::span<int>) override { return 0; }
  void abort(int status) noexcept override { end_launch(status); }
  bool leave() override { return true; }

 private:
  int tickets_ = 0;
};
#endif

constexpr alpa::processes::MpiFunctions kFunctions = {
    .interface_version = FAKE_INTERFACE,
    .version =
        [](MpiMessage* version, MpiMessage* why) {
          set(version, FAKE_VERSION);
          set(why, "MPI_Get_library_version:\nit is tired");
          return *FAKE_VERSION == '\0' ? 1 : 0;
        },
    .make_wire = [](MpiMessage* why) -> alpa::processes::Wire* {
#ifdef FAKE_BREAKS
      return new BrokenWire;
#endif
      set(why, "MPI_Init_thread: no network");
      return nullptr;
    },
    .abort = end_launch,
};

}  // namespace

extern "C" const alpa::processes::MpiFunctions* alpa_mpi_functions() { return &kFunctions; }
