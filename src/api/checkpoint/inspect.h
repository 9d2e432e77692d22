#pragma once
/// Contents of a folder of checkpoints, for people and other programs.
#include <string>
#include <vector>

#include "alpa/tensor/array.h"
#include "src/api/checkpoint/manifest.h"

namespace alpa::checkpoint {

/// Bytes of all shards.
std::int64_t shard_bytes(const Manifest& manifest);

/// Reads and checks every byte of a checkpoint. Throws Error naming the first damaged file, and the
/// tensors in it that are.
void verify(const std::string& folder, std::int64_t step);

/// A whole tensor of a checkpoint. Throws Error if it is damaged, or naming the known names.
Array read_tensor(const std::string& folder, const Manifest& manifest, const std::string& name);

/// How a tensor differs between two checkpoints.
struct Difference {
  std::string name;
  std::string what;           ///< "only in the first", "f32[2] and f32[3]"; "": the content
  double largest = 0;         ///< |a - b| of any element; NaN if one of both is NaN
  std::int64_t elements = 0;  ///< that differ in a bit
};

/// The tensors that differ between two steps, in folders that may be the same.
std::vector<Difference> differences(const std::string& folder, std::int64_t step,
                                    const std::string& other_folder, std::int64_t other_step);

/// Writes tensors of a checkpoint into one safetensors file: parameters and layer state, or, with
/// `all`, everything.
void export_tensors(const std::string& folder, std::int64_t step, const std::string& path,
                    bool all);

}  // namespace alpa::checkpoint
