#include "alpa/base/shape.h"

#include <doctest/doctest.h>

#include "alpa/base/error.h"

namespace shape_test {

using namespace alpa;

TEST_CASE("elements and bytes are products of the extents, 1 element for a scalar") {
  CHECK(num_elements({}) == 1);
  CHECK(num_elements({3, 0, 2}) == 0);
  CHECK(num_elements({1 << 20, 1 << 20}) == std::int64_t{1} << 40);
  CHECK(TensorType{bf16, {8, 768}}.bytes() == 12288);
  CHECK(TensorType{f64, {}}.bytes() == 8);
  CHECK(TensorType{u8, {2, 3}}.rank() == 2);
}

TEST_CASE("tensor types print as dtype[extents] and read back") {
  const std::pair<TensorType, std::string> rows[] = {{{f32, {8, 768}}, "f32[8, 768]"},
                                                     {{i32, {}}, "i32[]"},
                                                     {{bf16, {0}}, "bf16[0]"},
                                                     {{u8, {1, 2, 3}}, "u8[1, 2, 3]"}};
  for (const auto& [type, text] : rows) {
    CHECK(to_string(type) == text);
    CHECK(parse_tensor_type(text) == type);
  }
  CHECK(parse_tensor_type("f32[8,768]") == TensorType{f32, {8, 768}});
}

TEST_CASE("what is not a tensor type is refused with what could not be read") {
  const std::pair<std::string, std::string> rows[] = {
      {"", "'' is not a tensor type; write for example f32[8, 768], or f32[] for a scalar"},
      {"f32", "'f32' is not a tensor type; write for example f32[8, 768], or f32[] for a scalar"},
      {"f32[8",
       "'f32[8' is not a tensor type; write for example f32[8, 768], or f32[] for a scalar"},
      {"f31[8]", "'f31' is not an element type; the types are f32, bf16, f16, f64, i32, u8"},
      {"f32[8, -1]",
       "'f32[8, -1]' is not a tensor type: '-1' is not an extent; write for example f32[8, 768]"},
      {"f32[8x]",
       "'f32[8x]' is not a tensor type: '8x' is not an extent; write for example f32[8, 768]"},
      {"f32[99999999999999999999]",
       "'f32[99999999999999999999]' is not a tensor type: '99999999999999999999' is not an extent; "
       "write for example f32[8, 768]"},
      {"f32[8,]", "'f32[8,]' is not a tensor type: an extent is missing after the last comma"}};
  for (const auto& [text, message] : rows)
    CHECK_THROWS_WITH_AS(parse_tensor_type(text), message.c_str(), Error);
}

TEST_CASE("products of extents that no tensor can have are refused, not wrapped around") {
  CHECK(num_elements({1 << 25, 1 << 25}) == kMaxElements);
  CHECK(num_elements({kMaxElements, 0, 1}) == 0);
  CHECK_THROWS_WITH_AS(num_elements({4294967296, 4294967296}),
                       "shape [4294967296, 4294967296]: a tensor has at most 2^50 elements", Error);
  CHECK_THROWS_WITH_AS(num_elements({65537, 3254237144, 2207403134}),
                       "shape [65537, 3254237144, 2207403134]: a tensor has at most 2^50 elements",
                       Error);
  CHECK_THROWS_WITH_AS(num_elements({0, 1 << 26, 1 << 25}),
                       "shape [0, 67108864, 33554432]: a tensor has at most 2^50 elements", Error);
  CHECK_THROWS_WITH_AS(num_elements({-2, -3}), "shape [-2, -3]: extents can't be negative", Error);
  CHECK_THROWS_WITH_AS(TensorType({f32, {INT64_MIN}}).bytes(),
                       "shape [-9223372036854775808]: extents can't be negative", Error);
}

TEST_CASE("types of impossible tensors are refused with whose they are") {
  check_type({u8, Shape(16, 1)}, "x");
  CHECK_THROWS_WITH_AS(
      check_type({u8, Shape(17, 1)}, "x"),
      "x is u8[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]; a tensor has at most 16 "
      "dimensions",
      Error);
  CHECK_THROWS_WITH_AS(check_type({f64, {4, -1}}, "batch input \"x\""),
                       "batch input \"x\" is f64[4, -1]; extents can't be negative", Error);
  CHECK_THROWS_WITH_AS(
      parse_tensor_type("f32[4294967296, 4294967296]"),
      "the tensor type is f32[4294967296, 4294967296]; a tensor has at most 2^50 elements", Error);
}

}  // namespace shape_test
