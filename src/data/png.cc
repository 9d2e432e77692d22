// src/data/png.cc — decodes PNG by libpng
#include <cstring>

#include <png.h>

#include "src/data/image_codecs.h"

namespace alpa {
namespace {

/// Frees what libpng holds.
struct PngEnd {
  png_image& image;
  ~PngEnd() { png_image_free(&image); }
};

}  // namespace

Array decode_png(std::string_view content, const std::string& path) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  const PngEnd end{image};
  if (png_image_begin_read_from_memory(&image, content.data(), content.size()) == 0)
    fail_damaged(path, "PNG", image.message);
  Array result = new_image(path, image.height, image.width);
  image.format = PNG_FORMAT_RGBA;  // so that nothing is blended into the colours
  Array rgba(TensorType{u8, {result.shape()[0], result.shape()[1], 4}});
  if (png_image_finish_read(&image, nullptr, rgba.mutable_data(), 0, nullptr) == 0 ||
      image.warning_or_error != 0)
    fail_damaged(path, "PNG", image.message);
  for (std::int64_t pixel = 0; pixel < rgba.elements() / 4; ++pixel)
    std::memcpy(result.mutable_data() + kColours * pixel, rgba.data() + 4 * pixel, kColours);
  return result;
}

}  // namespace alpa
