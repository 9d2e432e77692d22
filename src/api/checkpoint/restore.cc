// src/api/checkpoint/restore.cc — compares a checkpoint's tensors with a state's, reads and
// copies them
#include "src/api/checkpoint/restore.h"

#include <cstring>

#include "alpa/base/text.h"
#include "src/api/checkpoint/folder.h"
#include "src/api/checkpoint/read_boxes.h"
#include "src/ir/input.h"
#include "src/ops/custom_ops.h"
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
    if (matches(pattern, name) && find_state(graph, name) == nullptr)
      restored.left_over.push_back(name);
}

/// Throws Error unless a tensor has one type in both, or may be converted.
void check_type_of(const std::string& title, const std::string& name, const StoredTensor& stored,
                   const TensorType& type, bool cast) {
  const bool converts =
      stored.type.shape == type.shape && is_floating(stored.type.dtype) && is_floating(type.dtype);
  require(stored.type == type || (cast && converts),
          "{}: tensor \"{}\" is {}, but the state has {}{}", title, excerpt(name),
          to_string(stored.type), to_string(type),
          converts ? "; RestoreOptions{.cast = true} converts it" : "");
}

/// Checks the types of all chosen tensors, those that other processes hold, too. Throws Error if
/// there are none.
void check_chosen(const std::string& title, const Manifest& manifest, const Graph& graph,
                  const std::string& pattern, bool cast) {
  bool any = false;
  for (const Input& input : graph.inputs) {
    if (input.kind != InputKind::state || !matches(pattern, input.name)) continue;
    const auto stored = manifest.tensors.find(input.name);
    if (stored == manifest.tensors.end()) continue;
    check_type_of(title, input.name, stored->second, graph.type(input.value), cast);
    any = true;
  }
  require(any, "{}: no tensor of the state is called \"{}\" in it", title, excerpt(pattern));
}

/// A line for each operator of the program that had another version when the state was saved.
std::vector<std::string> other_versions(const std::string& title, const Manifest& manifest,
                                        const Graph& graph) {
  std::vector<std::string> lines;
  for (const auto& [name, version] : versions_of(graph)) {
    const auto saved = manifest.operators.find(name);
    if (saved != manifest.operators.end() && saved->second != version)
      lines.push_back(
          fmt::format("{}: was saved with version {} of operator {}, and goes on with version {}",
                      title, saved->second, name, version));
  }
  return lines;
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
  } catch (const processes::LaunchFailed&) {
    throw;
  } catch (const Error& error) {
    throw Damage(error.what());
  }
}

/// Rank 0's, in all processes.
Manifest manifest_in_all(const std::string& folder, std::int64_t step,
                         processes::TaggedWorld* launch) {
  const auto read = [&] { return read_manifest_text(folder, step); };
  return undamaged([&] {
    return parse_manifest_of(launch ? launch->world().from_rank_0(read) : read(), folder, step);
  });
}

}  // namespace

RestoredCheckpoint restore_step(const std::string& folder, std::int64_t step,
                                const StateContent& content, std::byte* snapshot,
                                const RestoreOptions& options, processes::TaggedWorld* launch) {
  const std::string path = folder + "/" + folder_of_step(step), title = shown_path(path);
  const Manifest manifest = manifest_in_all(folder, step, launch);
  const bool all = options.only.empty();
  const std::string pattern = all ? "*" : options.only;
  Restored restored{step, manifest.user, manifest.metrics, {}, {}, {}, {}};
  compare_names(manifest, content.graph(), pattern, restored);
  require(!all || (restored.missing.empty() && restored.left_over.empty()),
          "{}: its tensors are not those of the state. The state wants {}, which it lacks; it has "
          "{}, which the state lacks. RestoreOptions{{.only = \"pattern\"}} restores some",
          title, quoted_names(restored.missing, kNames), quoted_names(restored.left_over, kNames));
  check_chosen(title, manifest, content.graph(), pattern, options.cast);
  std::vector<runtime::StateBox> chosen;
  std::vector<WantedBox> wanted;
  std::vector<Converted> converted;
  for (const runtime::StateBox& box : content.boxes_here()) {
    const auto stored = manifest.tensors.find(box.name);
    if (stored == manifest.tensors.end() || !matches(pattern, box.name)) continue;
    std::byte* to = snapshot + box.offset;
    if (const DType dtype = stored->second.type.dtype; dtype != box.type.dtype) {
      converted.push_back({box, Array(TensorType{dtype, box.type.shape})});
      to = converted.back().stored.mutable_data();
    }
    wanted.push_back({&stored->second, box.begin, box.type.shape, to});
    chosen.push_back(box);
  }
  const auto read = [&] { read_boxes(path, manifest, wanted); };
  undamaged([&] { launch ? launch->in_all(read) : read(); });
  for (const auto& [box, stored] : converted) {
    const Array array = stored.cast(box.type.dtype);
    std::memcpy(snapshot + box.offset, array.data(), static_cast<std::size_t>(array.bytes()));
  }
  const runtime::StateCounters counters{manifest.seed, manifest.steps, {}};
  content.write(chosen, snapshot, all ? &counters : nullptr);
  if (manifest.data) restored.position = manifest.data->position;
  return {std::move(restored), manifest.data, other_versions(title, manifest, content.graph())};
}

}  // namespace alpa::checkpoint
