#pragma once
/// The two libraries of image formats, each of which a build may leave out.
#include <cstdint>
#include <string>
#include <string_view>

#include "alpa/tensor/array.h"

namespace alpa {

inline constexpr int kColours = 3;

/// Images of more pixels are refused.
inline constexpr std::int64_t kMaxPixels = std::int64_t{1} << 28;

bool is_png(std::string_view content);
bool is_jpeg(std::string_view content);

/// The image as u8 [height, width, 3]. Throws Error naming `path` if it is damaged, or if alpa was
/// built without the library (ALPA_WITH_PNG, ALPA_WITH_JPEG).
Array decode_png(std::string_view content, const std::string& path);
Array decode_jpeg(std::string_view content, const std::string& path);

/// For the decoders: the array of an image. Throws Error if it has more than 2^28 pixels.
Array new_image(const std::string& path, std::int64_t height, std::int64_t width);
/// For the decoders: Error that the file is no image of `format`.
[[noreturn]] void fail_damaged(const std::string& path, const char* format, const char* why);

}  // namespace alpa
