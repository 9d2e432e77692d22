// Images against Pillow (tests/golden/images/make.py), resizing by hand, and folders of images.
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>

#include <jpeglib.h>

#include "alpa/data/images.h"
#include "alpa/train/safetensors.h"
#include "src/base/file.h"
#include "support/error_text.h"
#include "support/golden.h"
#include "support/temporary_file.h"

namespace images_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

namespace fs = std::filesystem;

const char* const kImages[] = {"colour.png",  "grey.png",   "palette.png", "transparent.png",
                               "bilevel.png", "colour.jpg", "grey.jpeg",   "progressive.jpg"};

std::string image_path(const std::string& name) { return golden_path("images/" + name); }

/// A folder that is gone at the end of a test.
struct TemporaryFolder {
  explicit TemporaryFolder(std::string name) : path(std::move(name)) { fs::create_directory(path); }
  ~TemporaryFolder() { fs::remove_all(path); }
  void add(const std::string& folder, const std::string& name, const std::string& image) const {
    fs::create_directory(path + "/" + folder);
    fs::copy_file(image_path(image), path + "/" + folder + "/" + name);
  }
  std::string path;
};

int largest_difference(const Array& a, const Array& b) {
  REQUIRE(a.elements() == b.elements());
  const std::vector<double> x = a.to_doubles(), y = b.to_doubles();
  double largest = 0;
  for (std::size_t i = 0; i < x.size(); ++i) largest = std::max(largest, std::abs(x[i] - y[i]));
  return static_cast<int>(largest);
}

/// A JPEG of `height` equal rows.
std::string jpeg_of(std::vector<unsigned char> row, int height, J_COLOR_SPACE space, int components,
                    const std::function<void(jpeg_compress_struct&)>& set_up) {
  jpeg_compress_struct encoder;
  jpeg_error_mgr errors;
  encoder.err = jpeg_std_error(&errors);
  jpeg_create_compress(&encoder);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&encoder, &bytes, &size);
  encoder.image_width = static_cast<JDIMENSION>(row.size()) / components;
  encoder.image_height = static_cast<JDIMENSION>(height);
  encoder.in_color_space = space, encoder.input_components = components;
  jpeg_set_defaults(&encoder);
  set_up(encoder);
  jpeg_start_compress(&encoder, TRUE);
  unsigned char* rows[] = {row.data()};
  while (encoder.next_scanline < encoder.image_height) jpeg_write_scanlines(&encoder, rows, 1);
  jpeg_finish_compress(&encoder);
  jpeg_destroy_compress(&encoder);
  std::string content(reinterpret_cast<char*>(bytes), size);
  std::free(bytes);
  return content;
}

/// Five rows, and eight columns for each set of cyan, magenta, yellow and black, 255 being all of
/// an ink. `inverted`: as Adobe's programs write it, with their marker.
std::string jpeg_of_inks(const std::vector<std::array<int, 4>>& columns, J_COLOR_SPACE space,
                         bool inverted) {
  std::vector<unsigned char> row;
  for (const auto& inks : columns)
    for (int pixel = 0; pixel < 8; ++pixel)
      for (const int ink : inks)
        row.push_back(static_cast<unsigned char>(inverted ? 255 - ink : ink));
  return jpeg_of(row, 5, JCS_CMYK, 4, [&](jpeg_compress_struct& encoder) {
    jpeg_set_colorspace(&encoder, space);
    for (int i = 0; i < 4; ++i)
      encoder.comp_info[i].h_samp_factor = encoder.comp_info[i].v_samp_factor = 1;
    jpeg_set_quality(&encoder, 100, TRUE);
    encoder.write_Adobe_marker = inverted ? TRUE : FALSE;
  });
}

