#pragma once
/// The command that `alpa launch` starts: how many processes it asks for, on which hosts, and the
/// same for fewer.
#include <string>
#include <vector>

namespace launch {

/// A command line, and what is read from it.
struct Command {
  std::vector<std::string> words;
  int processes = 0;  ///< of -n, -np or --ntasks behind mpirun, mpiexec or srun; 0: none
};

/// Reads the number of processes.
Command command_of(std::vector<std::string> words);

/// The words with this number in place of the first. `{processes}` in a word becomes it, too.
std::vector<std::string> words_for(const Command& command, int processes);

/// What is left of the hosts that the command runs on.
struct Hosts {
  int left = 0,
      all = 0;       ///< slots where the command or a hostfile says them, else hosts; 0: unknown
  std::string text;  ///< in words; "" if none is gone
};

/// Looks for hosts that are gone, and leaves them out. In a job of Slurm, asks it, and corrects the
/// variables that srun and mpirun read. Otherwise asks `ssh` for those of mpirun's --host and
/// --hostfile, and changes these words.
Hosts leave_out_lost_hosts(Command& command);

}  // namespace launch
