#pragma once
/// The launcher of this process, its rank and the number of processes, by the environment alone:
/// before MPI is loaded, and without it.
#include <functional>
#include <string>

namespace alpa::processes {

struct Launcher {
  std::string name;  ///< "mpirun", "srun", "PMIx" or "PMI"; "" if nobody started several processes
  int rank = 0;
  int size = 1;  ///< 0: the launcher does not say

  bool launched() const { return !name.empty(); }
};

/// The value of a variable, or null.
using Environment = std::function<const char*(const char*)>;

/// With ALPA_LAUNCHER=none this process is by itself, whatever the other variables say. Of several
/// launchers, Open MPI's mpirun counts before PMIx (srun --mpi=pmix), and that before PMI (MPICH).
/// Throws Error for srun without PMIx, which would start single programs, and for values that are
/// no rank or size.
Launcher launcher_of(const Environment& environment);

/// The launcher of this process, by its environment.
Launcher launcher();

}  // namespace alpa::processes
