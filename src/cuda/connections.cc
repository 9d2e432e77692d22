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
#include "staged.h"

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

/// Whether all processes of `host` see one same card and no other, and have several devices.
bool all_share_card(const processes::World& world, const std::vector<std::string>& seen,
                    const std::vector<int>& devices, int host) {
  std::set<std::string> cards;
  int count = 0;
  for (int r = 0; r < world.size(); ++r) {
    if (world.processes()[r].host != host) continue;
    const std::vector<std::string> own = lines_of(seen[r]);
    if (own.size() != 1) return false;
    cards.insert(own[0]);
    count += devices[r];
  }
  return cards.size() == 1 && count > 1;
}

/// Ordinals of as many cards as process `rank` has devices, which no earlier one of its host has,
/// or one card for all of its host. `seen`: by all processes; `devices`: of them.
LaunchCards cards_of_rank(const processes::World& world, const std::vector<std::string>& seen,
                          const std::vector<int>& devices, int rank) {
  std::map<int, std::set<std::string>> taken;  // by host
  LaunchCards result;
  for (int r = 0; r < world.size(); ++r) {
    const processes::Process& process = world.processes()[r];
    const std::vector<std::string> cards = lines_of(seen[r]);
    std::vector<int> own;
    if (all_share_card(world, seen, devices, process.host)) {
      result.shared = true;
      own.assign(devices[r], 0);
    }
    for (int i = 0; i < static_cast<int>(cards.size()); ++i)
      if (static_cast<int>(own.size()) < devices[r] && taken[process.host].insert(cards[i]).second)
        own.push_back(i);
    require(static_cast<int>(own.size()) == devices[r],
            "{} has {} devices, but only {} of the {} cards that it sees are left by other "
            "processes of its host: NCCL needs a card for each; take fewer devices, give every "
            "process cards of its own (srun --gpus-per-task, CUDA_VISIBLE_DEVICES), or leave one "
            "card visible to all of them, which they share (CUDA_VISIBLE_DEVICES=0)",
            to_string(process, world.size()), devices[r], own.size(), cards.size());
    if (r == rank) result.ordinals = own;
  }
  return result;
}

bool shares_card(const std::vector<NcclRank>& ranks) {
  return std::all_of(ranks.begin(), ranks.end(),
                     [&](const NcclRank& rank) { return rank.ordinal == ranks[0].ordinal; });
}

/// Groups that make all_to_all, and whether on communication streams.
std::set<std::pair<std::vector<int>, bool>> groups_in_pairs(
    std::span<const lower::DeviceProgram> programs) {
  using Kind = lower::Instruction::Kind;
  std::set<std::pair<std::vector<int>, bool>> groups;
  for (const lower::DeviceProgram& program : programs)
    for (const lower::InstructionList& list : program.lists)
      for (const lower::Instruction& instruction : list.instructions)
        if ((instruction.kind == Kind::collective || instruction.kind == Kind::start) &&
            instruction.call.kind == CollectiveKind::all_to_all)
          groups.emplace(instruction.call.group, instruction.kind == Kind::start);
  return groups;
}

}  // namespace

std::vector<int> cards_of_devices(int devices) {
  std::vector<int> ordinals(devices, 0);
  if (devices <= device_count()) std::iota(ordinals.begin(), ordinals.end(), 0);
  return ordinals;
}

LaunchCards cards_of_launch(const runtime::Placement& placement,
                            std::span<const lower::DeviceProgram> everyone) {
  processes::World& world = *placement.world();
  std::vector<int> devices(world.size());
  for (const lower::DeviceProgram& program : everyone) ++devices[placement.rank_of(program.device)];
  return cards_of_rank(world, world.all_gather(visible_cards()), devices, world.rank());
}

Connections::Connections(const LoadedDevices& devices, const runtime::Placement& placement,
                         std::span<const lower::DeviceProgram> everyone, bool staged)
    : placement_(placement),
      still_well_(placement.world() ? [world = placement.world()] { world->require_alive(); }
                                    : StillWell()) {
  for (const auto& device : devices) ordinals_[device->program().device] = device->card().ordinal;
  if (!placement_.world()) return;
  const std::vector<Shared> all = shared(everyone);
  if (!staged)
    join_all(all);
  else
    for (const Shared& one : all) stage(one);
}

