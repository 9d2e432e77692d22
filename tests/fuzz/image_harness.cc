// Images, and folders of them.
#include <alpa/data/images.h>
#include "src/base/file.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "fuzz/harness.h"
#include "support/golden.h"
#include "support/temporary_file.h"

namespace alpa::fuzz {
namespace {

namespace fs = std::filesystem;

const char* const kFolder = "fuzz_images";

std::string golden_image(const char* name) {
  return read_file(testing::golden_path(std::string("images/") + name), {"", 1 << 20});
}

/// A name that leads nowhere else.
bool is_plain(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.size() < 200 &&
         name.find('/') == name.npos && name.find('\0') == name.npos;
}

/// Puts an entry of a kind at `path`: a good image, no image, a folder, a link to itself, a pipe.
void make_entry(const fs::path& path, const std::string& kind) {
  static const std::string image = golden_image("colour.png");
  std::error_code ignored;  // the name may be taken
  if (kind == "image") std::ofstream(path) << image;
  if (kind == "text") std::ofstream(path) << "no image";
  if (kind == "folder") fs::create_directory(path, ignored);
  if (kind == "link") fs::create_symlink(path.filename(), path, ignored);
  if (kind == "pipe") mkfifo(path.c_str(), 0600);
}

/// A folder for each line "FOLDER NAME KIND", with what is in it.
void make_folder(const std::string& text) {
  fs::remove_all(kFolder);
  fs::create_directory(kFolder);
  std::istringstream lines(text);
  std::string line;
  for (int made = 0; made < 100 && std::getline(lines, line); ++made) {
    std::istringstream words(line);
    std::string folder, name, kind;
    words >> folder >> name >> kind;
    if (!is_plain(folder) || !is_plain(name)) continue;
    std::error_code ignored;
    fs::create_directory(fs::path(kFolder) / folder, ignored);
    make_entry(fs::path(kFolder) / folder / name, kind);
  }
}

}  // namespace

int fuzz_image(const std::uint8_t* data, std::size_t size) {
  const testing::TemporaryFile file("fuzz_image", {reinterpret_cast<const char*>(data), size});
  accepts([&] {
    const Array image = read_image(file.path());
    const Shape& shape = image.shape();
    if (image.bytes() != shape[0] * shape[1] * 3) throw std::logic_error("an image of other bytes");
    resized_image(image, 3, 4);
    if (read_image(file.path(), 1).shape() != Shape{shape[0], shape[1], 1})
      throw std::logic_error("a grey image of another size");
  });
  return 0;
}

std::vector<std::string> image_seeds() {
  std::vector<std::string> seeds;
  for (const char* name : {"colour.png", "grey.png", "palette.png", "transparent.png",
                           "bilevel.png", "colour.jpg", "grey.jpeg", "progressive.jpg"})
    seeds.push_back(golden_image(name));
  return seeds;
}

int fuzz_image_folder(const std::uint8_t* data, std::size_t size) {
  make_folder({reinterpret_cast<const char*>(data), size});
  accepts([&] {
    const ImageFolder folder = open_image_folder(kFolder, {.height = 3, .width = 4});
    const Dataset all = load_images(folder);
    if (all.size() != folder.size() || all.features() != 36)
      throw std::logic_error("a folder that gives other images than it has");
  });
  fs::remove_all(kFolder);
  return 0;
}

std::vector<std::string> image_folder_seeds() {
  return {
      "cat a.png image\ncat b.PNG image\ndog c.jpg image\ndog notes.txt text\n",
      "a 1.png image\na .hidden.png link\nb 2.jpeg image\nb 3.png folder\nc 4.png pipe\nc 5.jpg "
      "image\n"};
}

}  // namespace alpa::fuzz
