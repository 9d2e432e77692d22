#pragma once
/// Runs programs of this build as several processes, by Open MPI's mpirun.
#include <filesystem>
#include <string>
#include <vector>

#include "support/program.h"

namespace alpa::testing {

/// Why no program of this build can run under mpirun here, in one line; "" if it can.
inline std::string no_mpirun() {
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe");
  if (!exists(self.parent_path() / "libalpa_mpi.so")) return "this build has no MPI";
  if (run_shell("command -v mpirun").status != 0) return "this machine has no mpirun";
  if (run_shell("mpirun --version").text.find("Open MPI") == std::string::npos)
    return "this machine's mpirun is not Open MPI's";
  return "";
}

/// With which mpirun starts programs on as few cores and as whichever user.
inline std::string mpirun_variables() {
  return "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
         "OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_btl_vader_single_copy_mechanism=none";
}

/// The shell's words that start `program` as so many processes, on as few cores and as whichever
/// user: `options` are mpirun's. Nothing is read from stdin. They end after `most_seconds`, with
/// status 124.
inline std::string mpirun_command(int processes, const std::string& program,
                                  const std::vector<std::string>& arguments,
                                  const std::vector<std::string>& options = {},
                                  int most_seconds = 100) {
  std::string command = mpirun_variables() + " timeout -k 5 " + std::to_string(most_seconds) +
                        " mpirun -n " + std::to_string(processes);
  for (const std::string& option : options) command += " " + quoted(option);
  command += " " + quoted(program);
  for (const std::string& argument : arguments) command += " " + quoted(argument);
  return command + " </dev/null";
}

/// `text` is that of all processes and of mpirun, in any order; `status` is mpirun's.
inline ProgramOutput run_under_mpirun(int processes, const std::string& program,
                                      const std::vector<std::string>& arguments,
                                      const std::vector<std::string>& options = {},
                                      int most_seconds = 100) {
  return run_shell(mpirun_command(processes, program, arguments, options, most_seconds));
}

}  // namespace alpa::testing
