// Host arrays: construction, views, conversion, Eigen.
#include <alpa/eigen.h>
#include <alpa/tensor/array.h>
#include <doctest/doctest.h>

#include <cmath>

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

TEST_CASE("wrong counts and element types are errors") {
  const std::vector<float> data = {1, 2, 3};
  CHECK_THROWS_WITH_AS(Array(data, {2, 2}), "Array: 3 elements given for shape [2, 2] which has 4", Error);
  CHECK_THROWS_WITH_AS(Array(data, {3}).elements_as<double>(), "Array: holds f32, not f64", Error);
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
