#pragma once
/// Failure of a launch of several processes: text and status.
#include <string>

namespace alpa::processes {

/// Exit status of a program that lost a process: a new try may succeed (EX_TEMPFAIL).
inline constexpr int kTryAgain = 75;

struct Failure {
  std::string text;
  int status = 2;  ///< exit status: 2 user's mistake, 3 bug, kTryAgain: a process was lost
  int rank = 0;    ///< that failed first, or was lost; -1: nobody knows
  bool names_ranks = false;  ///< the text does
};

}  // namespace alpa::processes
