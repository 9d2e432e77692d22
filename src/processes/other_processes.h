#pragma once
/// Other processes of this host, as the operating system reports them.
#include <cstdint>
#include <vector>

namespace alpa::processes {

/// True if a process is stopped, by a signal or a debugger. False if nothing is known of it.
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

/// Processes of this launch on this host, by rank, this process included. Processes whose rank
/// cannot be found are left out. `of_wrappers`: also those that were started by programs between
/// the launcher and them; a rank may then have several.
std::vector<Sibling> siblings(bool of_wrappers = false);

}  // namespace alpa::processes
