#pragma once
/// How much of the host's memory this process may use, by Linux and the control groups (versions 1 and 2)
/// that it is in.
#include <cstdint>
#include <string>

namespace alpa {

/// All in bytes. Swap space does not count: what is computed on must be in memory.
struct HostMemory {
  std::int64_t total_bytes = 0;  ///< of the machine
  /// What the process may ever use: the machine's, or the least limit of a control group it is in, at any
  /// level. The same as long as nobody changes a limit.
  std::int64_t limit_bytes = 0;
  /// What could be allocated now: what the machine or the fullest of those groups has left, counting the
  /// files it caches as free. Changes all the time.
  std::int64_t available_bytes = 0;
  /// The control group that leaves no more than `available_bytes`, as a path below the mounted hierarchy
  /// ("/" at its root); "" if it is the machine.
  std::string group;
};

/// Reads files of /proc and of control groups, each below `root`. A file that is missing or holds something
/// else sets no limit.
HostMemory host_memory(const std::string& root = "");

}  // namespace alpa