void Connections::join_all(const std::vector<Shared>& all) {
  // NCCL connects when ranks join, not at a first collective: a host thread would wait there for
  // processes that may wait for messages of this one.
  ::setenv("NCCL_RUNTIME_CONNECT", "0", /*overwrite=*/0);
  const auto rank_of = [&](const Shared& one) { return placement_.rank_of(one.devices[0]); };
  std::string own;
  for (const Shared& one : all)
    if (rank_of(one) == placement_.rank()) own += make_nccl_id();
  std::vector<std::string> ids = placement_.world()->all_gather(own);
  for (const Shared& one : all) {
    std::string& rest = ids[rank_of(one)];
    const std::string id = rest.substr(0, kNcclIdBytes);
    rest.erase(0, kNcclIdBytes);
    join(one, id);
  }
}

std::vector<Connections::Shared> Connections::shared(
    std::span<const lower::DeviceProgram> everyone) const {
  const auto in_pairs = groups_in_pairs(everyone);
  std::vector<Shared> all;
  for (const bool overlapped : {false, true})
    for (const auto& [devices, tag] : placement_.groups(overlapped))
      if (spans_processes(devices))
        all.push_back({.devices = devices,
                       .overlapped = overlapped,
                       .pairs = in_pairs.contains({devices, overlapped})});
  for (const auto& [lane, tag] : placement_.lanes()) {
    const auto& [from, to, number] = lane;
    if (spans_processes({from, to}))
      all.push_back({.devices = {from, to}, .is_lane = true, .number = number});
  }
  return all;
}

/// Joins what devices of this process are members of.
void Connections::join(const Shared& shared, const std::string& id) {
  const std::vector<NcclRank> here = ranks_here(shared.devices);
  if (here.empty()) return;
  const int from = shared.devices[0], to = shared.devices[1];
  if (shared.is_lane)
    channels_[{from, to, shared.number}] =
        make_nccl_channel(id, ordinal_here(from), ordinal_here(to), still_well_);
  else
    groups_[shared.overlapped][shared.devices] = make_nccl_group(
        static_cast<int>(shared.devices.size()), id, here, still_well_, shared.pairs);
}

/// The same through host memory.
void Connections::stage(const Shared& shared) {
  const std::vector<int>& devices = shared.devices;
  if (ranks_here(devices).empty()) return;
  processes::World& world = *placement_.world();
  if (shared.is_lane) {
    const int from = devices[0], to = devices[1];
    const int peer = placement_.rank_of(placement_.here(from) ? to : from);
    channels_[{from, to, shared.number}] =
        make_staged_channel(world, peer, placement_.tag_of_lane(from, to, shared.number));
    return;
  }
  std::vector<int> ranks;
  for (const int device : devices) ranks.push_back(placement_.rank_of(device));
  groups_[shared.overlapped][devices] = make_staged_group(
      world, std::move(ranks), placement_.tag_of_group(devices, shared.overlapped));
}

std::unique_ptr<CollectiveGroup> Connections::group(const std::vector<int>& devices,
                                                    bool overlapped) {
  if (spans_processes(devices)) return std::move(groups_[overlapped].at(devices));
  const std::vector<NcclRank> ranks = ranks_here(devices);
  const auto size = static_cast<int>(devices.size());
  if (shares_card(ranks)) return make_copy_group(size);
  return make_nccl_group(size, make_nccl_id(), ranks);
}

std::unique_ptr<Channel> Connections::channel(int from, int to, int number) {
  if (spans_processes({from, to})) return std::move(channels_.at({from, to, number}));
  if (ordinal_here(from) == ordinal_here(to)) return make_copy_channel();
  return make_nccl_channel(make_nccl_id(), ordinal_here(from), ordinal_here(to));
}

std::optional<int> Connections::ordinal_here(int device) const {
  const auto found = ordinals_.find(device);
  return found == ordinals_.end() ? std::nullopt : std::optional(found->second);
}

std::vector<NcclRank> Connections::ranks_here(const std::vector<int>& devices) const {
  std::vector<NcclRank> ranks;
  for (int index = 0; index < static_cast<int>(devices.size()); ++index)
    if (const std::optional<int> ordinal = ordinal_here(devices[index]))
      ranks.push_back({index, *ordinal});
  return ranks;
}

bool Connections::spans_processes(const std::vector<int>& devices) const {
  return std::any_of(devices.begin(), devices.end(), [&](int device) {
    return placement_.rank_of(device) != placement_.rank_of(devices[0]);
  });
}

}  // namespace alpa::cuda
