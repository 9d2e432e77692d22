// src/tensor/element.cc — reads and writes single elements of any type
#include "src/tensor/element.h"

#include <cstring>

#include "alpa/base/error.h"
#include "src/base/half.h"

namespace alpa {
namespace {

template <class T>
void put(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

template <class T>
T get(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

}  // namespace

void store_element(DType dtype, std::byte* to, double value) {
  switch (dtype) {
    case DType::f32: return put(to, static_cast<float>(value));
    case DType::f64: return put(to, value);
    case DType::bf16: return put(to, to_bf16(static_cast<float>(value)));
    case DType::f16: return put(to, to_f16(static_cast<float>(value)));
    case DType::i32: return put(to, static_cast<std::int32_t>(value));
    case DType::u8: return put(to, static_cast<std::uint8_t>(value));
  }
}

double load_element(DType dtype, const std::byte* from) {
  switch (dtype) {
    case DType::f32: return get<float>(from);
    case DType::f64: return get<double>(from);
    case DType::bf16: return to_float(get<Bf16>(from));
    case DType::f16: return to_float(get<F16>(from));
    case DType::i32: return get<std::int32_t>(from);
    case DType::u8: return get<std::uint8_t>(from);
  }
  bug("unknown element type");
}

}  // namespace alpa
