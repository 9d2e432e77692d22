// src/tensor/element.cc — reads and writes single elements of any type
#include "src/tensor/element.h"

#include <cstring>

#include "src/tensor/storage.h"

namespace alpa {

void store_element(DType dtype, std::byte* to, double value) {
  with_storage_type(dtype, [&](auto zero) {
    const auto stored = from_double<decltype(zero)>(value);
    std::memcpy(to, &stored, sizeof stored);
  });
}

double load_element(DType dtype, const std::byte* from) {
  double value = 0;
  with_storage_type(dtype, [&](auto stored) {
    std::memcpy(&stored, from, sizeof stored);
    value = to_double(stored);
  });
  return value;
}

}  // namespace alpa
