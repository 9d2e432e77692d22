// src/api/checkpoint/save.cc — writes the shards, the plan and the manifest of a checkpoint
#include "src/api/checkpoint/save.h"

#include <fmt/format.h>

#include <filesystem>
#include <iterator>
#include <set>
#include <sstream>

#include "alpa/base/error.h"
#include "alpa/base/text.h"
#include "src/api/checkpoint/folder.h"
#include "src/api/checkpoint/new_file.h"
#include "src/api/checkpoint/shard_file.h"
#include "src/base/exception_text.h"
#include "src/base/fnv.h"
#include "src/ir/input.h"

namespace alpa::checkpoint {
namespace {

constexpr const char* kPlanFile = "plan.json";

/// Its name in the shard: that of the tensor, with the box unless it is the whole.
std::string name_of(const runtime::StateBox& box, const TensorType& whole) {
  if (box.type == whole) return box.name;
  std::string place;
  for (std::size_t d = 0; d < box.begin.size(); ++d)
    place +=
        fmt::format("{}{}:{}", d == 0 ? "" : ",", box.begin[d], box.begin[d] + box.type.shape[d]);
  return fmt::format("{}[{}]", box.name, place);
}

void write_new_file(const std::string& path, std::string_view text) {
  NewFile file(path);
  file.write(text);
  file.finish();
}

/// The tensors of a manifest. The shards are of those processes that write something, by rank.
std::map<std::string, StoredTensor> tensors_of(const Snapshot& snapshot) {
  std::map<std::string, StoredTensor> tensors;
  for (const Input& input : snapshot.graph->inputs)
    if (input.kind == InputKind::state && !is_copy(*snapshot.graph, input))
      tensors[input.name] = {
          snapshot.graph->type(input.value), std::string(alpa::name_of(role_of(input))), {}};
  std::set<int> writers;
  for (const BoxPlace& place : snapshot.places) writers.insert(place.rank);
  for (std::size_t i = 0; i < snapshot.boxes.size(); ++i) {
    const runtime::StateBox& box = snapshot.boxes[i];
    const auto [rank, offset] = snapshot.places[i];
    const auto shard = std::distance(writers.begin(), writers.find(rank));
    tensors.at(box.name).boxes.push_back(
        {box.begin, box.type.shape, static_cast<int>(shard), offset});
  }
  return tensors;
}

/// Writes what process `rank` of `size` writes of the state, into a folder that has been made.
Shard write_share(const std::string& path, const Snapshot& snapshot, int rank, int size) {
  std::vector<HeaderEntry> entries;
  for (const runtime::StateBox& box : share_of(rank, snapshot.boxes, snapshot.places))
    entries.push_back({name_of(box, snapshot.manifest.tensors.at(box.name).type),
                       safetensors_type(box.type.dtype), box.type.shape, box.type.bytes()});
  return write_shard(path, fmt::format("shard-{}-of-{}.safetensors", rank, size), entries,
                     snapshot.bytes,
                     {{"format", "pt"}, {"step", std::to_string(snapshot.manifest.step)}});
}

/// All but the shards.
void write_rest(const std::string& path, const Snapshot& snapshot) {
  write_new_file(path + "/" + kPlanFile, snapshot.plan);
  write_new_file(path + "/" + kManifestFile, to_json(snapshot.manifest));
}

// ---- several processes

/// An Error whose text names the process.
class NamedError : public Error {
 public:
  using Error::Error;
};

/// What a process tells rank 0 behind its letter: of the shard that it has written, of none,
/// because it holds nothing that no other writes, or what it failed with. Rank 0 tells where to
/// write to, and how the save has ended.
constexpr char kShard = 's', kNoShard = 'n', kFailed = 'f', kFolder = 'd', kSaved = 'o';

std::string packed(const Shard& shard) {
  return fmt::format("{} {} {} {} {}", shard.file, shard.header_bytes, shard.data_bytes,
                     shard.header_sum, shard.sums_sum);
}

Shard unpacked(const std::string& text) {
  Shard shard;
  std::istringstream words(text);
  words >> shard.file >> shard.header_bytes >> shard.data_bytes >> shard.header_sum >>
      shard.sums_sum;
  return shard;
}

/// Writes the share of this process, if it has one. Never throws but LaunchFailed.
std::string write_and_tell(const std::string& path, const Snapshot& snapshot,
                           const processes::World& world) {
  try {
    if (snapshot.bytes.empty()) return {kNoShard};
    require(std::filesystem::is_directory(path),
            "{}: rank 0 has made this folder, but it is not there; give a folder that all hosts "
            "share",
            shown_path(path));
    return kShard + packed(write_share(path, snapshot, world.rank(), world.size()));
  } catch (...) {
    return fmt::format("{}{}: {}", kFailed, processes::name_of_rank(world, world.rank()),
                       alpa::text_of(std::current_exception()));
  }
}

/// The shards that all have told of, in their order. Throws Error if one has failed.
std::vector<Shard> shards_of(const std::vector<std::string>& told) {
  std::vector<Shard> shards;
  for (const std::string& text : told) {
    if (text.front() == kFailed) throw NamedError(text.substr(1));
    if (text.front() == kShard) shards.push_back(unpacked(text.substr(1)));
  }
  return shards;
}

/// Rank 0: throws Error unless it sees the shard of every process as that has written it.
void check_seen(const std::string& path, const Manifest& manifest,
                const std::vector<std::string>& told, const processes::World& world) {
  int number = 0;
  for (int rank = 0; rank < world.size(); ++rank) {
    if (told[rank].front() != kShard) continue;
    try {
      ShardReader(path, manifest, number++);
    } catch (const Error& error) {
      throw NamedError(fmt::format(
          "{} has written {}/{}, but {} does not see it ({}); give a folder that all hosts share",
          processes::name_of_rank(world, rank), shown_path(path), manifest.shards[number - 1].file,
          processes::name_of_rank(world, 0), error.what()));
    }
  }
}

/// Rank 0's part of a save. Returns what the others are told at the end.
std::string save_as_rank_0(const std::string& folder, Snapshot& snapshot, int keep,
                           processes::TaggedWorld& launch) {
  const processes::World& world = launch.world();
  try {
    publish(folder, snapshot.manifest.step, [&](const std::string& path) {
      launch.from_rank_0(kFolder + path);
      const auto told = launch.to_rank_0(write_and_tell(path, snapshot, world));
      snapshot.manifest.shards = shards_of(told);
      check_seen(path, snapshot.manifest, told, world);
      write_rest(path, snapshot);
    });
    if (keep > 0) remove_old(folder, snapshot.manifest.step, keep);
    return {kSaved};
  } catch (const processes::LaunchFailed&) {
    throw;
  } catch (const NamedError& error) {
    return kFailed + std::string(error.what());
  } catch (...) {
    return fmt::format("{}{}: {}", kFailed, processes::name_of_rank(world, 0),
                       alpa::text_of(std::current_exception()));
  }
}

void save_together(const std::string& folder, Snapshot& snapshot, int keep,
                   processes::TaggedWorld& launch) {
  const processes::World& world = launch.world();
  std::string told;
  if (world.rank() == 0) {
    told = launch.from_rank_0(save_as_rank_0(folder, snapshot, keep, launch));
  } else {
    told = launch.from_rank_0();
    if (told.front() == kFolder) {
      launch.to_rank_0(write_and_tell(told.substr(1), snapshot, world));
      told = launch.from_rank_0();
    }
  }
  if (told.front() == kFailed) throw Error(told.substr(1));
}

}  // namespace

void save_snapshot(const std::string& folder, Snapshot snapshot, int keep,
                   processes::TaggedWorld* launch) {
  Manifest& manifest = snapshot.manifest;
  manifest.tensors = tensors_of(snapshot);
  manifest.plan_hash = fmt::format("{:016x}", fnv1a(snapshot.plan));
  if (launch) return save_together(folder, snapshot, keep, *launch);
  publish(folder, manifest.step, [&](const std::string& path) {
    manifest.shards = {write_share(path, snapshot, 0, 1)};
    write_rest(path, snapshot);
  });
  if (keep > 0) remove_old(folder, manifest.step, keep);
}

}  // namespace alpa::checkpoint
