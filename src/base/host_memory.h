#pragma once
/// How much host memory this process may use, according to Linux and the process's control
/// groups (versions 1 and 2).
#include <cstdint>
#include <string>

namespace alpa {

/// All sizes in bytes, without swap space.
struct HostMemory {
  std::int64_t total_bytes = 0;  ///< of the machine
  /// The most the process may ever use: the machine's memory, or the lowest limit of its control
  /// groups, at any level. Constant unless a limit is changed.
  std::int64_t limit_bytes = 0;
  /// Bytes that could be allocated now: the rest of the machine's memory or of the fullest of those
  /// groups, cached files counted as free. Changes all the time.
  std::int64_t available_bytes = 0;
  /// The control group that limits `available_bytes`, as a path below the mounted hierarchy ("/" at
  /// its root); "" if the machine does.
  std::string group;
};

/// Reads files of /proc and of control groups, each below `root`. A missing or
/// malformed file sets no limit.
HostMemory host_memory(const std::string& root = "");

}  // namespace alpa
