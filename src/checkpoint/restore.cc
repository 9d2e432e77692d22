// src/checkpoint/restore.cc — compares a checkpoint's tensors with a state's, reads and copies them
#include "src/checkpoint/restore.h"

#include <cstring>

#include "alpa/base/error.h"
#include "alpa/base/text.h"
#include "src/checkpoint/folder.h"
#include "src/checkpoint/read_boxes.h"
#include "src/ir/input.h"
#include "src/train/parameter_pattern.h"

namespace alpa::checkpoint {
namespace {

constexpr std::size_t kNames = 8;  // in a message

/// Fills `missing` and `left_over` with the names that only one of both has, among those chosen.
void compare_names(const Manifest& manifest, const Graph& graph, const std::string& pattern,
                   Restored& restored) {
  for (const std::string& name : input_names(graph, InputKind::state))
    if (matches(pattern, name) && !manifest.tensors.contains(name))
      restored.missing.push_back(name);
  for (const auto& [name, tensor] : manifest.tensors)
    if (matches(pattern, name) && find_input(graph, InputKind::state, name) == nullptr)
      restored.left_over.push_back(name);
}

/// Throws Error unless a tensor has one type in both, or may be converted.
void check_type_of(const std::string& title, const std::string& name, const StoredTensor& stored,
                   const Graph& graph, bool cast) {
  const TensorType& type = graph.type(find_input(graph, InputKind::state, name)->value);
  const bool converts =
      stored.type.shape == type.shape && is_floating(stored.type.dtype) && is_floating(type.dtype);
  require(stored.type == type || (cast && converts),
          "{}: tensor \"{}\" is {}, but the state has {}{}", title, excerpt(name),
          to_string(stored.type), to_string(type),
          converts ? "; RestoreOptions{.cast = true} converts it" : "");
}

/// A box that is stored in another floating type.
struct Converted {
  runtime::StateBox box;
  Array stored;
};

/// Returns read(); what it fails with is damage.
template <class Read>
auto undamaged(Read read) {
  try {
    return read();
  } catch (const Error& error) {
    throw Damage(error.what());
  }
}

}  // namespace

RestoredCheckpoint restore_step(const std::string& folder, std::int64_t step,
                                const StateContent& content, std::byte* snapshot,
                                const RestoreOptions& options) {
  const std::string path = folder + "/" + folder_of_step(step), title = shown_path(path);
  const Manifest manifest = undamaged([&] { return read_manifest(folder, step); });
  const bool all = options.only.empty();
  const std::string pattern = all ? "*" : options.only;
  Restored restored{step, manifest.user, manifest.metrics, {}, {}, {}, {}};
  compare_names(manifest, content.graph(), pattern, restored);
  require(!all || (restored.missing.empty() && restored.left_over.empty()),
          "{}: its tensors are not those of the state. The state wants {}, which it lacks; it has "
          "{}, which the state lacks. RestoreOptions{{.only = \"pattern\"}} restores some",
          title, quoted_names(restored.missing, kNames), quoted_names(restored.left_over, kNames));
  std::vector<runtime::StateBox> chosen;
  std::vector<WantedBox> wanted;
  std::vector<Converted> converted;
  for (const runtime::StateBox& box : content.boxes()) {
    const auto stored = manifest.tensors.find(box.name);
    if (stored == manifest.tensors.end() || !matches(pattern, box.name)) continue;
    check_type_of(title, box.name, stored->second, content.graph(), options.cast);
    std::byte* to = snapshot + box.offset;
    if (const DType dtype = stored->second.type.dtype; dtype != box.type.dtype) {
      converted.push_back({box, Array(TensorType{dtype, box.type.shape})});
      to = converted.back().stored.mutable_data();
    }
    wanted.push_back({&stored->second, box.begin, box.type.shape, to});
    chosen.push_back(box);
  }
  require(!chosen.empty(), "{}: no tensor of the state is called \"{}\" in it", title,
          excerpt(pattern));
  undamaged([&] { read_boxes(path, manifest, wanted); });
  for (const auto& [box, stored] : converted) {
    const Array array = stored.cast(box.type.dtype);
    std::memcpy(snapshot + box.offset, array.data(), static_cast<std::size_t>(array.bytes()));
  }
  const runtime::StateCounters counters{manifest.seed, manifest.steps, {}};
  content.write(chosen, snapshot, all ? &counters : nullptr);
  if (manifest.data) restored.position = manifest.data->position;
  return {std::move(restored), manifest.data};
}

}  // namespace alpa::checkpoint
