#pragma once
/// Eigen matrices as arrays and back. Only programs that include this header need Eigen. Everything
/// is inline, so the library does not depend on how the program compiles Eigen.
#include <Eigen/Core>

#include "alpa/tensor/array.h"

namespace alpa {

/// A copy of an Eigen matrix, map or expression, row-major: shape [rows, cols].
template <class Derived>
Array to_array(const Eigen::MatrixBase<Derived>& matrix) {
  using T = typename Derived::Scalar;
  Array array(TensorType{dtype_of<T>(), {matrix.rows(), matrix.cols()}});
  using RowMajor = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  Eigen::Map<RowMajor>(array.mutable_elements_as<T>().data(), matrix.rows(), matrix.cols()) =
      matrix;
  return array;
}

/// A view of an array of rank 1 (a row) or 2 as an Eigen matrix; valid as long as the array. Throws
/// Error on another rank or element type.
template <class T>
Eigen::Map<const Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>> to_eigen(
    const Array& array) {
  const Shape& shape = array.shape();
  require(shape.size() == 1 || shape.size() == 2,
          "to_eigen: the array is {}; a matrix has rank 1 or 2", to_string(array.type()));
  return {array.elements_as<T>().data(), shape.size() == 2 ? shape[0] : 1, shape.back()};
}

}  // namespace alpa
