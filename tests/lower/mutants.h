#pragma once
/// Device programs with one mistake each, which the checker must refuse.
#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <vector>

#include "alpa/base/error.h"
#include "src/lower/device_program.h"

namespace alpa::testing {

using Devices = std::vector<lower::DeviceProgram>;

struct Mutant {
  std::string kind;
  std::function<void(Devices&)> change;
  std::string rejected;  ///< after "schedules: "
};

inline void check_rejected(const std::vector<Mutant>& mutants, const Devices& devices,
                           const spmd::SpmdProgram& program) {
  for (const Mutant& mutant : mutants) {
    CAPTURE(mutant.kind);
    Devices changed = devices;
    mutant.change(changed);
    std::string rejected;
    try {
      lower::verify_schedules(changed, program);
    } catch (const Bug& bug) {
      rejected = bug.what();
    }
    CHECK(rejected == "schedules: " + mutant.rejected);
  }
}

}  // namespace alpa::testing
