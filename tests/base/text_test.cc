#include "alpa/base/text.h"

#include <doctest/doctest.h>

namespace text_test {

using namespace alpa;

TEST_CASE("an excerpt is one readable line") {
  CHECK(excerpt("f32[8, 768]") == "f32[8, 768]");
  CHECK(excerpt("a\nb\tc\rd\x1b[31m\x7f") == "a\\nb\\tc\\rd\\x1b[31m\\x7f");
  CHECK(excerpt("größe €") == "größe €");
  CHECK(excerpt("\xff\xc3 \xc0\xaf \xed\xa0\x80") ==
        "\\xff\\xc3 \\xc0\\xaf \\xed\\xa0\\x80");  // no UTF-8
  CHECK(excerpt("\xc2\x9b") == "\\xc2\\x9b");      // a control character
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

TEST_CASE("seconds and bytes have two significant digits") {
  CHECK(two_digits(138.24) == "140");
  CHECK(two_digits(9.96) == "10");
  CHECK(two_digits(0.0994999) == "0.099");
  CHECK(two_digits(-5.34) == "-5.3");
  CHECK(two_digits(1) == "1.0");
  CHECK(two_digits(1000) == "1000");
  CHECK(two_digits(0) == "0");
  CHECK(seconds_text(2.345) == "2.3 s");
  CHECK(seconds_text(0.9996) == "1.0 s");
  CHECK(seconds_text(5.34e-3) == "5.3 ms");
  CHECK(seconds_text(764.7e-6) == "760 us");
  CHECK(seconds_text(0) == "0");
  CHECK(bytes_text(16544772) == "16 MiB");
  CHECK(bytes_text(1155432) == "1.1 MiB");
  CHECK(bytes_text(3.0 * (std::int64_t{1} << 30)) == "3100 MiB");
  CHECK(bytes_text(100 << 10) == "0.098 MiB");
  CHECK(bytes_text(12) == "under 0.001 MiB");
  CHECK(bytes_text(0) == "0 MiB");
}

}  // namespace text_test