/// A progressive JPEG that has a scan for each bit of each coefficient.
std::string jpeg_of_scans() {
  constexpr int kBits = 10;
  std::vector<jpeg_scan_info> scans;
  for (int bit = kBits; bit >= 0; --bit)
    for (int coefficient = 0; coefficient < 64; ++coefficient)
      scans.push_back({1, {0}, coefficient, coefficient, bit == kBits ? 0 : bit + 1, bit});
  return jpeg_of({0, 30, 60, 90, 120, 150, 180, 210}, 8, JCS_GRAYSCALE, 1,
                 [&](jpeg_compress_struct& encoder) {
                   encoder.scan_info = scans.data();
                   encoder.num_scans = static_cast<int>(scans.size());
                 });
}

Array bytes(const std::vector<std::uint8_t>& pixels, const Shape& shape) { return {pixels, shape}; }

}  // namespace

TEST_CASE("png and jpeg files of every kind are read as Pillow reads them") {
  const TensorFile expected(image_path("pixels.safetensors"));
  for (const std::string name : kImages) {
    CAPTURE(name);
    const Array image = read_image(image_path(name)), grey = read_image(image_path(name), 1);
    CHECK(image.shape() == Shape{9, 13, 3});
    CHECK(grey.shape() == Shape{9, 13, 1});
    const int tolerance = name.ends_with("png") ? 0 : 2;  // versions of libjpeg round differently
    CHECK(largest_difference(image, expected[name]) <= tolerance);
    CHECK(largest_difference(grey, expected[name + ".grey"]) <= tolerance + 1);
  }
}

TEST_CASE("jpeg files of printing inks are read in colours") {
  // Every column of blocks in one set of inks, so that compression loses nothing but rounding.
  const std::vector<std::array<int, 4>> columns = {{0, 0, 0, 0},     {255, 0, 0, 0},
                                                   {0, 255, 0, 64},  {10, 40, 90, 128},
                                                   {200, 3, 77, 30}, {0, 0, 0, 255}};
  for (const bool inverted : {true, false})
    for (const J_COLOR_SPACE space : {JCS_CMYK, JCS_YCCK}) {
      if (space == JCS_YCCK && !inverted) continue;  // only Adobe's marker says that it is YCCK
      CAPTURE(inverted);
      CAPTURE(space);
      const TemporaryFile file("inks.jpg", jpeg_of_inks(columns, space, inverted));
      const Array image = read_image(file.path());
      REQUIRE(image.shape() == Shape{5, 8 * static_cast<std::int64_t>(columns.size()), 3});
      const auto pixels = image.elements_as<std::uint8_t>();
      for (std::size_t i = 0; i < pixels.size(); ++i) {
        const auto& inks = columns[i / 3 % (8 * columns.size()) / 8];
        const double light = 255 * (1 - inks[i % 3] / 255.0) * (1 - inks[3] / 255.0);
        CHECK(std::abs(pixels[i] - light) <= (space == JCS_YCCK ? 3 : 2));
      }
      CHECK(read_image(file.path(), 1).shape() == Shape{5, image.shape()[1], 1});
    }
}

TEST_CASE("resizing takes the middle and interpolates between pixel centres") {
  const Array row = bytes({0, 10, 20, 30}, {1, 4, 1});
  CHECK(to_string(resized_image(row, 1, 1)) == to_string(bytes({15}, {1, 1, 1})));
  CHECK(to_string(resized_image(row, 1, 2)) == to_string(bytes({10, 20}, {1, 2, 1})));
  const Array square = bytes({0, 100, 200, 60}, {2, 2, 1});
  CHECK(to_string(resized_image(square, 2, 2)) == to_string(square));
  CHECK(to_string(resized_image(square, 1, 1)) == to_string(bytes({90}, {1, 1, 1})));
  CHECK(to_string(resized_image(square, 4, 4)) ==
        to_string(bytes({0, 25, 75, 100, 50, 60, 80, 90, 150, 130, 90, 70, 200, 165, 95, 60},
                        {4, 4, 1})));
}

