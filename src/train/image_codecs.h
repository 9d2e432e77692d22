#pragma once
/// The two libraries of image formats.
#include <string>
#include <string_view>

#include "alpa/tensor/array.h"

namespace alpa {

/// Images of more pixels are refused.
inline constexpr std::int64_t kMaxPixels = std::int64_t{1} << 28;

bool is_png(std::string_view content);
bool is_jpeg(std::string_view content);

/// The image as u8 [height, width, 3]. Throws Error naming `path` if it is damaged.
Array decode_png(std::string_view content, const std::string& path);
Array decode_jpeg(std::string_view content, const std::string& path);

}  // namespace alpa
