// src/runtime/step_of_all.cc — collects metrics, times and traffic of a step from all processes
#include "src/runtime/step_of_all.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "alpa/base/error.h"
#include "src/plan/cost/collective.h"

namespace alpa::runtime {
namespace {

// ---- metrics

int first_reporting(int metric, const Programs& programs) {
  for (const lower::DeviceProgram* program : programs)
    for (const lower::Reported& reported : program->reported)
      if (reported.metric == metric) return program->device;
  bug("no device reports metric {}", metric);
}

constexpr int kSignals = 256, kFailed = kSignals, kDue = 2 * kSignals;

/// A view as a number among metrics.
double number_of(const Background::View& view) {
  return view.signal + (view.failed ? kFailed : 0) + (view.due ? kDue : 0);
}

Background::View view_of(double number) {
  const int bits = static_cast<int>(number);
  return {bits % kSignals, (bits & kFailed) != 0, (bits & kDue) != 0};
}

// ---- times

/// A TimedInstruction in the bytes that processes exchange: its instruction by list and index.
struct Packed {
  std::int32_t list = 0, index = 0, micro_batch = 0, unused = 0;
  std::int64_t begin = 0, end = 0;
};

Packed pack(const TimedInstruction& timed, const lower::DeviceProgram& device) {
  for (std::size_t list = 0; list < device.lists.size(); ++list) {
    const auto& instructions = device.lists[list].instructions;
    if (instructions.empty() || timed.instruction < &instructions.front() ||
        timed.instruction > &instructions.back())
      continue;
    return {static_cast<std::int32_t>(list),
            static_cast<std::int32_t>(timed.instruction - &instructions.front()),
            timed.micro_batch,
            0,
            timed.begin,
            timed.end};
  }
  bug("times of an instruction that device {} does not have", device.device);
}

template <class T>
void append(std::string& bytes, const T& value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

template <class T>
T take(const std::string& bytes, std::size_t& at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  at += sizeof value;
  return value;
}

std::string packed(const std::vector<TimedInstruction>& times, const lower::DeviceProgram& device) {
  std::string bytes;
  append(bytes, static_cast<std::int64_t>(times.size()));
  for (const TimedInstruction& timed : times) append(bytes, pack(timed, device));
  return bytes;
}

std::vector<TimedInstruction> unpacked(const std::string& bytes, std::size_t& at,
                                       const lower::DeviceProgram& device) {
  std::vector<TimedInstruction> times(take<std::int64_t>(bytes, at));
  for (TimedInstruction& timed : times) {
    const auto from = take<Packed>(bytes, at);
    timed = {&device.lists[from.list].instructions[from.index], from.micro_batch, from.begin,
             from.end};
  }
  return times;
}

std::int64_t first_begin(const std::vector<DeviceTimes>& times) {
  std::int64_t first = std::numeric_limits<std::int64_t>::max();
  for (const DeviceTimes& device : times)
    if (!device.own.empty()) first = std::min(first, device.own.front().begin);
  return first;
}

void shift(std::vector<TimedInstruction>& times, std::int64_t by) {
  for (TimedInstruction& timed : times) timed.begin += by, timed.end += by;
}

// ---- traffic

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

void share_metrics(std::vector<double>& values, const Programs& programs,
                   const Placement& placement,
                   const std::vector<std::shared_ptr<Background>>& background) {
  std::map<int, std::vector<int>> of_rank;
  if (!background.empty()) of_rank[0] = {};
  for (int metric = 0; metric < static_cast<int>(values.size()); ++metric)
    of_rank[placement.rank_of(first_reporting(metric, programs))].push_back(metric);
  for (const auto& [rank, metrics] : of_rank) {
    std::vector<double> told;
    for (const int metric : metrics) told.push_back(values[metric]);
    const std::size_t views = rank == 0 ? background.size() : 0;
    for (std::size_t i = 0; i < views; ++i) {
      Background::View view = background[i]->look();
      view.signal = placement.world()->protocol().stop_requested();
      told.push_back(number_of(view));
    }
    placement.world()->broadcast(reinterpret_cast<std::byte*>(told.data()),
                                 static_cast<std::int64_t>(told.size() * sizeof(double)), rank);
    for (std::size_t i = 0; i < metrics.size(); ++i) values[metrics[i]] = told[i];
    for (std::size_t i = 0; i < views; ++i) background[i]->agree(view_of(told[metrics.size() + i]));
  }
}

void check_finite(const std::map<std::string, double>& values, std::int64_t step) {
  for (const auto& [name, value] : values)
    require(std::isfinite(value),
            "metric \"{}\" is {} in step {}; lower the learning rate, clip gradients, "
            "or look for a division by zero or log of 0",
            name, std::isnan(value) ? std::abs(value) : value, step);
}

std::vector<DeviceTimes> times_of_all(const Devices& devices, DevicesHere here,
                                      const Programs& programs, processes::World& world) {
  std::string own;
  for (int i = 0; i < here.count; ++i) {
    const DeviceTimes times = devices.times(i);
    own += packed(times.own, devices.program(i));
    own += packed(times.beside, devices.program(i));
    append(own, times.free_before), append(own, times.free_behind);
  }
  std::map<int, std::vector<DeviceTimes>> of_host;
  std::map<int, std::vector<std::size_t>> places;
  std::size_t next = 0;
  const std::vector<int> ranks = world.ranks_of_devices(static_cast<int>(programs.size()));
  std::vector<std::string> all = world.all_gather(own);
  std::vector<std::size_t> at(all.size());
  for (; next < programs.size(); ++next) {
    const int rank = ranks[next];
    const int host = world.processes()[rank].host;
    DeviceTimes times;
    times.own = unpacked(all[rank], at[rank], *programs[next]);
    times.beside = unpacked(all[rank], at[rank], *programs[next]);
    times.free_before = take<std::int64_t>(all[rank], at[rank]);
    times.free_behind = take<std::int64_t>(all[rank], at[rank]);
    of_host[host].push_back(std::move(times));
    places[host].push_back(next);
  }
  std::vector<DeviceTimes> result(programs.size());
  const std::int64_t begin = first_begin(of_host.begin()->second);
  for (auto& [host, times] : of_host) {
    const std::int64_t by = begin - first_begin(times);
    for (std::size_t i = 0; i < times.size(); ++i) {
      shift(times[i].own, by);
      shift(times[i].beside, by);
      result[places[host][i]] = std::move(times[i]);
    }
  }
  return result;
}

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
