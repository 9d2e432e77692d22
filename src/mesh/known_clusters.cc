// src/mesh/known_clusters.cc — clusters by name, and of more hosts
#include "known_clusters.h"

#include <fmt/ranges.h>

#include <filesystem>
#include <system_error>

#include "alpa/base/error.h"
#include "alpa/base/text.h"

namespace alpa {
namespace {

constexpr std::string_view kLocal = "local";
constexpr int kMostHosts = 65536;

const KnownCluster* find_known(const std::string& name) {
  for (const KnownCluster& known : known_clusters())
    if (known.name == name) return &known;
  return nullptr;
}

bool is_known(const std::string& name) { return name == kLocal || find_known(name) != nullptr; }

}  // namespace

std::vector<std::string> Cluster::names() {
  std::vector<std::string> names;
  for (const KnownCluster& known : known_clusters()) names.emplace_back(known.name);
  names.emplace_back(kLocal);
  return names;
}

Cluster Cluster::named(const std::string& name, int hosts) {
  require(is_known(name), "cluster \"{}\" is unknown; known by name are {}", excerpt(name),
          fmt::join(names(), ", "));
  const KnownCluster* const known = find_known(name);
  const Cluster one = known ? from_json(std::string(known->json), name) : local();
  return one.with_hosts(hosts);
}

Cluster Cluster::find(const std::string& name_or_path, int hosts) {
  if (is_known(name_or_path)) return named(name_or_path, hosts);
  std::error_code unreadable;  // `from_file` says why
  require(std::filesystem::exists(name_or_path, unreadable) || unreadable,
          "cluster \"{}\" is unknown: there is no such file, and known by name are {}",
          excerpt(name_or_path), fmt::join(names(), ", "));
  return from_file(name_or_path).with_hosts(hosts);
}

Cluster Cluster::with_hosts(int times) const {
  require(times >= 1, "a cluster of {} times its hosts; give at least 1", times);
  require(times <= kMostHosts / num_hosts, "a cluster of {} times {} hosts; there may be {} in all",
          times, num_hosts, kMostHosts);
  Cluster more = *this;
  more.num_hosts *= times;
  const bool joined = between_hosts != Link{} && !(num_hosts == 1 && between_hosts == within_host);
  if (more.num_hosts > 1 && num_hosts == 1 && !joined) more.between_hosts = kEthernet;
  return more;
}

}  // namespace alpa
