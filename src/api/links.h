#pragma once
/// Links between devices, from the seconds of all-reduces.
#include <utility>
#include <vector>

#include "alpa/mesh/cluster.h"
#include "src/processes/world.h"

namespace alpa {

/// Bytes and seconds of an all-reduce.
using AllReduces = std::vector<std::pair<double, double>>;

/// α and β of the link among `members` devices that come closest to `measured`: the least squares
/// of relative errors, neither of them negative.
Link fitted_link(int members, const AllReduces& measured);

/// Collective: sets the links of `cluster`, whose devices are spread over the processes of `world`.
/// All devices work at once: first the groups of each host's devices, then groups of one device of
/// every host. Takes about so many seconds each. One host: between hosts is as within one.
void measure_links(processes::World& world, Cluster& cluster, double seconds);

}  // namespace alpa
