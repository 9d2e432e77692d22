#pragma once
/// Clusters by name: the files of clusters/ that are part of the library.
#include <span>
#include <string_view>

#include "alpa/mesh/cluster.h"

namespace alpa {

/// Between hosts, unless a cluster file says otherwise: TCP over 10 Gbit/s Ethernet.
inline constexpr Link kEthernet{30e-6, 1 / 1.1e9};

/// One host of a kind.
struct KnownCluster {
  std::string_view name;
  std::string_view json;  ///< a cluster file
};

/// Made by CMake of clusters/NAME.json, in the order of `ALPA_KNOWN_CLUSTERS`.
std::span<const KnownCluster> known_clusters();

}  // namespace alpa
