// src/runtime/times_of_all.cc — collects the times of instructions from all processes
#include "src/runtime/times_of_all.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <string>

namespace alpa::runtime {
namespace {

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

}  // namespace

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

}  // namespace alpa::runtime