TEST_CASE("a folder's sub-folders are classes, its images rows") {
  const TemporaryFolder folder("image_folder");
  folder.add("dog", "b.PNG", "grey.png");
  folder.add("dog", "a.jpg", "colour.jpg");
  folder.add("cat", "z.png", "colour.png");
  folder.add("cat", ".hidden.png", "colour.png");
  std::ofstream(folder.path + "/cat/notes.txt") << "no image";
  const ImageFolder images = open_image_folder(folder.path);
  CHECK(images.classes == std::vector<std::string>{"cat", "dog"});
  CHECK(images.labels == std::vector<std::int32_t>{0, 1, 1});
  CHECK(images.paths[1] == "image_folder/dog/a.jpg");
  const Dataset all = load_images(images);
  CHECK(all.x.shape() == Shape{3, 9 * 13 * 3});
  CHECK(all.classes == 2);
  CHECK(all.x.at<float>(0, 3) == doctest::Approx(20 / 255.0));
  const ImageFolder small =
      open_image_folder(folder.path, {.height = 4, .width = 6, .channels = 1});
  int rows = 0;
  for (const auto& batch : batches(small, 2, 1).epoch(0)) {
    const Array &x = batch.at("x"), &y = batch.at("y");
    CHECK(x.shape() == Shape{y.shape()[0], 4, 6, 1});
    rows += static_cast<int>(y.shape()[0]);
  }
  CHECK(rows == 3);
}

TEST_CASE("mistakes in images and their folders") {
  const TemporaryFile text("text.png", "no image"), cut("cut.jpg", "");
  CHECK(error_of([&] { read_image(text.path()); }) == "text.png: is neither a PNG nor a JPEG file");
  const std::string whole =
      TemporaryFile("copy.png", read_file(image_path("colour.png"), {"", 1 << 20})).content();
  const TemporaryFile half("half.png", whole.substr(0, whole.size() / 2));
  CHECK(error_of([&] {
          read_image(half.path());
        }).starts_with("half.png: is no PNG that can be read: "));
  const std::string jpeg = read_file(image_path("colour.jpg"), {"", 1 << 20});
  const TemporaryFile part("part.jpg", jpeg.substr(0, jpeg.size() - 40));
  CHECK(error_of([&] { read_image(part.path()); }) ==
        "part.jpg: is no JPEG that can be read: Premature end of JPEG file");
  const TemporaryFile scans("scans.jpg", jpeg_of_scans());
  CHECK(error_of([&] { read_image(scans.path()); }) ==
        "scans.jpg: is no JPEG that can be read: it has more than 500 scans");
  CHECK(error_of([&] { read_image(text.path(), 2); }) ==
        "read_image: 2 channels; give 3 for colours or 1 for grey");
  const TemporaryFolder folder("bad_folder");
  CHECK(error_of([&] { open_image_folder(folder.path); }) ==
        "bad_folder: has no sub-folders; give a folder with one per class");
  folder.add("a", "1.png", "colour.png");
  fs::create_directory("bad_folder/b");
  CHECK(error_of([&] { open_image_folder(folder.path); }) ==
        "bad_folder/b: has no .png, .jpg or .jpeg file; remove the folder, or fill it");
  CHECK(error_of([&] { open_image_folder(folder.path, {.height = 4}); }) ==
        "ImageFolderOptions: height 4 and width 0; give both or neither");
  CHECK(error_of([&] { open_image_folder("no_folder"); }) ==
        "no_folder: cannot be read: No such file or directory");
  fs::remove("bad_folder/b");
  std::ofstream("bad_folder/a/\x01.png") << "no image";
  CHECK(error_of([&] { load_images(open_image_folder(folder.path)); }) ==
        "bad_folder/a/\\x01.png: is neither a PNG nor a JPEG file");
  fs::create_symlink("2.png", "bad_folder/a/2.png");
  CHECK(error_of([&] { open_image_folder(folder.path); }) ==
        "bad_folder/a/2.png: cannot be read: Too many levels of symbolic links");
  const Array small = resized_image(read_image(image_path("colour.png")), 2, 2);
  CHECK(error_of([&] { resized_image(small, 0, 2); }) ==
        "resized_image: 2 × 0 pixels; give at least 1, and at most 2^28 together");
}

}  // namespace images_test
