#pragma once
/// Restoring of a checkpoint into a state with any layout.
#include <cstddef>
#include <string>

#include "alpa/base/error.h"
#include "alpa/checkpoint/checkpoints.h"
#include "src/api/checkpoint/manifest.h"
#include "src/api/checkpoint/state_content.h"
#include "src/processes/tagged_world.h"

namespace alpa::checkpoint {

/// A checkpoint that can't be read, or is not as it was written.
class Damage : public Error {
 public:
  using Error::Error;
};

/// A checkpoint that was restored, as users see it, and where its data stood.
struct RestoredCheckpoint {
  Restored restored;
  std::optional<StoredData> data;
  std::vector<std::string> notes;  ///< on what is other than when it was saved
};

/// Reads the checkpoint of `step` in `folder` into `snapshot`, memory for the boxes that `content`
/// has here, checks all of it, and only then copies it into the state. Throws Damage, or Error as
/// `Checkpoints::restore`. `launch`: collective; each process reads what it holds, and damage that
/// one finds is thrown in all. Null: this process is alone.
RestoredCheckpoint restore_step(const std::string& folder, std::int64_t step,
                                const StateContent& content, std::byte* snapshot,
                                const RestoreOptions& options, processes::TaggedWorld* launch);

}  // namespace alpa::checkpoint
