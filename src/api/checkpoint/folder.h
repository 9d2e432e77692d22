#pragma once
/// The folder that holds the checkpoints of a run, one folder each: "step-00000200".
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "src/api/checkpoint/manifest.h"
#include "src/base/open_file.h"

namespace alpa::checkpoint {

/// "step-00000200".
std::string folder_of_step(std::int64_t step);

/// Steps of the checkpoints in `folder`, ascending; none if there is no such folder. Whatever has
/// this name is whole: it got the name when its last byte was durable. Throws Error if the folder
/// can't be read.
std::vector<std::int64_t> steps_in(const std::string& folder);

/// The manifest of a checkpoint. Throws Error naming the file if it can't be read or is damaged.
Manifest read_manifest(const std::string& folder, std::int64_t step);
/// The same in two parts: only the first reads.
std::string read_manifest_text(const std::string& folder, std::int64_t step);
Manifest parse_manifest_of(const std::string& text, const std::string& folder, std::int64_t step);

/// Keeps other programs from saving into a folder, until it is gone. The lock ends with the
/// process, however it ends.
class FolderLock {
 public:
  FolderLock() = default;
  /// Makes the folder, with its parents, and locks it. Removes what killed programs left behind.
  /// Throws Error naming host and process that hold it, or why it can't be written to.
  explicit FolderLock(const std::string& folder);

 private:
  Descriptor file_;
};

/// Puts a checkpoint into `folder`: `write` fills a new folder, which gets the name of `step` once
/// all is durable, in place of a checkpoint of that name. On failure nothing is left of it, and
/// Error says why.
void publish(const std::string& folder, std::int64_t step,
             const std::function<void(const std::string& path)>& write);

/// Removes all checkpoints up to `step` but the newest `keep` of them. Later ones stay: they may be
/// damaged, or of a run that went another way.
void remove_old(const std::string& folder, std::int64_t step, int keep);

}  // namespace alpa::checkpoint
