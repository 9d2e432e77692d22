#include "alpa/base/dtype.h"

#include <doctest/doctest.h>

#include "alpa/base/error.h"

namespace dtype_test {

using namespace alpa;

TEST_CASE("every element type has the name and the size of the table") {
  struct Row {
    DType dtype;
    std::string_view name;
    std::size_t bytes;
    bool floating;
  };
  const Row rows[] = {{f32, "f32", 4, true}, {bf16, "bf16", 2, true}, {f16, "f16", 2, true},
                      {f64, "f64", 8, true}, {i32, "i32", 4, false},  {u8, "u8", 1, false}};
  CHECK(std::size(rows) == std::size(kDTypes));
  for (const Row& row : rows) {
    CHECK(name_of(row.dtype) == row.name);
    CHECK(parse_dtype(row.name) == row.dtype);
    CHECK(size_of(row.dtype) == row.bytes);
    CHECK(is_floating(row.dtype) == row.floating);
  }
}

TEST_CASE("an unknown element type is refused with the known ones") {
  CHECK_THROWS_WITH_AS(parse_dtype("float"),
                       "'float' is not an element type; the types are f32, bf16, f16, f64, i32, u8",
                       Error);
}

}  // namespace dtype_test
