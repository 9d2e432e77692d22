#pragma once
/// The manifest of a checkpoint: what its shards hold, and where the run stood.
///
/// A tensor is a global name and the boxes that make it up, so that any devices can read it.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "alpa/base/shape.h"
#include "alpa/train/batches.h"

namespace alpa::checkpoint {

/// A part of a tensor in a shard.
struct StoredBox {
  Shape begin, extent;      ///< in the whole tensor
  int shard = 0;            ///< number of its file
  std::int64_t offset = 0;  ///< of its bytes in the shard's data
};

struct StoredTensor {
  TensorType type;               ///< of the whole tensor
  std::string role;              ///< "parameter", "layer state" or "optimizer state"
  std::vector<StoredBox> boxes;  ///< cover it; none overlap
};

/// A safetensors file: header, data, then the checksum of every block of the data.
struct Shard {
  std::string file;                 ///< name in the checkpoint's folder
  std::int64_t header_bytes = 0;    ///< with the length before it
  std::int64_t data_bytes = 0;      ///< without the checksums
  std::uint32_t header_sum = 0;     ///< CRC-32
  std::uint32_t sums_sum = 0;       ///< CRC-32 of the checksums
  std::int64_t sums_bytes() const;  ///< of the checksums
  std::int64_t bytes() const;       ///< of the whole file
};

/// Where the run stood in its data, and what tells that the data are the same.
struct StoredData {
  DataPosition position;
  std::int64_t examples = 0;          ///< of an epoch
  std::optional<std::uint64_t> seed;  ///< of the order; none: as they are
  /// Since when batches have had this size, and what else tells where they are now. None: of an
  /// older version, which did not write it.
  struct Since {
    std::int64_t step = 0;
    DataPosition position;
    std::int64_t batch = 0;
    bool drops_last = false;
    std::optional<std::uint64_t> hash = {};  ///< of the data; none: nobody knows it
  };
  std::optional<Since> since = {};
};

/// The position `count` batches behind `begin`, of which epochs of `examples` are cut.
DataPosition position_behind(DataPosition begin, std::int64_t count, std::int64_t examples,
                             std::int64_t batch, bool drops_last);

struct Manifest {
  std::int64_t step = 0;            ///< of the run
  std::uint64_t seed = 0;           ///< of the state
  std::vector<std::int64_t> steps;  ///< of every step that shares the state
  std::optional<StoredData> data;
  std::map<std::string, double> metrics;  ///< of the last step
  std::string plan_hash;                  ///< of plan.json; "": there is none
  std::map<std::string, std::string> user;
  std::map<std::string, std::int64_t> operators;  ///< versions of those that the program defined
  std::map<std::string, StoredTensor> tensors;
  std::vector<Shard> shards;
};

/// Its file name in the checkpoint's folder.
inline constexpr const char* kManifestFile = "manifest.json";

/// JSON whose first line holds the checksum of the rest.
std::string to_json(const Manifest& manifest);
/// Throws Error naming `path` and what is wrong: not even a hostile file gives boxes that overlap,
/// leave their tensor or leave their shard.
Manifest parse_manifest(const std::string& text, const std::string& path);

}  // namespace alpa::checkpoint
