#pragma once
/// Handles SIGINT during planning.
#include <alpa/alpa.h>

#include <string>

namespace programs {

inline constexpr int kInterruptedStatus = 130;  ///< as of a program that SIGINT ended

/// While one lives, the first SIGINT ends planning early with the best plan so far; a second one
/// ends the program, as always. Inactive ones, and those whose program was started with SIGINT
/// ignored, change nothing. At most one active one may live at a time.
class PlanningInterrupt {
 public:
  explicit PlanningInterrupt(bool active);
  ~PlanningInterrupt();
  PlanningInterrupt(const PlanningInterrupt&) = delete;
  PlanningInterrupt& operator=(const PlanningInterrupt&) = delete;

  bool came() const;  ///< SIGINT did
  /// `method` with planning ended by SIGINT.
  alpa::Method ending(alpa::Method method) const;

  /// If SIGINT came: saves the plan to `path`, says so in a line and ends
  /// the program with that status.
  void exit_with(const alpa::CompiledStep& planned, const std::string& path) const;

 private:
  bool active_;
};

}  // namespace programs
