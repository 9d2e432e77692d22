#pragma once
/// The interface of libalpa_mpi.so: plain function pointers, except for the wire, whose type is the
/// core's: both must come from one build. Every function returns 0 (or an object), or something
/// else (or null) and a message of one line; none throws.
#include <cstdint>

namespace alpa::processes {

class Wire;

/// Changes with every change of wire.h or of the structs below; the loader refuses a library of
/// another one.
inline constexpr std::int32_t kMpiInterface = 3;

struct MpiMessage {
  char text[1024];
};

struct MpiFunctions {
  std::int32_t interface_version;  ///< `kMpiInterface`
  /// The first line of what MPI says of itself; before `make_wire`, too.
  int (*version)(MpiMessage* version, MpiMessage* why);
  /// Starts MPI, once per process: collective, and returns when all processes have called. The
  /// caller owns the result.
  Wire* (*make_wire)(MpiMessage* why);
  /// Ends all processes of the launch with this exit status, while another thread waits in
  /// `make_wire`, too. Returns if it can't.
  void (*abort)(int status);
};

/// The library's one entry: `extern "C" const MpiFunctions* alpa_mpi_functions()`.
inline constexpr const char* kMpiEntry = "alpa_mpi_functions";

}  // namespace alpa::processes
