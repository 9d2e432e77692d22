#pragma once
/// Writing of a snapshot as a checkpoint.
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "alpa/ir/graph.h"
#include "src/checkpoint/manifest.h"
#include "src/runtime/held_parts.h"

namespace alpa::checkpoint {

/// A snapshot with all that its checkpoint tells beside it.
struct Snapshot {
  Manifest manifest;                         ///< without tensors and shards
  const Graph* graph = nullptr;              ///< whose state inputs the boxes are of
  std::span<const runtime::StateBox> boxes;  ///< in the order of their bytes
  std::span<const std::byte> bytes;          ///< of all boxes
  std::string_view plan;                     ///< plan.json
};

/// Puts the checkpoint into `folder`, durable, and then removes all but the newest `keep` (0:
/// none). Throws Error naming the file that could not be written; then nothing is left of it.
void save_snapshot(const std::string& folder, Snapshot snapshot, int keep);

}  // namespace alpa::checkpoint
