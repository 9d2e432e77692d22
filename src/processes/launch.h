#pragma once
/// The launch that this process belongs to, if a launcher started several. Joined when the library
/// is first asked (`world()`), left when the program ends. Before that, what other processes than
/// rank 0 print is taken away or marked, by the launcher's environment alone.

namespace alpa::processes {

class World;

/// Null: the program runs alone. Throws Error if there is a launcher, but no MPI, or the wrong one.
World* world_of_process();

}  // namespace alpa::processes
