#include "alpa/base/shape.h"

#include <doctest/doctest.h>

#include "alpa/base/error.h"

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
      {"f32[8", "'f32[8' is not a tensor type; write for example f32[8, 768], or f32[] for a scalar"},
      {"f31[8]", "'f31' is not an element type; the types are f32, bf16, f16, f64, i32, u8"},
      {"f32[8, -1]",
       "'f32[8, -1]' is not a tensor type: '-1' is not an extent; write for example f32[8, 768]"},
      {"f32[8x]", "'f32[8x]' is not a tensor type: '8x' is not an extent; write for example f32[8, 768]"},
      {"f32[99999999999999999999]",
       "'f32[99999999999999999999]' is not a tensor type: '99999999999999999999' is not an extent; write "
       "for example "
       "f32[8, 768]"},
      {"f32[8,]", "'f32[8,]' is not a tensor type: an extent is missing after the last comma"}};
  for (const auto& [text, message] : rows)
    CHECK_THROWS_WITH_AS(parse_tensor_type(text), message.c_str(), Error);
}
