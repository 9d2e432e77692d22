// src/processes/launcher.cc — reads the variables that mpirun and srun set
#include "src/processes/launcher.h"

#include <charconv>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "alpa/base/error.h"
#include "alpa/base/text.h"

namespace alpa::processes {
namespace {

/// A number of at least `least`; nullopt without the variable.
std::optional<int> number_in(const Environment& environment, const char* name, int least) {
  const char* const value = environment(name);
  if (value == nullptr) return std::nullopt;
  const std::string_view text = value;
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  require(error == std::errc{} && end == text.data() + text.size() && number >= least,
          "{} is {}, which is no {}; set ALPA_LAUNCHER=none to ignore it", name,
          quoted(excerpt(text)), least == 0 ? "rank of a process" : "number of processes");
  return number;
}

Launcher checked(Launcher launcher) {
  require(launcher.size == 0 || launcher.rank < launcher.size,
          "{} says that this is process {} of {}, counted from 0; set ALPA_LAUNCHER=none to ignore "
          "it",
          launcher.name, launcher.rank, launcher.size);
  return launcher;
}

bool is_switched_off(const Environment& environment) {
  const char* const value = environment("ALPA_LAUNCHER");
  if (value == nullptr || *value == '\0') return false;
  require(std::string_view(value) == "none", "ALPA_LAUNCHER is {}; it may be none, or not be set",
          quoted(excerpt(value)));
  return true;
}

}  // namespace

Launcher launcher_of(const Environment& environment) {
  if (is_switched_off(environment)) return {};
  const auto rank_in = [&](const char* name) { return number_in(environment, name, 0); };
  const auto size_in = [&](const char* name) { return number_in(environment, name, 1); };

  if (const auto rank = rank_in("OMPI_COMM_WORLD_RANK"))
    return checked({"mpirun", *rank, size_in("OMPI_COMM_WORLD_SIZE").value_or(0)});

  const auto step_size = size_in("SLURM_STEP_NUM_TASKS");
  if (const auto rank = rank_in("PMIX_RANK")) {
    const auto size = step_size ? step_size : size_in("SLURM_NTASKS");
    return checked({size ? "srun" : "PMIx", *rank, size.value_or(0)});
  }
  if (const auto rank = rank_in("PMI_RANK"))
    return checked({"PMI", *rank, size_in("PMI_SIZE").value_or(0)});

  require(step_size.value_or(1) == 1,
          "srun started {} processes, which know nothing of each other: use `srun --mpi=pmix`, or "
          "set ALPA_LAUNCHER=none for {} separate runs",
          step_size.value_or(1), step_size.value_or(1));
  return {};
}

Launcher launcher() {
  return launcher_of([](const char* name) { return std::getenv(name); });
}

}  // namespace alpa::processes
