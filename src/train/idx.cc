// The IDX files of MNIST and its kin: two zero bytes, the element type (8: unsigned byte), the number of
// dimensions, the big-endian extents, then the elements. zlib's gzread reads gzip'd and plain files alike.
#include <sys/stat.h>
#include <zlib.h>

#include <memory>

#include "alpa/train/dataset.h"

namespace alpa {
namespace {

constexpr int kUnsignedByte = 8;

class GzipFile {
 public:
  explicit GzipFile(const std::string& path) : path_(path), file_(gzopen(path.c_str(), "rb"), gzclose) {
    require(file_ != nullptr, "{}: cannot be opened", path);
  }

  /// Throws Error if fewer than `size` bytes are left, or they are damaged.
  void read(void* data, std::size_t size) {
    auto* out = static_cast<unsigned char*>(data);
    while (size > 0) {
      const auto chunk = static_cast<unsigned>(std::min<std::size_t>(size, 1U << 30));
      const int got = gzread(file_.get(), out, chunk);
      require(got > 0, "{}: the file is damaged or ends too early", path_);
      out += got;
      size -= static_cast<std::size_t>(got);
    }
  }

  std::int64_t read_big_endian() {
    unsigned char b[4];
    read(b, sizeof b);
    return (std::int64_t{b[0]} << 24) | (b[1] << 16) | (b[2] << 8) | b[3];
  }

 private:
  std::string path_;
  std::unique_ptr<gzFile_s, int (*)(gzFile)> file_;
};

bool exists(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0;
}

std::string find_idx(const std::string& directory, const std::string& name) {
  for (const std::string& path : {directory + "/" + name + ".gz", directory + "/" + name})
    if (exists(path)) return path;
  fail(
      "Fashion-MNIST: {}/{}.gz does not exist; install Debian's package with `apt-get install "
      "dataset-fashion-mnist`, or give the "
      "directory that holds the four IDX files",
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
  require(
      images.shape().size() == 3 && labels.shape().size() == 1 && images.shape()[0] == labels.shape()[0],
      "Fashion-MNIST: {} is {} and {} is {}; expected as many images [n, 28, 28] as labels [n]", image_path,
      to_string(images.type()), label_path, to_string(labels.type()));
  return {scaled_images(images), labels.cast(i32), 10};
}

}  // namespace

Array read_idx(const std::string& path) {
  GzipFile file(path);
  unsigned char magic[4];
  file.read(magic, sizeof magic);
  require(magic[0] == 0 && magic[1] == 0 && magic[2] == kUnsignedByte && magic[3] >= 1,
          "{}: not an IDX file of unsigned bytes (it starts with {} {} {} {}; expected 0 0 8 and the "
          "number of dimensions)",
          path, magic[0], magic[1], magic[2], magic[3]);
  Shape shape;
  for (int i = 0; i < magic[3]; ++i) shape.push_back(file.read_big_endian());
  require(num_elements(shape) > 0 && num_elements(shape) < (std::int64_t{1} << 36),
          "{}: has shape {}; expected between 1 and 2^36 bytes", path, to_string(shape));
  Array array(TensorType{u8, shape});
  file.read(array.mutable_data(), static_cast<std::size_t>(array.bytes()));
  return array;
}

TrainingAndTestSet load_fashion_mnist(const std::string& directory) {
  return {load_part(directory, "train"), load_part(directory, "t10k")};
}

}  // namespace alpa
