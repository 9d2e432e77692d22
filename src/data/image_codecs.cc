// src/data/image_codecs.cc — what the decoders of images share, and what is said in their place
#include "src/data/image_codecs.h"

#include "alpa/base/error.h"
#include "alpa/base/text.h"

namespace alpa {
namespace {

[[noreturn, maybe_unused]] void fail_left_out(const std::string& path, const char* format) {
  fail(
      "{0}: is a {1} image, but this build of alpa has no {1}; "
      "configure it with -DALPA_WITH_{1}=ON",
      path, format);
}

}  // namespace

#if !ALPA_HAS_PNG
Array decode_png(std::string_view, const std::string& path) { fail_left_out(path, "PNG"); }
#endif

#if !ALPA_HAS_JPEG
Array decode_jpeg(std::string_view, const std::string& path) { fail_left_out(path, "JPEG"); }
#endif

bool is_png(std::string_view content) { return content.starts_with("\x89PNG\r\n\x1a\n"); }

bool is_jpeg(std::string_view content) { return content.starts_with("\xff\xd8\xff"); }

Array new_image(const std::string& path, std::int64_t height, std::int64_t width) {
  require(height >= 1 && width >= 1 && height <= kMaxPixels / width,
          "{}: has {} × {} pixels; at most 2^28 are read", path, width, height);
  return Array(TensorType{u8, {height, width, kColours}});
}

void fail_damaged(const std::string& path, const char* format, const char* why) {
  fail("{}: is no {} that can be read: {}", path, format, excerpt(why));
}

}  // namespace alpa
