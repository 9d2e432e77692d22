// src/cuda/connections.cc — cards, groups and channels of devices, in one process or several
#include "connections.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <numeric>
#include <set>
#include <sstream>

#include "alpa/base/error.h"
#include "discovery.h"
#include "nccl_parent.h"

namespace alpa::cuda {
namespace {

/// The cards that this process sees, by ordinal, as one text.
std::string visible_cards() {
  std::string uuids;
  for (int ordinal = 0; ordinal < device_count(); ++ordinal) uuids += uuid(ordinal) + "\n";
  return uuids;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream lines(text);
  return {std::istream_iterator<std::string>(lines), {}};
}

/// Ordinals of as many cards as process `rank` has devices, which no earlier one of its host has.
/// `seen`: by all processes; `devices`: of them.
std::vector<int> cards_of_rank(const processes::World& world, const std::vector<std::string>& seen,
                               const std::vector<int>& devices, int rank) {
  std::map<int, std::set<std::string>> taken;  // by host
  std::vector<int> ordinals;
  for (int r = 0; r < world.size(); ++r) {
    const processes::Process& process = world.processes()[r];
    const std::vector<std::string> cards = lines_of(seen[r]);
    std::vector<int> own;
    for (int i = 0; i < static_cast<int>(cards.size()); ++i)
      if (static_cast<int>(own.size()) < devices[r] && taken[process.host].insert(cards[i]).second)
        own.push_back(i);
    require(static_cast<int>(own.size()) == devices[r],
            "{} has {} devices, but only {} of the {} cards that it sees are left by other "
            "processes of its host: NCCL needs a card for each; take fewer devices, or give every "
            "process cards of its own (srun --gpus-per-task, CUDA_VISIBLE_DEVICES)",
            to_string(process, world.size()), devices[r], own.size(), cards.size());
    if (r == rank) ordinals = own;
  }
  return ordinals;
}

}  // namespace

std::vector<int> cards_of_devices(int devices) {
  std::vector<int> ordinals(devices, 0);
  if (devices <= device_count()) std::iota(ordinals.begin(), ordinals.end(), 0);
  return ordinals;
}

std::vector<int> cards_of_launch(const runtime::Placement& placement,
                                 std::span<const lower::DeviceProgram> everyone) {
  processes::World& world = *placement.world();
  std::vector<int> devices(world.size());
  for (const lower::DeviceProgram& program : everyone) ++devices[placement.rank_of(program.device)];
  return cards_of_rank(world, world.all_gather(visible_cards()), devices, world.rank());
}

Connections::Connections(const LoadedDevices& devices, const runtime::Placement& placement,
                         std::span<const lower::DeviceProgram> everyone)
    : placement_(placement),
      still_well_(placement.world() ? [world = placement.world()] { world->require_alive(); }
                                    : StillWell()) {
  std::set<int> cards;
  std::vector<const lower::DeviceProgram*> all;
  for (const auto& device : devices) {
    ordinals_[device->program().device] = device->card().ordinal;
    cards.insert(device->card().ordinal);
    if (!placement_.world()) all.push_back(&device->program());
  }
  for (const lower::DeviceProgram& program : everyone) all.push_back(&program);
  if (placement_.world() || cards.size() > 1) join_all(all);
}

void Connections::join_all(std::span<const lower::DeviceProgram* const> all) {
  // NCCL connects when ranks join, not at a first collective: a host thread would wait there for
  // processes that may wait for messages of this one.
  ::setenv("NCCL_RUNTIME_CONNECT", "0", /*overwrite=*/0);
  std::map<int, int> rank_of;  // in the parent
  std::vector<NcclCard> here;
  for (const lower::DeviceProgram* program : all) {
    const int rank = static_cast<int>(rank_of.size());
    rank_of[program->device] = rank;
    if (const auto own = ordinals_.find(program->device); own != ordinals_.end())
      here.push_back({rank, own->second});
  }
  NcclParent parent(static_cast<int>(all.size()), parent_id(all[0]->device), here, still_well_);
  for (const Connection& connection : connections_of(all)) {
    if (std::set(connection.devices.begin(), connection.devices.end()).size() == 1) continue;
    std::vector<int> ranks;
    for (const int device : connection.devices) ranks.push_back(rank_of.at(device));
    add(connection, parent.split(ranks));
  }
}

/// Made by the process that has the device.
std::string Connections::parent_id(int first_device) const {
  const std::string own = placement_.here(first_device) ? make_nccl_id() : "";
  if (!placement_.world()) return own;
  return placement_.world()->all_gather(own).at(placement_.rank_of(first_device));
}

/// All groups and lanes, each once, in the same order in all processes.
std::vector<Connections::Connection> Connections::connections_of(
    std::span<const lower::DeviceProgram* const> all) {
  using Kind = lower::Instruction::Kind;
  std::map<std::pair<bool, std::vector<int>>, bool> groups;  // value: whether in pairs
  std::set<std::tuple<int, int, int>> lanes;
  for (const lower::DeviceProgram* program : all)
    for (const lower::InstructionList& list : program->lists)
      for (const lower::Instruction& instruction : list.instructions) {
        const Kind kind = instruction.kind;
        if (kind == Kind::collective || kind == Kind::start) {
          bool& pairs = groups[{kind == Kind::start, instruction.call.group}];
          pairs = pairs || pairwise(instruction.call.kind);
        }
        if (kind == Kind::send)
          lanes.emplace(program->device, instruction.message.peer, instruction.message.lane);
      }
  std::vector<Connection> connections;
  for (const auto& [group, pairs] : groups)
    connections.push_back({.devices = group.second, .overlapped = group.first, .pairs = pairs});
  for (const auto& [from, to, number] : lanes)
    connections.push_back({.devices = {from, to}, .is_lane = true, .number = number});
  return connections;
}

/// `ranks`: of its communicator, in this process.
void Connections::add(const Connection& connection, const std::vector<NcclRank>& ranks) {
  const std::vector<int>& devices = connection.devices;
  const auto size = static_cast<int>(devices.size());
  if (ranks.empty()) return;
  if (connection.is_lane || connection.pairs) connect_pairs(size, ranks, still_well_);
  if (connection.is_lane)
    channels_[{devices[0], devices[1], connection.number}] = make_nccl_channel(ranks, still_well_);
  else
    for (const NcclRank& rank : ranks)
      groups_[connection.overlapped][{devices, rank.ordinal}] =
          make_nccl_group(size, {rank}, still_well_);
}

std::unique_ptr<CollectiveGroup> Connections::group(const std::vector<int>& devices,
                                                    bool overlapped, int ordinal) {
  const auto joined = groups_[overlapped].find({devices, ordinal});
  if (joined != groups_[overlapped].end()) return std::move(joined->second);
  return make_copy_group(static_cast<int>(devices.size()));
}

std::unique_ptr<Channel> Connections::channel(int from, int to, int number) {
  const auto joined = channels_.find({from, to, number});
  return joined != channels_.end() ? std::move(joined->second) : make_copy_channel();
}

}  // namespace alpa::cuda
