#pragma once
/// Output of the processes of a launch: rank 0 prints. What other ranks print on stdout is dropped,
/// since it is the same; lines that they print on stderr are marked "[rank 3 of 8, host n2]".

#include "src/processes/launcher.h"

namespace alpa::processes {

/// Divides the output of this process as above. Call it before anything is printed.
void divide_output(const Launcher& launcher);
/// All that was printed so far is out; later lines are not marked.
void flush_output();

}  // namespace alpa::processes
