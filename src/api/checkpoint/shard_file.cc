// src/api/checkpoint/shard_file.cc — writes and reads shards, with the checksums of their blocks
#include "src/api/checkpoint/shard_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "alpa/base/error.h"
#include "alpa/base/text.h"
#include "src/api/checkpoint/new_file.h"

namespace alpa::checkpoint {
namespace {

constexpr const char* kSumsTensor = "alpa.block_crc32";
constexpr std::int64_t kPieceBytes = 64 * kBlockBytes;  // written at once

void read_at(const Descriptor& file, std::span<std::byte> bytes, std::int64_t offset,
             const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t got = ::pread(file.number(), bytes.data(), bytes.size(), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail("{}: cannot be read: {}", shown_path(path), error_text(errno));
    require(got > 0, "{}: ends at byte {}; it was cut", shown_path(path), offset);
    bytes = bytes.subspan(got);
    offset += got;
  }
}

std::uint32_t sum_of_block(std::span<const std::byte> data, std::int64_t block) {
  const auto begin = static_cast<std::size_t>(block * kBlockBytes);
  return crc32(data.subspan(begin, std::min<std::size_t>(kBlockBytes, data.size() - begin)));
}

}  // namespace

Shard write_shard(const std::string& folder, const std::string& file,
                  std::vector<HeaderEntry> tensors, std::span<const std::byte> data,
                  const std::map<std::string, std::string>& metadata) {
  Shard shard{.file = file, .data_bytes = std::ssize(data)};
  tensors.push_back({kSumsTensor, "U32", {blocks_of(shard.data_bytes)}, shard.sums_bytes()});
  const std::string header = safetensors_header(tensors, metadata, kDirectAlignment),
                    path = folder + "/" + file;
  shard.header_bytes = std::ssize(header);
  shard.header_sum = crc32(header);
  NewFile out(path);
  out.reserve(shard.bytes());
  out.write(header);
  std::vector<std::uint32_t> sums(blocks_of(shard.data_bytes));
  for (std::int64_t begin = 0; begin < shard.data_bytes; begin += kPieceBytes) {
    const std::int64_t end = std::min(begin + kPieceBytes, shard.data_bytes);
    // While the piece is on its way through the caches anyway.
    for (std::int64_t b = begin / kBlockBytes; b < blocks_of(end); ++b)
      sums[b] = sum_of_block(data, b);
    out.write_direct(data.subspan(begin, end - begin));
  }
  const auto sums_bytes = std::as_bytes(std::span(sums));
  shard.sums_sum = crc32(sums_bytes);
  out.write(sums_bytes);
  out.finish();
  return shard;
}

ShardReader::ShardReader(const std::string& folder, const Manifest& manifest, int shard)
    : manifest_(manifest),
      number_(shard),
      shard_(manifest.shards[shard]),
      path_(folder + "/" + shard_.file),
      file_(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  if (!file_) fail("{}: cannot be read: {}", shown_path(path_), error_text(errno));
  struct stat info {};
  if (::fstat(file_.number(), &info) != 0 || !S_ISREG(info.st_mode))
    fail("{}: is no regular file", shown_path(path_));
  require(info.st_size == shard_.bytes(), "{}: has {} bytes, but was written with {}",
          shown_path(path_), info.st_size, shard_.bytes());
  std::vector<std::byte> header(shard_.header_bytes);
  read_at(file_, header, 0, path_);
  require(crc32(header) == shard_.header_sum,
          "{}: its header is damaged, or it is of another checkpoint", shown_path(path_));
  sums_.resize(num_blocks());
  const auto bytes = std::as_writable_bytes(std::span(sums_));
  read_at(file_, bytes, shard_.header_bytes + shard_.data_bytes, path_);
  require(crc32(bytes) == shard_.sums_sum,
          "{}: its checksums are damaged, or it is of another checkpoint", shown_path(path_));
}

void ShardReader::read(std::int64_t first, std::int64_t count, std::byte* to) const {
  const std::int64_t begin = first * kBlockBytes,
                     end = std::min((first + count) * kBlockBytes, shard_.data_bytes);
  const std::span<std::byte> bytes(to, end - begin);
  read_at(file_, bytes, shard_.header_bytes + begin, path_);
  for (std::int64_t b = 0; b < blocks_of(end - begin); ++b)
    if (sum_of_block(bytes, b) != sums_[first + b])
      fail("{}: {} damaged", shown_path(path_), tensors_at(first + b));
}

/// "tensor "a" is", or "tensors "a", "b" are".
std::string ShardReader::tensors_at(std::int64_t block) const {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : manifest_.tensors)
    for (const StoredBox& box : tensor.boxes) {
      const std::int64_t end = box.offset + TensorType{tensor.type.dtype, box.extent}.bytes();
      if (box.shard == number_ && box.offset < (block + 1) * kBlockBytes &&
          end > block * kBlockBytes && (names.empty() || names.back() != name))
        names.push_back(name);
    }
  return fmt::format("tensor{} {} {}", names.size() == 1 ? "" : "s", quoted_names(names),
                     names.size() == 1 ? "is" : "are");
}

}  // namespace alpa::checkpoint
