// src/runtime/measured_traffic.cc — counts calls and bytes of the busiest device
#include "src/runtime/measured_traffic.h"

#include <algorithm>

namespace alpa::runtime {
namespace {

std::map<std::string, Traffic> traffic_of(const Devices& devices, int device) {
  std::map<std::string, Traffic> own;
  const auto add = [&](const std::string& name, const comm::Count& count, double bytes) {
    if (count.calls == 0) return;
    own[name].count += count.calls;
    own[name].bytes += bytes;
  };
  for (const auto& [size, counts] : devices.counts(device)) {
    for (const CollectiveDef& def : kCollectives)
      add(std::string(def.name), counts[def.kind],
          cost::collective_sent_bytes(def.kind, static_cast<double>(counts[def.kind].payload_bytes),
                                      size));
    add("transfer", counts.sent, static_cast<double>(counts.sent.payload_bytes));
  }
  return own;
}

}  // namespace

std::map<std::string, Traffic> measured_traffic(const Devices& devices, int num_devices,
                                                processes::World* world) {
  std::map<std::string, Traffic> most;
  if (world)  // the same names in all processes
    for (const CollectiveDef& def : kCollectives) most[std::string(def.name)];
  if (world) most["transfer"];
  for (int device = 0; device < num_devices; ++device)
    for (const auto& [name, entry] : traffic_of(devices, device)) {
      most[name].count = std::max(most[name].count, entry.count);
      most[name].bytes = std::max(most[name].bytes, entry.bytes);
    }
  if (!world) return most;
  for (auto& [name, entry] : most) {
    entry.count = world->largest(entry.count);
    entry.bytes = world->largest(entry.bytes);
  }
  std::erase_if(most, [](const auto& entry) { return entry.second.count == 0; });
  return most;
}

}  // namespace alpa::runtime
