// Host arrays: construction, views, conversion, Eigen.
#include <alpa/eigen.h>
#include <alpa/tensor/array.h>
#include <doctest/doctest.h>

#include <cmath>

namespace array_test {

using namespace alpa;

TEST_CASE("an array copies what it is made from and shares what is copied from it") {
  std::vector<float> data = {1, 2, 3, 4, 5, 6};
  Array array(data, {2, 3});
  data[0] = 9;
  CHECK(array.to_doubles() == std::vector<double>{1, 2, 3, 4, 5, 6});
  Array copy = array;
  copy.mutable_elements_as<float>()[1] = 7;
  CHECK(array.to_doubles()[1] == 7);
}

TEST_CASE("a view reads the caller's memory") {
  double data[] = {1, 2};
  const Array view = Array::view(data, {f64, {2}});
  data[1] = 5;
  CHECK(view.to_doubles() == std::vector<double>{1, 5});
}

TEST_CASE("conversion rounds to nearest even and truncates to integers") {
  const Array x(std::vector<double>{1.00390625, 1.01171875, -2.7, 2.7},
                {4});  // 1 + 2^-8 and 1 + 3·2^-8: ties in bf16
  CHECK(x.cast(bf16).to_doubles()[0] == 1.0);
  CHECK(x.cast(bf16).to_doubles()[1] == 1.015625);
  CHECK(x.cast(i32).to_doubles()[2] == -2);
  CHECK(x.cast(i32).to_doubles()[3] == 2);
  CHECK(x.cast(f16).type() == TensorType{f16, {4}});
  CHECK(x.cast(f64).to_doubles() == x.to_doubles());
}

TEST_CASE("whole numbers of 64 bits become i32, unless one does not fit") {
  const std::vector<std::int64_t> labels{3, -1, 2147483647, -2147483648};
  CHECK(Array(labels, {2, 2}).type() == TensorType{i32, {2, 2}});
  CHECK(Array(labels, {2, 2}).to_doubles() ==
        std::vector<double>{3, -1, 2147483647, -2147483648.0});
  CHECK_THROWS_WITH_AS(Array(std::vector<std::int64_t>{1, 1LL << 31}, {2}),
                       "Array: element 1 is 2147483648, which i32 does not hold; numbers must be "
                       "between -2147483648 and 2147483647",
                       Error);
  CHECK_THROWS_WITH_AS(Array(labels, {3}), "Array: 4 elements given for shape [3] which has 3",
                       Error);
}

TEST_CASE("elements of any type are copied as they are stored") {
  std::vector<std::uint16_t> bits{0x3f80, 0xc000};  // 1 and -2 in bf16
  const Array numbers = Array::copy(bits.data(), {bf16, {2}});
  bits[0] = 0;
  CHECK(numbers.to_doubles() == std::vector<double>{1, -2});
  const std::uint16_t half = 0x3c00;  // 1 in f16
  CHECK(Array::copy(&half, {f16, {}}).to_doubles() == std::vector<double>{1});
  CHECK(Array::copy(nullptr, {f16, {0}}).elements() == 0);
}

TEST_CASE("wrong counts and element types are errors") {
  const std::vector<float> data = {1, 2, 3};
  CHECK_THROWS_WITH_AS(Array(data, {2, 2}), "Array: 3 elements given for shape [2, 2] which has 4",
                       Error);
  CHECK_THROWS_WITH_AS(Array(data, {3}).elements_as<double>(), "Array: holds f32, not f64", Error);
}

TEST_CASE("an element is read and written at an index per dimension") {
  Array array(std::vector<std::int32_t>{1, 2, 3, 4, 5, 6}, {2, 3});
  array.at<std::int32_t>(1, 2) = 7;
  const Array& same = array;
  CHECK(same.at<std::int32_t>(1, 2) == 7);
  CHECK(same.at<std::int32_t>(std::size_t{0}, 1) == 2);
  CHECK(array.to_doubles() == std::vector<double>{1, 2, 3, 4, 5, 7});
  CHECK(Array(std::vector<float>{3}, {}).at<float>() == 3);
}

TEST_CASE("an element that is not there is an error") {
  Array array(TensorType{f32, {2, 3}});
  CHECK_THROWS_WITH_AS(
      array.at<float>(1, 3),
      "Array: index [1, 3] is outside f32[2, 3]; in dimension 1 it must be at least 0 and less "
      "than 3",
      Error);
  CHECK_THROWS_WITH_AS(
      array.at<float>(-1, 0),
      "Array: index [-1, 0] is outside f32[2, 3]; in dimension 0 it must be at least 0 and less "
      "than 2",
      Error);
  CHECK_THROWS_WITH_AS(
      array.at<float>(1),
      "Array: index [1] has 1 places, but the array is f32[2, 3]; give one per dimension", Error);
  CHECK_THROWS_WITH_AS(array.at<double>(1, 1), "Array: holds f32, not f64", Error);
  CHECK_THROWS_WITH_AS(Array().at<float>(),
                       "Array: index [] of an array without a type; make it with Array(type)",
                       Error);
}

TEST_CASE("an array's text has type and elements, of many only those at the ends") {
  CHECK(to_string(Array(std::vector<float>{1, 2.5F, -3, 1e-7F}, {2, 2})) ==
        "f32[2, 2] [[1, 2.5], [-3, 1e-07]]");
  CHECK(to_string(Array(std::vector<double>{0.1}, {})) == "f64[] 0.1");
  CHECK(to_string(Array(std::vector<float>{0.5F}, {1}).cast(bf16)) == "bf16[1] [0.5]");
  CHECK(to_string(Array(TensorType{u8, {2, 0}})) == "u8[2, 0] [[], []]");
  CHECK(to_string(Array()) == "an array without a type");
  std::vector<std::int32_t> many(200);
  for (std::size_t i = 0; i < many.size(); ++i) many[i] = static_cast<std::int32_t>(i);
  CHECK(to_string(Array(many, {2, 100})) ==
        "i32[2, 100] [[0, 1, 2, ..., 97, 98, 99], [100, 101, 102, ..., 197, 198, 199]]");
  CHECK(to_string(Array(TensorType{u8, {std::int64_t{1} << 40, 0}})) ==
        "u8[1099511627776, 0] [[], [], [], ..., [], [], []]");
}

TEST_CASE("Eigen matrices come in row-major and go out in place") {
  Eigen::MatrixXd matrix(2, 3);  // column-major
  matrix << 1, 2, 3, 4, 5, 6;
  const Array array = to_array(matrix.transpose());
  CHECK(array.type() == TensorType{f64, {3, 2}});
  CHECK(array.to_doubles() == std::vector<double>{1, 4, 2, 5, 3, 6});
  const auto back = to_eigen<double>(array);
  CHECK(back.rows() == 3);
  CHECK(back(1, 1) == 5);
  CHECK(back.data() == reinterpret_cast<const double*>(array.data()));
  CHECK_THROWS_WITH_AS(to_eigen<double>(Array(TensorType{f64, {1, 2, 3}})),
                       "to_eigen: the array is f64[1, 2, 3]; a matrix has rank 1 or 2", Error);
}

}  // namespace array_test
