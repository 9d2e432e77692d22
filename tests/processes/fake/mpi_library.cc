// A libalpa_mpi.so without MPI. FAKE_INTERFACE is its interface. FAKE_VERSION is what it says of
// MPI, or "" if even that fails. It never starts.
#include <cstdio>

#include "src/processes/mpi_functions.h"

namespace {

using alpa::processes::MpiMessage;

void set(MpiMessage* message, const char* text) {
  std::snprintf(message->text, sizeof message->text, "%s", text);
}

constexpr alpa::processes::MpiFunctions kFunctions = {
    .interface_version = FAKE_INTERFACE,
    .version =
        [](MpiMessage* version, MpiMessage* why) {
          set(version, FAKE_VERSION);
          set(why, "MPI_Get_library_version:\nit is tired");
          return *FAKE_VERSION == '\0' ? 1 : 0;
        },
    .make_wire = [](MpiMessage* why) -> alpa::processes::Wire* {
      set(why, "MPI_Init_thread: no network");
      return nullptr;
    },
    .abort = [](int) {},
};

}  // namespace

extern "C" const alpa::processes::MpiFunctions* alpa_mpi_functions() { return &kFunctions; }
