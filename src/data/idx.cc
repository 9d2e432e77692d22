// src/data/idx.cc — reads Fashion-MNIST and other IDX files: two zero bytes, the element type (8:
// unsigned byte), the number of dimensions, the big-endian extents, then the elements
#include <sys/stat.h>

#include <cstring>

#include "alpa/data/dataset.h"
#include "src/base/file.h"

namespace alpa {
namespace {

constexpr FileKind kIdxFile{"", std::int64_t{4} << 30};
constexpr int kUnsignedByte = 8;

/// The unread rest of a file, consumed from the front.
class Bytes {
 public:
  Bytes(std::string_view rest, const std::string& path) : rest_(rest), path_(path) {}

  std::string_view rest() const { return rest_; }

  unsigned byte() {
    require(!rest_.empty(), "{}: the file ends within its header", path_);
    const auto value = static_cast<unsigned char>(rest_.front());
    rest_.remove_prefix(1);
    return value;
  }
  std::int64_t big_endian() {
    std::int64_t value = 0;
    for (int i = 0; i < 4; ++i) value = value << 8 | byte();
    return value;
  }

 private:
  std::string_view rest_;
  const std::string& path_;
};

/// Extents from the file's header.
TensorType read_header(Bytes& bytes, const std::string& path) {
  unsigned magic[4];
  for (unsigned& part : magic) part = bytes.byte();
  require(magic[0] == 0 && magic[1] == 0 && magic[2] == kUnsignedByte && magic[3] >= 1,
          "{}: not an IDX file of unsigned bytes (it starts with {} {} {} {}; "
          "expected 0 0 8 and the number of dimensions)",
          path, magic[0], magic[1], magic[2], magic[3]);
  TensorType type{u8, {}};
  for (unsigned i = 0; i < magic[3]; ++i) type.shape.push_back(bytes.big_endian());
  check_type(type, path);
  for (std::int64_t extent : type.shape)
    require(extent >= 1, "{}: has shape {}; extents must be at least 1", path,
            to_string(type.shape));
  return type;
}

bool exists(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0;
}

std::string find_idx(const std::string& directory, const std::string& name) {
  for (const std::string& path : {directory + "/" + name + ".gz", directory + "/" + name})
    if (exists(path)) return path;
  fail(
      "Fashion-MNIST: {}/{}.gz does not exist; install Debian's package with `apt-get install "
      "dataset-fashion-mnist`, or give the directory that holds the four IDX files",
      directory, name);
}

/// Pixels as features in [0, 1], one image per row.
Array scaled_images(const Array& images) {
  const std::int64_t count = images.shape()[0];
  Array x(TensorType{f32, {count, images.elements() / count}});
  const auto pixels = images.elements_as<std::uint8_t>();
  auto out = x.mutable_elements_as<float>();
  for (std::size_t i = 0; i < pixels.size(); ++i) out[i] = static_cast<float>(pixels[i]) / 255.0F;
  return x;
}

Dataset load_part(const std::string& directory, const std::string& part) {
  const std::string image_path = find_idx(directory, part + "-images-idx3-ubyte");
  const std::string label_path = find_idx(directory, part + "-labels-idx1-ubyte");
  const Array images = read_idx(image_path), labels = read_idx(label_path);
  require(images.shape().size() == 3 && labels.shape().size() == 1 &&
              images.shape()[0] == labels.shape()[0],
          "Fashion-MNIST: {} is {} and {} is {}; expected as many images [n, 28, 28] as labels [n]",
          image_path, to_string(images.type()), label_path, to_string(labels.type()));
  return {scaled_images(images), labels.cast(i32), 10};
}

}  // namespace

Array parse_idx(const std::string& content, const std::string& path) {
  Bytes bytes(content, path);
  const TensorType type = read_header(bytes, path);
  // Compared before anything is allocated: a header can ask for much more than the file holds.
  require(static_cast<std::int64_t>(bytes.rest().size()) == type.bytes(),
          "{}: has shape {}, so {} elements, but holds {}; the file is damaged", path,
          to_string(type.shape), type.bytes(), bytes.rest().size());
  Array array(type);
  std::memcpy(array.mutable_data(), bytes.rest().data(), bytes.rest().size());
  return array;
}

Array read_idx(const std::string& path) { return parse_idx(read_file(path, kIdxFile), path); }

TrainingAndTestSet load_fashion_mnist(const std::string& directory) {
  return {load_part(directory, "train"), load_part(directory, "t10k")};
}

}  // namespace alpa
