// Examples: CSV and IDX.
#include <alpa/data/dataset.h>
#include <fmt/format.h>
#include "src/base/file.h"

#include <cmath>
#include <stdexcept>

#include "fuzz/harness.h"
#include "support/gzip.h"

namespace alpa::fuzz {
namespace {

/// One row per example, numbers as short as they read back.
std::string csv_text(const Dataset& data) {
  const std::vector<double> x = data.x.to_doubles(), y = data.y.to_doubles();
  std::string text;
  for (std::int64_t row = 0; row < data.size(); ++row) {
    for (std::int64_t column = 0; column < data.features(); ++column)
      text += fmt::format("{},", static_cast<float>(x[row * data.features() + column]));
    const auto target = static_cast<float>(y[row]);
    // A target with '.' is not a class.
    text += data.classes > 0 ? fmt::format("{:.0f}\n", target) : fmt::format("{:e}\n", target);
  }
  return text;
}

void check_finite(const Dataset& data) {
  for (const Array* array : {&data.x, &data.y})
    for (double value : array->to_doubles())
      if (!std::isfinite(value)) throw std::logic_error("an example that is not finite");
}

std::string idx_text(const Array& array) {
  std::string text{0, 0, 8, static_cast<char>(array.shape().size())};
  for (std::int64_t extent : array.shape())
    for (int shift : {24, 16, 8, 0}) text += static_cast<char>(extent >> shift);
  return text.append(reinterpret_cast<const char*>(array.data()),
                     static_cast<std::size_t>(array.bytes()));
}

}  // namespace

int fuzz_csv(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  Dataset read;
  if (!accepts([&] { read = parse_csv(text, "data.csv"); })) return 0;
  check_finite(read);
  const std::string printed = csv_text(read);
  expect_same(printed, csv_text(parse_csv(printed, "data.csv")));
  return 0;
}

std::vector<std::string> csv_seeds() {
  return {"a,b,kind\n1.5,-2,0\n3,4e1,2\r\n\n +5 , 6,1\n",
          "\xef\xbb\xbf"
          "1,2\n3,4.0\n-5e-3,1e30\n",
          "1,2,3,4\n5,6,7,8\n"};
}

int fuzz_idx(const std::uint8_t* data, std::size_t size) {
  constexpr FileKind kFile{"", 1 << 24};
  std::string printed;
  const auto parse = [&] {
    printed = idx_text(
        parse_idx(unpack({reinterpret_cast<const char*>(data), size}, "x.idx", kFile), "x.idx"));
  };
  if (accepts(parse)) expect_same(printed, idx_text(parse_idx(printed, "x.idx")));
  return 0;
}

std::vector<std::string> idx_seeds() {
  const std::string images({0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3, 1, 2, 3, 4, 5, '\xff'});
  const std::string labels({0, 0, 8, 1, 0, 0, 0, 5, 9, 8, 7, 6, 5});
  return {images, labels, testing::gzipped(images)};
}

}  // namespace alpa::fuzz
