// src/base/unpack.cc — unpacks gzip (RFC 1952), one or more members
#include <zlib.h>

#include <algorithm>
#include <new>

#include "alpa/base/error.h"
#include "src/base/file.h"

namespace alpa {
namespace {

/// Output up to this size is unpacked at any ratio. Larger honest files stay far below
/// kMaxRatio (deflate allows 1032).
constexpr std::size_t kSmall = std::size_t{16} << 20, kMaxRatio = 256;

constexpr std::size_t kStep = std::size_t{1} << 20;
constexpr int kGzipOnly = 16 + MAX_WBITS;

bool is_gzip(std::string_view bytes) { return bytes.starts_with("\x1f\x8b"); }

/// zlib's state, freed at the end.
class Inflation {
 public:
  explicit Inflation(std::string& packed) {
    stream_.next_in = reinterpret_cast<Bytef*>(packed.data());
    if (inflateInit2(&stream_, kGzipOnly) != Z_OK) throw std::bad_alloc();
  }
  Inflation(const Inflation&) = delete;
  Inflation& operator=(const Inflation&) = delete;
  ~Inflation() { inflateEnd(&stream_); }

  /// One step into `out`; zlib's status. `left`: bytes of input not yet taken.
  int step(char* out, std::size_t room, std::size_t& left, std::size_t& made) {
    const auto given = static_cast<uInt>(std::min(left, kStep));
    stream_.avail_in = given;
    stream_.next_out = reinterpret_cast<Bytef*>(out);
    stream_.avail_out = static_cast<uInt>(room);
    const int status = inflate(&stream_, Z_NO_FLUSH);
    left -= given - stream_.avail_in;
    made = room - stream_.avail_out;
    return status;
  }
  bool next_member() { return inflateReset(&stream_) == Z_OK; }

 private:
  z_stream stream_{};
};

}  // namespace

std::string unpack(std::string bytes, const std::string& path, const FileKind& kind) {
  if (!is_gzip(bytes)) return bytes;
  const std::string title = kind.name.empty() ? path : fmt::format("{} {}", kind.name, path);
  const std::size_t most = std::min(static_cast<std::size_t>(kind.max_bytes),
                                    std::max(kSmall, kMaxRatio * bytes.size()));
  Inflation inflation(bytes);
  std::string content;
  for (std::size_t left = bytes.size(), size = 0;;) {
    if (size == content.size()) content.resize(std::min(std::max(2 * size, kStep), most + 1));
    std::size_t made = 0;
    const int status =
        inflation.step(content.data() + size, std::min(content.size() - size, kStep), left, made);
    size += made;
    if (size > most)
      fail("{}: unpacked it holds more than {} bytes, the most that is read of it", title, most);
    const bool ended = status == Z_STREAM_END;
    if (ended && left == 0) return content.resize(size), content;
    if (ended ? !inflation.next_member() : status != Z_OK || (made == 0 && left == 0))
      fail("{}: the gzip'd content is damaged or ends too early", title);
  }
}

}  // namespace alpa
