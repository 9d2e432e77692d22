#pragma once
/// A dense row-major tensor in host memory: what users feed in and read back. Copying an
/// Array shares its elements.
#include <concepts>
#include <cstddef>
#include <cstring>
#include <initializer_list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "alpa/base/error.h"
#include "alpa/base/shape.h"
#include "alpa/base/text.h"
#pragma GCC visibility push(default)

namespace alpa {

/// The element type that stores T: float, double, std::int32_t, std::uint8_t.
template <class T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, float>)
    return DType::f32;
  else if constexpr (std::is_same_v<T, double>)
    return DType::f64;
  else if constexpr (std::is_same_v<T, std::int32_t>)
    return DType::i32;
  else {
    static_assert(std::is_same_v<T, std::uint8_t>, "arrays hold float, double, int32_t or uint8_t");
    return DType::u8;
  }
}

/// A tensor in host memory. Copies share their elements.
class Array {
 public:
  Array() = default;
  /// Owned, uninitialised elements. Throws Error if no tensor may be of this type
  /// (`check_type`) or memory is short.
  explicit Array(TensorType type);
  /// Copies `data`. Throws Error unless it has as many elements as `shape`.
  template <class T>
  Array(std::span<const T> data, Shape shape) : Array(TensorType{dtype_of<T>(), std::move(shape)}) {
    require(static_cast<std::int64_t>(data.size()) == type_.elements(),
            "Array: {} elements given for shape {} which has {}", data.size(),
            to_string(type_.shape), type_.elements());
    if (!data.empty()) std::memcpy(data_.get(), data.data(), data.size_bytes());
  }
  template <class T>
  Array(const std::vector<T>& data, Shape shape)
      : Array(std::span<const T>(data), std::move(shape)) {}
  /// Copies whole numbers of 64 bits, such as labels and ids, as i32. Throws Error as above, or
  /// naming one that i32 does not hold.
  Array(std::span<const std::int64_t> data, Shape shape);
  Array(const std::vector<std::int64_t>& data, Shape shape)
      : Array(std::span<const std::int64_t>(data), std::move(shape)) {}
  /// One number, of rank 0: `{"temperature", 0.5}`.
  template <class T>
  requires(std::is_same_v<T, float> || std::is_same_v<T, double> ||
           std::is_same_v<T, std::int32_t> || std::is_same_v<T, std::uint8_t>) Array(T number)
      : Array(std::span<const T>(&number, 1), {}) {}  // NOLINT: a number is an array
  /// Reads the caller's memory in place; it must outlive every copy of this Array. Throws
  /// Error as `check_type` does.
  static Array view(const void* data, TensorType type);
  /// Copies elements as they are stored, of any type: `Array::copy(bits.data(), {bf16, {8, 4}})`
  /// of a std::vector<std::uint16_t>. Throws Error as `check_type` does.
  static Array copy(const void* data, TensorType type);

  const TensorType& type() const { return type_; }            ///< element type and shape
  const Shape& shape() const { return type_.shape; }          ///< extents
  DType dtype() const { return type_.dtype; }                 ///< element type
  std::int64_t elements() const { return type_.elements(); }  ///< number of elements
  std::int64_t bytes() const { return type_.bytes(); }        ///< of all elements
  const std::byte* data() const { return data_.get(); }       ///< row-major elements
  std::byte* mutable_data() { return data_.get(); }           ///< row-major elements, for writing

  /// The elements as T. Throws Error if the array holds another type.
  template <class T>
  std::span<const T> elements_as() const {
    require(type_.dtype == dtype_of<T>(), "Array: holds {}, not {}", name_of(type_.dtype),
            name_of(dtype_of<T>()));
    return {reinterpret_cast<const T*>(data_.get()), static_cast<std::size_t>(elements())};
  }
  /// As `elements_as`, for writing.
  template <class T>
  std::span<T> mutable_elements_as() {
    auto all = elements_as<T>();
    return {const_cast<T*>(all.data()), all.size()};
  }
  /// The element at an index per dimension: `w.at<float>(3, 4)`. Throws Error if the array holds
  /// another type, or if it has no such element.
  template <class T, std::integral... Index>
  const T& at(Index... index) const {
    return elements_as<T>()[position({static_cast<std::int64_t>(index)...})];
  }
  /// The same, to be written.
  template <class T, std::integral... Index>
  T& at(Index... index) {
    return mutable_elements_as<T>()[position({static_cast<std::int64_t>(index)...})];
  }
  /// Every element converted to double; any element type.
  std::vector<double> to_doubles() const;
  /// A copy with elements converted (round to nearest even; integers truncate).
  Array cast(DType to) const;

 private:
  std::size_t position(std::initializer_list<std::int64_t> index) const;

  TensorType type_;
  std::shared_ptr<std::byte[]> data_;
};

/// Type and elements: "f32[2, 3] [[1, 2, 3], [4, 5, 6]]", with six digits. Of more than 64 elements
/// the middle of every dimension becomes "...".
std::string to_string(const Array& array);

/// The arrays of a batch, by the names of the step's inputs: `{{"x", images}, {"y", labels}}`.
using BatchData = std::map<std::string, Array>;

}  // namespace alpa

template <>
struct fmt::formatter<alpa::DType> : alpa::TextFormatter<alpa::DType> {};
template <>
struct fmt::formatter<alpa::TensorType> : alpa::TextFormatter<alpa::TensorType> {};
template <>
struct fmt::formatter<alpa::Array> : alpa::TextFormatter<alpa::Array> {};
#pragma GCC visibility pop
