#pragma once
/// SIGTERM and SIGINT as a request to save and end.
#include <csignal>

namespace alpa::checkpoint {

/// While one lives, the first SIGTERM or SIGINT is noted instead of ending the program; a second
/// one ends it. A signal that the program handles itself, or ignores, stays as it is. At most one
/// active one may live at a time. In a launch all processes learn of it (Protocol::stop_requested).
class StopSignals {
 public:
  explicit StopSignals(bool active);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  int caught() const;  ///< its number; 0: none came
  /// Ends the program as a shell reports a signal: with status 128 + its number. Output that is
  /// still buffered is written; destructors do not run.
  [[noreturn]] static void exit_for(int signal);

 private:
  bool active_;
};

}  // namespace alpa::checkpoint
