#pragma once
/// One command of `alpa launch`: watched until its end, which takes all that it left with it.
#include <string>
#include <vector>

namespace launch {

/// How a command ended.
struct Ending {
  int status = 0;      ///< of exit; 128 + the signal that ended it
  double seconds = 0;  ///< that it ran
  int passed_on = 0;   ///< the last signal that this program got and passed on; 0: none
};

/// Runs the command in a process group of its own, so that it gets SIGINT, SIGTERM, SIGHUP and
/// SIGQUIT once: from here, when this program gets them. Returns when neither it nor a process that
/// it started on this machine is left: what outlives it has two seconds, and is killed then. It
/// gets SIGTERM if this program is killed. Throws Error if the command does not start.
Ending run_supervised(const std::vector<std::string>& words);

}  // namespace launch
