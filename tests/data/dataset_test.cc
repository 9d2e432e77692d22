// Reading, making, shuffling and slicing examples.
#include <alpa/data/dataset.h>
#include <doctest/doctest.h>
#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <numeric>

#include "support/error_text.h"
#include "support/temporary_file.h"

namespace dataset_test {

using namespace alpa;
using namespace alpa::testing;

namespace {

Dataset csv(const std::string& text) {
  return read_csv(TemporaryFile("dataset_test.csv", text).path());
}
std::string csv_error(const std::string& text) {
  return error_of([&] { csv(text); });
}

const std::string kIdx({0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3, 1, 2, 3, 4, 5, '\xff'});

}  // namespace

TEST_CASE("a CSV file whose last column is whole numbers holds classes") {
  const Dataset data = csv("a,b,kind\n1.5,-2,0\n3,4e1,2\r\n\n +5 , 6,1\n");
  CHECK(data.x.shape() == Shape{3, 2});
  CHECK(data.x.to_doubles() == std::vector<double>{1.5, -2, 3, 40, 5, 6});
  CHECK(data.y.type() == TensorType{i32, {3}});
  CHECK(data.y.to_doubles() == std::vector<double>{0, 2, 1});
  CHECK(data.classes == 3);
}

TEST_CASE("a CSV file with another last column holds values to predict") {
  const Dataset data = csv("1,2\n3,4.0\n");
  CHECK(data.y.type() == TensorType{f32, {2, 1}});
  CHECK(data.y.to_doubles() == std::vector<double>{2, 4});
  CHECK(data.classes == 0);
  CHECK(csv("1,-1\n").classes == 0);
}

TEST_CASE("a bad CSV file is an error that names line and column") {
  CHECK(csv_error("1,2\n3,x\n") == "dataset_test.csv: line 2, column 2: 'x' is not a number");
  CHECK(csv_error("1,2\n3,\n") == "dataset_test.csv: line 2, column 2: '' is not a number");
  CHECK(csv_error("a,b\n1,2\n1,2,3\n") ==
        "dataset_test.csv: line 3 has 3 columns, but the first has 2");
  CHECK(
      csv_error("7\n") ==
      "dataset_test.csv: line 1 has one column; at least one feature and the value to predict are "
      "needed");
  CHECK(csv_error("a,b\n") == "dataset_test.csv: holds no examples");
  CHECK(error_of([] { read_csv("missing.csv"); }) ==
        "missing.csv: cannot be read: No such file or directory");
}

TEST_CASE("an IDX file is read plain and gzip'd") {
  const TemporaryFile plain("dataset_test.idx", kIdx);
  const Array array = read_idx(plain.path());
  CHECK(array.type() == TensorType{u8, {2, 3}});
  CHECK(array.to_doubles() == std::vector<double>{1, 2, 3, 4, 5, 255});
  const TemporaryFile zipped("dataset_test.idx.gz", "");
  gzFile file = gzopen(zipped.path().c_str(), "wb");
  gzwrite(file, kIdx.data(), static_cast<unsigned>(kIdx.size()));
  gzclose(file);
  CHECK(read_idx(zipped.path()).to_doubles() == array.to_doubles());
}

TEST_CASE("a damaged IDX file is an error that names it") {
  const TemporaryFile text("dataset_test.idx", "hello, world");
  CHECK(error_of([&] { read_idx(text.path()); }) ==
        "dataset_test.idx: not an IDX file of unsigned bytes (it starts with 104 101 108 108; "
        "expected 0 0 8 and the number of dimensions)");
  const TemporaryFile cut("dataset_test.idx", kIdx.substr(0, 15));
  CHECK(error_of([&] { read_idx(cut.path()); }) ==
        "dataset_test.idx: has shape [2, 3], so 6 elements, but holds 3; the file is damaged");
  const TemporaryFile header("dataset_test.idx", kIdx.substr(0, 7));
  CHECK(error_of([&] { read_idx(header.path()); }) ==
        "dataset_test.idx: the file ends within its header");
  CHECK(error_of([] { load_fashion_mnist("nowhere"); }) ==
        "Fashion-MNIST: nowhere/train-images-idx3-ubyte.gz does not exist; "
        "install Debian's package with `apt-get install dataset-fashion-mnist`, "
        "or give the directory that holds the four IDX files");
}

TEST_CASE("an IDX file whose extents overflow, or ask for more than it holds, allocates nothing") {
  const auto file_of = [](const std::string& extents) {
    return std::string({0, 0, 8, 3}) + extents;
  };
  const TemporaryFile overflow(
      "dataset_test.idx", file_of(std::string("\0\1\0\1\xc1\xf7\xb7\xd8\x83\x92\x4c\x7e", 12)) +
                              std::string(40016, 'x'));
  CHECK(
      error_of([&] { read_idx(overflow.path()); }) ==
      "dataset_test.idx is u8[65537, 3254237144, 2207403134]; a tensor has at most 2^50 elements");
  const TemporaryFile large("dataset_test.idx",
                            file_of(std::string("\0\0\x10\0\0\0\x10\0\0\0\x0f\xff", 12)));
  CHECK(error_of([&] { read_idx(large.path()); }) ==
        "dataset_test.idx: has shape [4096, 4096, 4095], so 68702699520 elements, but holds 0; "
        "the file is damaged");
  const TemporaryFile none("dataset_test.idx", file_of(std::string(12, '\0')));
  CHECK(error_of([&] { read_idx(none.path()); }) ==
        "dataset_test.idx: has shape [0, 0, 0]; extents must be at least 1");
}

TEST_CASE("a CSV file may begin with a byte-order mark") {
  const Dataset data =
      csv("\xef\xbb\xbf"
          "1,2.5\n3,4\n");
  CHECK(data.x.to_doubles() == std::vector<double>{1, 3});
  CHECK(csv("\xef\xbb\xbf"
            "a,b\n1,2\n")
            .x.to_doubles() == std::vector<double>{1});
}

TEST_CASE("a CSV file with numbers that are not finite is refused") {
  const auto refused = [](const std::string& cell, int line, int column) {
    return fmt::format(
        "dataset_test.csv: line {}, column {}: '{}' is not a finite number of 32 bits; "
        "leave the row out or give it a value",
        line, column, cell);
  };
  CHECK(csv_error("1,2\n3,nan\n") == refused("nan", 2, 2));
  CHECK(csv_error("1,2\n-inf,3\n") == refused("-inf", 2, 1));
  CHECK(csv_error("1,2\n1e39,3\n") == refused("1e39", 2, 1));
  CHECK(csv_error("nan,inf\n1,2\n") == refused("nan", 1, 1));  // no line of column names
  CHECK(csv("1e-60,2.5\n-1e-60,3\n").x.to_doubles() == std::vector<double>{0, 0});
}

TEST_CASE("what a message quotes of a CSV file is short and on one line") {
  CHECK(csv_error("1,2\n3," + std::string(100'000, 'x') + "\n") ==
        "dataset_test.csv: line 2, column 2: '" + std::string(57, 'x') + "...' is not a number");
  CHECK(csv_error("1,2\n3,a\rb\n") ==
        "dataset_test.csv: line 2, column 2: 'a\\rb' is not a number");
}

TEST_CASE("the tutorial's examples follow a linear law up to noise of a tenth") {
  const std::int64_t n = 400, dim = 3;
  const Dataset data = linear_dataset(n, dim, 7);
  CHECK(data.x.to_doubles() == linear_dataset(n, dim, 7).x.to_doubles());
  CHECK(data.x.to_doubles() != linear_dataset(n, dim, 8).x.to_doubles());
  // Three examples and the mean determine nothing yet; the residual of least squares over all 400
  // is the noise: its mean square is 0.01 (1 - 4/400) ± 0.01·sqrt(2/396)·4.
  const std::vector<double> x = data.x.to_doubles(), y = data.y.to_doubles();
  double a[4][5] = {};
  for (std::int64_t row = 0; row < n; ++row) {
    const double features[4] = {x[row * dim], x[row * dim + 1], x[row * dim + 2], 1};
    for (int i = 0; i < 4; ++i) {
      for (int j = 0; j < 4; ++j) a[i][j] += features[i] * features[j];
      a[i][4] += features[i] * y[row * dim];
    }
  }
  for (int pivot = 0; pivot < 4; ++pivot)
    for (int i = 0; i < 4; ++i) {
      if (i == pivot) continue;
      const double factor = a[i][pivot] / a[pivot][pivot];
      for (int j = pivot; j < 5; ++j) a[i][j] -= factor * a[pivot][j];
    }
  double squares = 0;
  for (std::int64_t row = 0; row < n; ++row) {
    double residual = y[row * dim] - a[3][4] / a[3][3];
    for (int i = 0; i < 3; ++i) residual -= a[i][4] / a[i][i] * x[row * dim + i];
    squares += residual * residual;
  }
  CHECK(squares / static_cast<double>(n) == doctest::Approx(0.0099).epsilon(0.3));
}

TEST_CASE("a shuffle is a permutation and a function of seed and epoch") {
  const std::vector<std::int64_t> order = shuffled_indices(1000, 3, 0);
  std::vector<std::int64_t> sorted = order, identity(1000);
  std::sort(sorted.begin(), sorted.end());
  std::iota(identity.begin(), identity.end(), 0);
  CHECK(sorted == identity);
  CHECK(order != identity);
  CHECK(order == shuffled_indices(1000, 3, 0));
  CHECK(order != shuffled_indices(1000, 3, 1));
  CHECK(order != shuffled_indices(1000, 4, 0));
}

TEST_CASE("every element is as likely in every place") {
  int counts[4][4] = {};
  for (int epoch = 0; epoch < 4000; ++epoch) {
    const std::vector<std::int64_t> order = shuffled_indices(4, 1, epoch);
    for (int place = 0; place < 4; ++place) ++counts[place][order[place]];
  }
  for (const auto& row : counts)
    for (int count : row)
      CHECK(std::abs(count - 1000) < 5 * std::sqrt(4000 * 0.25 * 0.75));  // five deviations
}

TEST_CASE("rows are taken in the order asked for") {
  const Array array(std::vector<std::int32_t>{1, 2, 3, 4, 5, 6}, {3, 2});
  const std::vector<std::int64_t> rows = {2, 0, 2};
  CHECK(take_rows(array, rows).to_doubles() == std::vector<double>{5, 6, 1, 2, 5, 6});
  CHECK(take_rows(array, rows).shape() == Shape{3, 2});
  const std::vector<std::int64_t> bad = {3};
  CHECK(error_of([&] { take_rows(array, bad); }) == "take_rows: row 3 of an array of 3 rows");
}

}  // namespace dataset_test
