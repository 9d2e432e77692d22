// src/runtime/held_parts.cc — finds, reads and writes the parts of tensors that devices hold
#include "src/runtime/held_parts.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "src/base/checksum.h"
#include "src/base/thread_team.h"
#include "src/tensor/box_copy.h"

namespace alpa::runtime {
namespace {

/// Copies within host memory, made together by several threads.
class HostCopies {
 public:
  void add(const std::byte* from, std::byte* to, std::int64_t bytes) {
    for (std::int64_t at = 0; at < bytes; at += kPieceBytes)
      pieces_.push_back({from + at, to + at, std::min(kPieceBytes, bytes - at)});
  }
  void run() const {
    ThreadTeam team(std::min<int>(usable_cores(), std::max<int>(1, std::ssize(pieces_))));
    team.for_each(std::ssize(pieces_), 1, [&](std::int64_t i) {
      std::memcpy(pieces_[i].to, pieces_[i].from, static_cast<std::size_t>(pieces_[i].bytes));
    });
  }

 private:
  static constexpr std::int64_t kPieceBytes = 1 << 22;
  struct Piece {
    const std::byte* from;
    std::byte* to;
    std::int64_t bytes;
  };
  std::vector<Piece> pieces_;
};

}  // namespace

std::vector<HeldPart> parts_of(int value, const Programs& programs) {
  std::vector<HeldPart> parts;
  for (int d = 0; d < static_cast<int>(programs.size()); ++d) {
    const int held = programs[d]->buffer_of_value[value];
    if (held < 0) continue;
    const lower::Buffer& buffer = programs[d]->buffers[held];
    const auto same = std::find_if(parts.begin(), parts.end(), [&](const HeldPart& part) {
      const lower::Buffer& other = programs[part.device]->buffers[part.buffer];
      return other.offset == buffer.offset && other.type == buffer.type;
    });
    parts.push_back({d, held, same != parts.end() ? same->owner : d});
  }
  return parts;
}

KernelTensor part_in(std::vector<std::byte>& host, const HeldPart& part, const Programs& programs) {
  const lower::Buffer& buffer = programs[part.device]->buffers[part.buffer];
  host.resize(buffer.type.bytes());
  return {host.data(), buffer.type, buffer.offset, buffer.global_shape};
}

void write_parts(const Array& whole, const std::vector<HeldPart>& parts, const Programs& programs,
                 DevicesHere here, Devices& devices, DeviceMemory& memory) {
  std::vector<std::byte> host;
  for (const HeldPart& held : parts) {
    if (!here.has(held.device)) continue;
    const KernelTensor part = part_in(host, held, programs);
    const Shape origin(part.offset.size(), 0);
    BoxCopy::make(part.global_shape, part.offset, part.type.shape, origin, part.type.shape)
        .copy(whole.data(), part.data, size_of(part.type.dtype));
    devices.write(memory, held.device - here.first, held.buffer, part.data);
  }
}

DevicesHere devices_here(const Programs& programs, const Placement& placement) {
  DevicesHere here;
  for (int d = static_cast<int>(programs.size()); d-- > 0;)
    if (placement.here(programs[d]->device)) here = {d, here.count + 1};
  return here;
}

namespace {

/// Lays the boxes out in a snapshot, one behind the other.
void place_boxes(std::vector<StateBox>& boxes) {
  std::int64_t end = 0;
  for (StateBox& box : boxes) box.offset = std::exchange(end, end + box.type.bytes());
}

}  // namespace

std::vector<StateBox> boxes_of(const Directory& directory, const Programs& programs,
                               const Placement& placement) {
  const DevicesHere here = devices_here(programs, placement);
  std::vector<StateBox> boxes;
  for (const auto& [name, parts] : directory)
    for (const HeldPart& part : parts) {
      if (part.owner != part.device) continue;
      const lower::Buffer& buffer = programs[part.device]->buffers[part.buffer];
      if (buffer.type.bytes() == 0) continue;
      StateBox& box = boxes.emplace_back(StateBox{name, buffer.type, buffer.offset});
      for (const HeldPart& same : parts) {
        if (same.owner != part.owner) continue;
        if (here.has(same.device)) box.holders.emplace_back(same.device - here.first, same.buffer);
        const int rank = placement.rank_of(programs[same.device]->device);
        if (std::find(box.ranks.begin(), box.ranks.end(), rank) == box.ranks.end())
          box.ranks.push_back(rank);
      }
      std::sort(box.ranks.begin(), box.ranks.end());
    }
  std::stable_sort(boxes.begin(), boxes.end(), [](const StateBox& a, const StateBox& b) {
    return size_of(a.type.dtype) > size_of(b.type.dtype);
  });
  place_boxes(boxes);
  return boxes;
}

std::vector<StateBox> held_here(std::vector<StateBox> boxes) {
  std::erase_if(boxes, [](const StateBox& box) { return box.holders.empty(); });
  place_boxes(boxes);
  return boxes;
}

namespace {

/// CRC-32 of what a device of this process holds.
std::uint32_t sum_of(const HeldPart& part, int index, const Programs& programs, Devices& devices,
                     const DeviceMemory& memory, std::vector<std::byte>& host) {
  const std::int64_t bytes = programs[part.device]->buffers[part.buffer].type.bytes();
  const std::byte* data = devices.host_address(memory, index, part.buffer);
  if (!data) {
    data = part_in(host, part, programs).data;
    devices.read(memory, index, part.buffer, 0, host.data());
  }
  return crc32({data, static_cast<std::size_t>(bytes)});
}

}  // namespace

void check_replicas(const Directory& directory, const Programs& programs,
                    const Placement& placement, Devices& devices, const DeviceMemory& memory,
                    std::int64_t steps) {
  const DevicesHere here = devices_here(programs, placement);
  std::vector<std::byte> host;
  std::vector<std::pair<const std::string*, HeldPart>> replicas;  // each behind its owner
  std::string sums;  // of `replicas`; 0 of other processes
  for (const auto& [name, parts] : directory)
    for (const HeldPart& part : parts) {
      const auto is_same = [&](const HeldPart& other) { return other.owner == part.owner; };
      if (std::ranges::count_if(parts, is_same) == 1) continue;
      replicas.emplace_back(&name, part);
      const std::uint32_t sum = here.has(part.device) ? sum_of(part, part.device - here.first,
                                                               programs, devices, memory, host)
                                                      : 0;
      sums.append(reinterpret_cast<const char*>(&sum), sizeof sum);
    }
  processes::World* const world = placement.world();
  const std::vector<std::string> all = world ? world->all_gather(sums) : std::vector{sums};
  std::map<std::pair<const std::string*, int>, std::pair<int, std::uint32_t>> owners;
  const auto place = [&](int device) {
    const int number = programs[device]->device;
    return world ? fmt::format("device {} (rank {})", number, placement.rank_of(number))
                 : fmt::format("device {}", number);
  };
  for (std::size_t i = 0; i < replicas.size(); ++i) {
    const auto& [name, part] = replicas[i];
    std::uint32_t sum = 0;
    const int rank = placement.rank_of(programs[part.device]->device);
    std::memcpy(&sum, all[rank].data() + i * sizeof sum, sizeof sum);
    const auto [owner, first] = owners.try_emplace({name, part.owner}, part.device, sum);
    require(
        first || owner->second.second == sum,
        "replicas of the state differ after step {}: \"{}\" has CRC-32 {:08x} on {}, but {:08x} "
        "on {}; look for a device whose memory or arithmetic fails, and resume from the "
        "checkpoint before",
        steps, *name, owner->second.second, place(owner->second.first), sum, place(part.device));
  }
}

std::int64_t snapshot_bytes(const std::vector<StateBox>& boxes) {
  return boxes.empty() ? 0 : boxes.back().offset + boxes.back().type.bytes();
}

void read_boxes(const std::vector<StateBox>& boxes, Devices& devices, const DeviceMemory& memory,
                std::byte* snapshot) {
  HostCopies copies;
  for (const StateBox& box : boxes) {
    const auto& [device, buffer] = box.holders.front();
    if (const std::byte* from = devices.host_address(memory, device, buffer))
      copies.add(from, snapshot + box.offset, box.type.bytes());
    else
      devices.read(memory, device, buffer, 0, snapshot + box.offset);
  }
  copies.run();
}

void write_boxes(const std::vector<StateBox>& boxes, Devices& devices, DeviceMemory& memory,
                 const std::byte* snapshot) {
  HostCopies copies;
  for (const StateBox& box : boxes)
    for (const auto& [device, buffer] : box.holders) {
      if (std::byte* to = devices.host_address(memory, device, buffer))
        copies.add(snapshot + box.offset, to, box.type.bytes());
      else
        devices.write(memory, device, buffer, snapshot + box.offset);
    }
  copies.run();
}

}  // namespace alpa::runtime
