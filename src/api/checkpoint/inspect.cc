// src/api/checkpoint/inspect.cc — verifies, compares and exports checkpoints
#include "src/api/checkpoint/inspect.h"

#include <cmath>
#include <cstring>
#include <memory>
#include <ranges>
#include <set>

#include "alpa/base/error.h"
#include "alpa/base/text.h"
#include "alpa/train/safetensors.h"
#include "src/api/checkpoint/folder.h"
#include "src/api/checkpoint/read_boxes.h"
#include "src/api/checkpoint/shard_file.h"

namespace alpa::checkpoint {
namespace {

constexpr std::int64_t kBlocksVerified = 64;

std::string path_of(const std::string& folder, std::int64_t step) {
  return folder + "/" + folder_of_step(step);
}

/// Fills `difference` for two arrays of one type; false if they are equal to the bit.
bool compare(const Array& a, const Array& b, Difference& difference) {
  if (std::memcmp(a.data(), b.data(), static_cast<std::size_t>(a.bytes())) == 0) return false;
  const std::size_t element = size_of(a.dtype());
  const std::vector<double> of_a = a.to_doubles(), of_b = b.to_doubles();
  for (std::size_t i = 0; i < of_a.size(); ++i) {
    if (std::memcmp(a.data() + i * element, b.data() + i * element, element) == 0) continue;
    ++difference.elements;
    const double size = std::abs(of_a[i] - of_b[i]);
    if (!(size <= difference.largest)) difference.largest = size;
  }
  return true;
}

}  // namespace

std::int64_t shard_bytes(const Manifest& manifest) {
  std::int64_t bytes = 0;
  for (const Shard& shard : manifest.shards) bytes += shard.bytes();
  return bytes;
}

void verify(const std::string& folder, std::int64_t step) {
  const Manifest manifest = read_manifest(folder, step);
  const auto buffer = std::make_unique<std::byte[]>(kBlocksVerified * kBlockBytes);
  for (int number = 0; number < std::ssize(manifest.shards); ++number) {
    const ShardReader shard(path_of(folder, step), manifest, number);
    for (std::int64_t block = 0; block < shard.num_blocks(); block += kBlocksVerified)
      shard.read(block, std::min(kBlocksVerified, shard.num_blocks() - block), buffer.get());
  }
}

Array read_tensor(const std::string& folder, const Manifest& manifest, const std::string& name) {
  const auto found = manifest.tensors.find(name);
  require(found != manifest.tensors.end(), "{}: has no tensor \"{}\"; it has {}",
          shown_path(path_of(folder, manifest.step)), excerpt(name),
          quoted_names(manifest.tensors | std::views::keys, 8));
  const StoredTensor& tensor = found->second;
  Array array(tensor.type);
  read_boxes(
      path_of(folder, manifest.step), manifest,
      {{&tensor, Shape(tensor.type.shape.size(), 0), tensor.type.shape, array.mutable_data()}});
  return array;
}

std::vector<Difference> differences(const std::string& folder, std::int64_t step,
                                    const std::string& other_folder, std::int64_t other_step) {
  const Manifest first = read_manifest(folder, step),
                 other = read_manifest(other_folder, other_step);
  std::set<std::string> names;
  for (const Manifest* manifest : {&first, &other})
    for (const auto& [name, tensor] : manifest->tensors) names.insert(name);
  std::vector<Difference> result;
  for (const std::string& name : names) {
    const auto a = first.tensors.find(name), b = other.tensors.find(name);
    Difference difference{name, {}};
    if (a == first.tensors.end() || b == other.tensors.end()) {
      difference.what = a == first.tensors.end() ? "only in the second" : "only in the first";
    } else if (a->second.type != b->second.type) {
      difference.what =
          fmt::format("{} and {}", to_string(a->second.type), to_string(b->second.type));
    } else if (!compare(read_tensor(folder, first, name), read_tensor(other_folder, other, name),
                        difference)) {
      continue;
    }
    result.push_back(std::move(difference));
  }
  return result;
}

void export_tensors(const std::string& folder, std::int64_t step, const std::string& path,
                    bool all) {
  const Manifest manifest = read_manifest(folder, step);
  std::map<std::string, Array> tensors;
  for (const auto& [name, tensor] : manifest.tensors)
    if (all || tensor.role == "parameter" || tensor.role == "layer state")
      tensors.emplace(name, read_tensor(folder, manifest, name));
  write_safetensors(path, tensors, {{"format", "pt"}, {"step", std::to_string(step)}});
}

}  // namespace alpa::checkpoint
