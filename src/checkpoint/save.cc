// src/checkpoint/save.cc — writes the shard, the plan and the manifest of a checkpoint
#include "src/checkpoint/save.h"

#include <fmt/format.h>

#include "src/base/fnv.h"
#include "src/checkpoint/folder.h"
#include "src/checkpoint/new_file.h"
#include "src/checkpoint/shard_file.h"
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

/// The tensors of a manifest, their boxes in shard 0.
std::map<std::string, StoredTensor> tensors_of(const Snapshot& snapshot) {
  std::map<std::string, StoredTensor> tensors;
  for (const Input& input : snapshot.graph->inputs)
    if (input.kind == InputKind::state)
      tensors[input.name] = {
          snapshot.graph->type(input.value), std::string(alpa::name_of(role_of(input))), {}};
  for (const runtime::StateBox& box : snapshot.boxes)
    tensors.at(box.name).boxes.push_back({box.begin, box.type.shape, 0, box.offset});
  return tensors;
}

}  // namespace

void save_snapshot(const std::string& folder, Snapshot snapshot, int keep) {
  Manifest& manifest = snapshot.manifest;
  manifest.tensors = tensors_of(snapshot);
  manifest.plan_hash = fmt::format("{:016x}", fnv1a(snapshot.plan));
  std::vector<HeaderEntry> entries;
  for (const runtime::StateBox& box : snapshot.boxes)
    entries.push_back({name_of(box, manifest.tensors.at(box.name).type),
                       safetensors_type(box.type.dtype), box.type.shape, box.type.bytes()});
  publish(folder, manifest.step, [&](const std::string& path) {
    manifest.shards = {write_shard(path, "shard-0-of-1.safetensors", entries, snapshot.bytes,
                                   {{"format", "pt"}, {"step", std::to_string(manifest.step)}})};
    write_new_file(path + "/" + kPlanFile, snapshot.plan);
    write_new_file(path + "/" + kManifestFile, to_json(manifest));
  });
  if (keep > 0) remove_old(folder, manifest.step, keep);
}

}  // namespace alpa::checkpoint
