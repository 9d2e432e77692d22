#pragma once
/// Hooks by which a launch of several processes changes this module, which knows nothing of
/// processes.

namespace alpa {

struct LaunchHooks {
  /// True if this process writes files, of which a launch needs one copy; null: it does.
  bool (*writes_files)() = nullptr;
  /// Processes that share the cores of this one, itself included.
  int sharing_cores = 1;
  /// A program is about to end with a message and a status, which may be changed. True: the message
  /// is not to be printed here. Null: it is.
  bool (*program_fails)(const char* name, const char* message, int& status) = nullptr;
  /// Handler of signals that end a process of a launch, where a program would have the system's;
  /// null: there is none.
  void (*ends_by_signal)(int signal) = nullptr;
};

/// Set before other threads start.
LaunchHooks& launch_hooks();

/// True in the one process of a launch that writes files.
inline bool writes_files() {
  const auto writes = launch_hooks().writes_files;
  return !writes || writes();
}

}  // namespace alpa
