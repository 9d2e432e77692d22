#pragma once
/// Shards of a checkpoint: safetensors files whose data are checked block by block.
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "src/api/checkpoint/block_sums.h"
#include "src/api/checkpoint/manifest.h"
#include "src/base/open_file.h"
#include "src/train/safetensors_header.h"

namespace alpa::checkpoint {

/// Writes a shard into `folder` and makes it durable. `data`: of `tensors`, in order, without gaps.
/// The space is reserved first. Throws Error naming the file and the system's reason.
Shard write_shard(const std::string& folder, const std::string& file,
                  std::vector<HeaderEntry> tensors, std::span<const std::byte> data,
                  const std::map<std::string, std::string>& metadata);

/// A shard that is read. Any thread may read.
class ShardReader {
 public:
  /// Throws Error naming the file if it is not as long as the manifest says, or if its header or
  /// its checksums are damaged.
  ShardReader(const std::string& folder, const Manifest& manifest, int shard);

  std::int64_t num_blocks() const { return blocks_of(shard_.data_bytes); }
  std::int64_t data_bytes() const { return shard_.data_bytes; }
  /// Reads `count` blocks of the data from block `first`. Throws Error naming
  /// the file and the tensors of the first damaged block.
  void read(std::int64_t first, std::int64_t count, std::byte* to) const;

 private:
  std::string tensors_at(std::int64_t block) const;

  const Manifest& manifest_;
  int number_;
  Shard shard_;
  std::string path_;
  Descriptor file_;
  std::vector<std::uint32_t> sums_;
};

}  // namespace alpa::checkpoint
