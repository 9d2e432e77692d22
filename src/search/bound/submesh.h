#pragma once
/// Parts of a cluster that stages run on: which shapes there are, and which devices a list of them
/// gets. Pure functions, safe to call from several threads.
#include <string>
#include <vector>

#include "alpa/base/text.h"

namespace alpa::inter_op {

/// `devices` neighbouring devices of one host, or all devices of `hosts` hosts. Also the shape of
/// a whole cluster.
struct Submesh {
  int hosts = 1, devices = 1;  ///< devices per host
  bool operator==(const Submesh&) const = default;
  int num_devices() const { return hosts * devices; }
};

/// "2x8": hosts, then devices of each.
std::string to_string(const Submesh& submesh);

/// Which submeshes stages may have. All but any_size are those of Alpa, which need a power of two
/// of devices per host: parts of 1, 2, 4, … devices, and whole hosts.
enum class SubmeshSpace {
  /// Parts of every size; above 64 only 72, 80, …, 128, 144, …: numbers with four significant
  /// binary digits. Of whole hosts 1 to 8, 12, 16, 24, …, and nothing below a 1,024th of the
  /// cluster: large clusters have a few dozen parts.
  any_size,
  all,           ///< any number of whole hosts
  power_of_two,  ///< 1, 2, 4, … hosts
};

/// Submeshes of `cluster`: parts of a host by ascending size, one host, several hosts. Throws Error
/// if the space needs a power of two of devices per host and there is another number.
std::vector<Submesh> submesh_choices(const Submesh& cluster, SubmeshSpace space);

/// Device ids per submesh (host × devices per host + device), ascending. Whole hosts come first,
/// the largest submesh first; then hosts are filled one after the other, the largest part first;
/// of equal ones the last of the list first (Alpa's order). Where filling this way leaves gaps,
/// other parts are tried until the submeshes tile the cluster. Throws Error if they cannot.
std::vector<std::vector<int>> place(const Submesh& cluster, const std::vector<Submesh>& submeshes);

/// The same in the order of the list, if that makes parts of hosts and whole hosts.
std::vector<std::vector<int>> place_in_order(const Submesh& cluster,
                                             const std::vector<Submesh>& submeshes);

}  // namespace alpa::inter_op

template <>
struct fmt::formatter<alpa::inter_op::Submesh> : alpa::TextFormatter<alpa::inter_op::Submesh> {};
