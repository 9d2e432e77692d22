#pragma once
/// What the system says of other processes of this host.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace alpa::processes {

/// Whether a process is stopped, by a signal or a debugger. False if nothing is known of it.
bool is_stopped(std::int64_t pid);

/// A descriptor that can be read once the process has ended; -1: there is none to be had.
int open_end_of(std::int64_t pid);

/// A process that this one's launcher started, too.
struct Sibling {
  std::int64_t pid = 0;
  int rank = 0;
  bool stopped = false;
  bool joins = false;  ///< has a thread called `kJoining`
};

/// Name of a thread of a process that waits for the others to join the launch.
inline constexpr const char* kJoining = "alpa joins";

/// Of this host, by rank; with this process. Those whose rank cannot be found are left out.
/// `of_wrappers`: of this launch, those that programs between it and them started, too; a rank may
/// then have several.
std::vector<Sibling> siblings(bool of_wrappers = false);

}  // namespace alpa::processes
