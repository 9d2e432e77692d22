#pragma once
/// Writing of a snapshot as a checkpoint.
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "alpa/ir/graph.h"
#include "src/api/checkpoint/manifest.h"
#include "src/api/checkpoint/shares.h"
#include "src/processes/tagged_world.h"

namespace alpa::checkpoint {

/// A snapshot of what this process writes, with all that the checkpoint tells beside it. What rank
/// 0 has counts where processes differ.
struct Snapshot {
  Manifest manifest;                         ///< without tensors and shards
  const Graph* graph = nullptr;              ///< whose state inputs the boxes are of
  std::span<const runtime::StateBox> boxes;  ///< of the whole state
  std::vector<BoxPlace> places;              ///< of each of them
  std::span<const std::byte> bytes;          ///< of the boxes that this process writes
  std::string_view plan;                     ///< plan.json; of rank 0
};

/// Puts the checkpoint into `folder`, durable, and then removes all but the newest `keep` (0:
/// none). Throws Error naming the file that could not be written; then nothing is left of it.
/// `launch`: collective, all processes throw the same, which names the rank, too; null: this
/// process is alone.
void save_snapshot(const std::string& folder, Snapshot snapshot, int keep,
                   processes::TaggedWorld* launch);

}  // namespace alpa::checkpoint
