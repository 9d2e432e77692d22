#include "alpa/base/text.h"

#include <doctest/doctest.h>

using namespace alpa;

TEST_CASE("an excerpt is one readable line") {
  CHECK(excerpt("f32[8, 768]") == "f32[8, 768]");
  CHECK(excerpt("a\nb\tc\rd\x1b[31m\x7f") == "a\\nb\\tc\\rd\\x1b[31m\\x7f");
  CHECK(excerpt("größe €") == "größe €");
  CHECK(excerpt("\xff\xc3 \xc0\xaf \xed\xa0\x80") == "\\xff\\xc3 \\xc0\\xaf \\xed\\xa0\\x80");  // no UTF-8
  CHECK(excerpt("\xc2\x9b") == "\\xc2\\x9b");  // a control character
}

TEST_CASE("an excerpt is short and never cuts a character or an escape") {
  CHECK(excerpt(std::string(100'000, 'x')) == std::string(57, 'x') + "...");
  CHECK(excerpt(std::string(60, 'x')) == std::string(60, 'x'));
  CHECK(excerpt("123456", 5) == "12...");
  CHECK(excerpt("1ö345", 5) == "1...");
  CHECK(excerpt("\n\n\n", 5) == "\\n...");
  const std::string once = excerpt("\x01 and so on, and on");
  CHECK(excerpt(once) == once);
}
