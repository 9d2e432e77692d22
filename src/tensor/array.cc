#include "alpa/tensor/array.h"

#include <new>

#include "alpa/base/half.h"

namespace alpa {
namespace {

/// Cache-line aligned, so that kernels may read a view of it in place.
constexpr std::align_val_t kAlignment{64};

template <class To>
To convert(double value) {
  if constexpr (std::is_same_v<To, Bf16>)
    return to_bf16(static_cast<float>(value));
  else if constexpr (std::is_same_v<To, F16>)
    return to_f16(static_cast<float>(value));
  else
    return static_cast<To>(value);
}

template <class From>
double as_double(From value) {
  if constexpr (std::is_same_v<From, Bf16> || std::is_same_v<From, F16>)
    return to_float(value);
  else
    return static_cast<double>(value);
}

/// Calls `visit` with a zero of the type that stores `dtype`.
template <class Visitor>
void with_storage_type(DType dtype, Visitor&& visit) {
  switch (dtype) {
    case DType::f32: return visit(float{});
    case DType::bf16: return visit(Bf16{});
    case DType::f16: return visit(F16{});
    case DType::f64: return visit(double{});
    case DType::i32: return visit(std::int32_t{});
    case DType::u8: return visit(std::uint8_t{});
  }
}

void copy_converted(const std::byte* from, DType from_type, std::byte* to, DType to_type,
                    std::int64_t count) {
  with_storage_type(from_type, [&](auto source) {
    with_storage_type(to_type, [&](auto target) {
      const auto* in = reinterpret_cast<const decltype(source)*>(from);
      auto* out = reinterpret_cast<decltype(target)*>(to);
      for (std::int64_t i = 0; i < count; ++i) out[i] = convert<decltype(target)>(as_double(in[i]));
    });
  });
}

}  // namespace

Array::Array(TensorType type) : type_(std::move(type)) {
  check_type(type_, "the array");
  const auto size = static_cast<std::size_t>(type_.bytes());
  void* const memory = ::operator new(size, kAlignment, std::nothrow);
  require(memory != nullptr, "the array is {}; its {} bytes can't be allocated", to_string(type_), size);
  data_ = {static_cast<std::byte*>(memory), [](std::byte* data) { ::operator delete(data, kAlignment); }};
}

Array Array::view(const void* data, TensorType type) {
  check_type(type, "the array");
  Array array;
  array.type_ = std::move(type);
  array.data_ = {const_cast<std::byte*>(static_cast<const std::byte*>(data)), [](std::byte*) {}};
  return array;
}

std::vector<double> Array::to_doubles() const {
  std::vector<double> values(static_cast<std::size_t>(elements()));
  copy_converted(data(), dtype(), reinterpret_cast<std::byte*>(values.data()), DType::f64, elements());
  return values;
}

Array Array::cast(DType to) const {
  Array result(TensorType{to, shape()});
  copy_converted(data(), dtype(), result.mutable_data(), to, elements());
  return result;
}

}  // namespace alpa
