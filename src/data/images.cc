// src/data/images.cc — images from files, resized, in batches
#include "alpa/data/images.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "alpa/base/error.h"
#include "alpa/base/text.h"
#include "src/base/file.h"
#include "src/base/fnv.h"
#include "src/data/image_codecs.h"

namespace alpa {
namespace {

constexpr FileKind kImageFile{"", std::int64_t{1} << 30};

using Pixels = std::span<const std::uint8_t>;

/// Grey of every pixel: 0.299 R + 0.587 G + 0.114 B, rounded.
Array in_grey(const Array& image) {
  Array grey(TensorType{u8, {image.shape()[0], image.shape()[1], 1}});
  const Pixels rgb = image.elements_as<std::uint8_t>();
  std::size_t i = 0;
  for (std::uint8_t& pixel : grey.mutable_elements_as<std::uint8_t>()) {
    pixel = static_cast<std::uint8_t>((299 * rgb[i] + 587 * rgb[i + 1] + 114 * rgb[i + 2] + 500) /
                                      1000);
    i += 3;
  }
  return grey;
}

/// Where a row or column of the result is in the source: between two of its own.
struct SourcePixels {
  std::int64_t low, high;
  double part;  ///< of `high`
};

/// Places of `count` pixels that cover the middle of `extent`, each `scale` wide.
std::vector<SourcePixels> places(std::int64_t count, std::int64_t extent, double scale) {
  const double start = (static_cast<double>(extent) - static_cast<double>(count) * scale) / 2;
  std::vector<SourcePixels> result;
  for (std::int64_t i = 0; i < count; ++i) {
    const double at = std::clamp(start + (static_cast<double>(i) + 0.5) * scale - 0.5, 0.0,
                                 static_cast<double>(extent - 1));
    const auto low = static_cast<std::int64_t>(at);
    result.push_back({low, std::min(low + 1, extent - 1), at - static_cast<double>(low)});
  }
  return result;
}

bool is_image_name(std::string name) {
  if (name.starts_with('.')) return false;
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return name.ends_with(".png") || name.ends_with(".jpg") || name.ends_with(".jpeg");
}

/// Names in a folder, sorted; of folders, or of image files.
std::vector<std::string> names_in(const std::string& path, bool folders) {
  std::error_code failure;
  std::vector<std::string> names;
  std::filesystem::directory_iterator entries(path, failure);
  for (; !failure && entries != std::filesystem::directory_iterator(); entries.increment(failure)) {
    const std::string name = entries->path().filename().string();
    std::error_code unknown;
    const bool wanted = folders ? !name.starts_with('.') && entries->is_directory(unknown)
                                : is_image_name(name) && entries->is_regular_file(unknown);
    require(!unknown, "{}: cannot be read: {}", shown_path(entries->path().string()),
            unknown.message());
    if (wanted) names.push_back(name);
  }
  require(!failure, "{}: cannot be read: {}", shown_path(path), failure.message());
  std::sort(names.begin(), names.end());
  return names;
}

/// An image of the folder, in its size.
Array image_of(const ImageFolder& folder, const std::string& path) {
  const Array image = read_image(path, folder.options.channels);
  const auto [height, width, channels] = folder.options;
  if (image.shape() == Shape{height, width, channels}) return image;
  return resized_image(image, height, width);
}

/// The same for folders without a size of their own. Throws Error if the size is another.
Array image_as_it_is(const ImageFolder& folder, const std::string& path) {
  const Array image = read_image(path, folder.options.channels);
  const auto [height, width, channels] = folder.options;
  require(image.shape() == Shape({height, width, channels}),
          "{}: has {} × {} pixels, but {} has {} × {}; give ImageFolderOptions a height and a "
          "width, to resize them",
          shown_path(path), image.shape()[1], image.shape()[0], shown_path(folder.paths[0]), width,
          height);
  return image;
}

/// Of all names and labels, and of the content of some files, spread evenly.
std::uint64_t hash_of(const ImageFolder& folder) {
  constexpr std::size_t kRead = 64;
  const std::size_t every = (folder.paths.size() + kRead - 1) / kRead;
  const auto [height, width, channels] = folder.options;
  std::uint64_t hash = fnv1a(fmt::format("{} {} {}", height, width, channels));
  for (std::size_t i = 0; i < folder.paths.size(); ++i) {
    const std::filesystem::path path = folder.paths[i];
    const std::string own = (path.parent_path().filename() / path.filename()).string();
    hash = fnv1a(fmt::format("{} {};", own, folder.labels[i]), hash);
    if (i % every == 0) hash = fnv1a(read_file(folder.paths[i], kImageFile), hash);
  }
  return hash;
}

/// Writes pixels as numbers in [0, 1].
void write_scaled(const Array& image, float* to) {
  for (std::uint8_t pixel : image.elements_as<std::uint8_t>())
    *to++ = static_cast<float>(pixel) / 255.0F;
}

}  // namespace

Array read_image(const std::string& path, std::int64_t channels) {
  require(channels == 1 || channels == 3,
          "read_image: {} channels; give 3 for colours or 1 for grey", channels);
  const std::string content = read_file(path, kImageFile);
  const std::string shown = shown_path(path);
  require(is_png(content) || is_jpeg(content), "{}: is neither a PNG nor a JPEG file", shown);
  const Array image = is_png(content) ? decode_png(content, shown) : decode_jpeg(content, shown);
  return channels == 1 ? in_grey(image) : image;
}

Array resized_image(const Array& image, std::int64_t height, std::int64_t width) {
  require(image.dtype() == u8 && image.shape().size() == 3,
          "resized_image: the image is {}; give u8[height, width, channels]",
          to_string(image.type()));
  require(height >= 1 && width >= 1 && height <= kMaxPixels / width,
          "resized_image: {} × {} pixels; give at least 1, and at most 2^28 together", width,
          height);
  const std::int64_t rows = image.shape()[0], columns = image.shape()[1],
                     channels = image.shape()[2];
  const double scale = std::min(static_cast<double>(rows) / static_cast<double>(height),
                                static_cast<double>(columns) / static_cast<double>(width));
  const std::vector<SourcePixels> ys = places(height, rows, scale),
                                  xs = places(width, columns, scale);
  Array result(TensorType{u8, {height, width, channels}});
  const Pixels from = image.elements_as<std::uint8_t>();
  auto to = result.mutable_elements_as<std::uint8_t>().begin();
  const auto at = [&](std::int64_t y, std::int64_t x, std::int64_t c) {
    return static_cast<double>(from[(y * columns + x) * channels + c]);
  };
  for (const SourcePixels& y : ys)
    for (const SourcePixels& x : xs)
      for (std::int64_t c = 0; c < channels; ++c) {
        const double above = std::lerp(at(y.low, x.low, c), at(y.low, x.high, c), x.part),
                     below = std::lerp(at(y.high, x.low, c), at(y.high, x.high, c), x.part);
        *to++ = static_cast<std::uint8_t>(std::lerp(above, below, y.part) + 0.5);
      }
  return result;
}

ImageFolder open_image_folder(const std::string& path, ImageFolderOptions options) {
  require(
      (options.height == 0) == (options.width == 0) && options.height >= 0 && options.width >= 0,
      "ImageFolderOptions: height {} and width {}; give both or neither", options.height,
      options.width);
  ImageFolder folder{
      .paths = {}, .labels = {}, .classes = names_in(path, true), .options = options};
  require(!folder.classes.empty(), "{}: has no sub-folders; give a folder with one per class",
          path);
  for (std::size_t label = 0; label < folder.classes.size(); ++label) {
    const std::string own = path + "/" + folder.classes[label];
    const std::vector<std::string> images = names_in(own, false);
    require(!images.empty(), "{}: has no .png, .jpg or .jpeg file; remove the folder, or fill it",
            shown_path(own));
    for (const std::string& name : images) {
      folder.paths.push_back(own + "/" + name);
      folder.labels.push_back(static_cast<std::int32_t>(label));
    }
  }
  return folder;
}

Batches batches(const ImageFolder& folder, std::int64_t batch, std::optional<std::uint64_t> seed,
                BatchOptions options) {
  require(!folder.paths.empty(), "batches: the image folder is empty");
  ImageFolder source = folder;
  const bool resizes = source.options.height > 0;
  if (!resizes) {
    const Shape shape = read_image(source.paths[0], source.options.channels).shape();
    source.options.height = shape[0], source.options.width = shape[1];
  }
  const auto load = [source, resizes](std::span<const std::int64_t> rows) {
    const auto [height, width, channels] = source.options;
    const auto count = static_cast<std::int64_t>(rows.size());
    Array x(TensorType{f32, {count, height, width, channels}}), y(TensorType{i32, {count}});
    float* to = x.mutable_elements_as<float>().data();
    auto label = y.mutable_elements_as<std::int32_t>().begin();
    for (std::int64_t row : rows) {
      const std::string& path = source.paths[row];
      write_scaled(resizes ? image_of(source, path) : image_as_it_is(source, path), to);
      to += height * width * channels;
      *label++ = source.labels[row];
    }
    return BatchData{{"x", x}, {"y", y}};
  };
  if (!options.hash) options.hash = [source] { return hash_of(source); };
  return batches(folder.size(), load, batch, seed, options);
}

Dataset load_images(const ImageFolder& folder) {
  BatchRange all = batches(folder, std::max<std::int64_t>(folder.size(), 1)).epoch(0);
  const BatchData& batch = *all.begin();
  const Array& x = batch.at("x");
  const std::int64_t features = x.elements() / x.shape()[0];
  return {Array(x.elements_as<float>(), {x.shape()[0], features}), batch.at("y"),
          static_cast<std::int64_t>(folder.classes.size())};
}

}  // namespace alpa
