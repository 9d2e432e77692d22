// src/tensor/array.cc — arrays in host memory: allocation, conversion, text
#include "alpa/tensor/array.h"

#include <algorithm>
#include <limits>
#include <new>
#include <utility>

#include "src/tensor/element.h"
#include "src/tensor/storage.h"

namespace alpa {
namespace {

/// Cache-line aligned, so that kernels may read a view of it in place.
constexpr std::align_val_t kAlignment{64};

void copy_converted(const std::byte* from, DType from_type, std::byte* to, DType to_type,
                    std::int64_t count) {
  with_storage_type(from_type, [&](auto source) {
    with_storage_type(to_type, [&](auto target) {
      const auto* in = reinterpret_cast<const decltype(source)*>(from);
      auto* out = reinterpret_cast<decltype(target)*>(to);
      for (std::int64_t i = 0; i < count; ++i)
        out[i] = from_double<decltype(target)>(to_double(in[i]));
    });
  });
}

/// Element `i` as a number.
double element(const Array& array, std::int64_t i) {
  return load_element(array.dtype(),
                      array.data() + i * static_cast<std::int64_t>(size_of(array.dtype())));
}

/// Says what is wrong with an index: slow, so that good ones are not held up.
[[noreturn]] void refuse_index(const Array& array, const Shape& index) {
  const Shape& shape = array.shape();
  require(array.data() != nullptr,
          "Array: index {} of an array without a type; make it with Array(type)", to_string(index));
  require(index.size() == shape.size(),
          "Array: index {} has {} places, but the array is {}; give one per dimension",
          to_string(index), index.size(), to_string(array.type()));
  std::size_t d = 0;
  while (index[d] >= 0 && index[d] < shape[d]) ++d;
  fail("Array: index {} is outside {}; in dimension {} it must be at least 0 and less than {}",
       to_string(index), to_string(array.type()), d, shape[d]);
}

/// Appends the elements from `first` on, in the brackets of the dimensions from `dim` on. Of long
/// dimensions only `edge` parts at each end are shown.
void add_elements(std::string& text, const Array& array, std::size_t dim, std::int64_t first,
                  std::int64_t edge) {
  const Shape& shape = array.shape();
  if (dim == shape.size()) {
    text += fmt::format("{:.6g}", element(array, first));
    return;
  }
  const std::int64_t stride =
      num_elements({shape.begin() + static_cast<std::ptrdiff_t>(dim) + 1, shape.end()});
  text += "[";
  for (std::int64_t i = 0; i < shape[dim]; ++i) {
    if (i > 0) text += ", ";
    if (i == edge && shape[dim] > 2 * edge) {
      text += "..., ";
      i = shape[dim] - edge;
    }
    add_elements(text, array, dim + 1, first + i * stride, edge);
  }
  text += "]";
}

}  // namespace

Array::Array(TensorType type) : type_(std::move(type)) {
  check_type(type_, "the array");
  const auto size = static_cast<std::size_t>(type_.bytes());
  void* const memory = ::operator new(size, kAlignment, std::nothrow);
  require(memory != nullptr, "the array is {}; its {} bytes can't be allocated", to_string(type_),
          size);
  data_ = {static_cast<std::byte*>(memory),
           [](std::byte* data) { ::operator delete(data, kAlignment); }};
}

Array::Array(std::span<const std::int64_t> data, Shape shape)
    : Array(TensorType{DType::i32, std::move(shape)}) {
  require(static_cast<std::int64_t>(data.size()) == elements(),
          "Array: {} elements given for shape {} which has {}", data.size(), to_string(type_.shape),
          elements());
  const std::span<std::int32_t> to = mutable_elements_as<std::int32_t>();
  for (std::size_t i = 0; i < data.size(); ++i) {
    require(std::in_range<std::int32_t>(data[i]),
            "Array: element {} is {}, which i32 does not hold; numbers must be between {} and {}",
            i, data[i], std::numeric_limits<std::int32_t>::min(),
            std::numeric_limits<std::int32_t>::max());
    to[i] = static_cast<std::int32_t>(data[i]);
  }
}

Array Array::copy(const void* data, TensorType type) {
  Array array(std::move(type));
  if (array.bytes() > 0)
    std::memcpy(array.mutable_data(), data, static_cast<std::size_t>(array.bytes()));
  return array;
}

Array Array::view(const void* data, TensorType type) {
  check_type(type, "the array");
  Array array;
  array.type_ = std::move(type);
  array.data_ = {const_cast<std::byte*>(static_cast<const std::byte*>(data)), [](std::byte*) {}};
  return array;
}

std::size_t Array::position(std::initializer_list<std::int64_t> index) const {
  const Shape& shape = type_.shape;
  bool inside = data_ != nullptr && index.size() == shape.size();
  std::int64_t position = 0;
  for (std::size_t d = 0; inside && d < shape.size(); ++d) {
    const std::int64_t i = index.begin()[d];
    inside = i >= 0 && i < shape[d];
    position = position * shape[d] + i;
  }
  if (!inside) refuse_index(*this, index);
  return static_cast<std::size_t>(position);
}

std::vector<double> Array::to_doubles() const {
  std::vector<double> values(static_cast<std::size_t>(elements()));
  copy_converted(data(), dtype(), reinterpret_cast<std::byte*>(values.data()), DType::f64,
                 elements());
  return values;
}

Array Array::cast(DType to) const {
  Array result(TensorType{to, shape()});
  copy_converted(data(), dtype(), result.mutable_data(), to, elements());
  return result;
}

std::string to_string(const Array& array) {
  constexpr std::int64_t kShownWhole = 64;
  if (array.data() == nullptr) return "an array without a type";
  const Shape& shape = array.shape();
  const bool whole =
      array.elements() <= kShownWhole &&
      std::all_of(shape.begin(), shape.end(), [](auto extent) { return extent <= kShownWhole; });
  const std::int64_t edge = whole ? kShownWhole : shape.size() <= 3 ? 3 : 1;
  std::string text = to_string(array.type()) + " ";
  add_elements(text, array, 0, 0, edge);
  return text;
}

}  // namespace alpa
