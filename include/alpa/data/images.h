#pragma once
/// Images in PNG and JPEG files, and folders of them as data sets.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "alpa/data/dataset.h"
#pragma GCC visibility push(default)

namespace alpa {

/// An image as u8 [height, width, channels]: 3 for red, green and blue, or 1 for grey (ITU-R 601).
/// Transparency is left out. Throws Error naming the file if it is no PNG or JPEG, damaged, or of
/// more than 2^28 pixels.
Array read_image(const std::string& path, std::int64_t channels = 3);

/// The largest part around the centre that has the form of height × width, scaled to that (bilinear
/// between pixel centres, without smoothing): u8 [height, width, channels]. Throws Error unless
/// `image` is u8 of rank 3, and height and width are at least 1.
Array resized_image(const Array& image, std::int64_t height, std::int64_t width);

/// Options of `open_image_folder`.
struct ImageFolderOptions {
  /// Images are resized to this. 0: they are as they are, and must be of one size.
  std::int64_t height = 0, width = 0;
  std::int64_t channels = 3;  ///< or 1: grey
};

/// Labelled images that are read when they are needed.
struct ImageFolder {
  std::vector<std::string> paths;    ///< by class, then by name
  std::vector<std::int32_t> labels;  ///< of each path
  std::vector<std::string> classes;  ///< names of the sub-folders, in alphabetical order
  ImageFolderOptions options;        ///< with the size of all images

  /// number of images
  std::int64_t size() const { return static_cast<std::int64_t>(paths.size()); }
};

/// A folder with a sub-folder per class: its .png, .jpg and .jpeg files. Other files, and those
/// whose names begin with a dot, are ignored. Throws Error naming the folder if there is no class,
/// or a class without images.
ImageFolder open_image_folder(const std::string& path, ImageFolderOptions options = {});

/// Batches of "x" f32 [batch, height, width, channels] in [0, 1] and "y" i32 [batch], read in the
/// background. Throws Error naming an image of another size.
Batches batches(const ImageFolder& folder, std::int64_t batch,
                std::optional<std::uint64_t> seed = {}, BatchOptions options = {});

/// All images at once, as rows of height · width · channels features.
Dataset load_images(const ImageFolder& folder);

}  // namespace alpa
#pragma GCC visibility pop
