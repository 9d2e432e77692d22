#include "alpa/base/attributes.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "alpa/base/error.h"

namespace attributes_test {

using namespace alpa;

namespace {

using Integers = std::vector<std::int64_t>;
using Reals = std::vector<double>;

}  // namespace

TEST_CASE("attributes print in the order written, each kind in its own form, and read back") {
  const Attributes attributes = {
      {"equation", "ik,kj->ij"}, {"axis", std::int64_t{1}},  {"scale", 0.5}, {"to", bf16},
      {"dims", Integers{0, 1}},  {"values", Reals{0.5, 1.0}}};
  const std::string text =
      R"({equation="ik,kj->ij", axis=1, scale=0.5, to=bf16, dims=[0, 1], values=[0.5, 1.0]})";
  CHECK(to_string(attributes) == text);
  CHECK(parse_attributes(text) == attributes);
  CHECK(parse_attributes(
            " { equation = \"ik,kj->ij\",axis=1,scale=0.5 ,to=bf16, dims=[0,1], values=[.5, 1]}") ==
        attributes);
}

TEST_CASE("no attributes are the empty text") {
  CHECK(to_string(Attributes{}) == "");
  CHECK(parse_attributes("") == Attributes{});
}

TEST_CASE("kinds that look alike stay apart") {
  const Attributes rows[] = {{{"a", 1.0}},
                             {{"a", std::int64_t{1}}},
                             {{"a", "1"}},
                             {{"a", Reals{}}},
                             {{"a", Integers{}}},
                             {{"a", Reals{1, 2}}},
                             {{"a", Integers{1, 2}}},
                             {{"a", f32}},
                             {{"a", "f32"}}};
  for (const Attributes& left : rows)
    for (const Attributes& right : rows) {
      CHECK((left == right) == (&left == &right));
      CHECK((parse_attributes(to_string(left)) == right) == (&left == &right));
    }
}

TEST_CASE("strings with quotes, braces, backslashes and line ends read back") {
  for (std::string value : {"", "a\"b", "\\", "\\n", "\n", "{x=1, y=[2]}", "\\\"", "\xc3\xa9"}) {
    CAPTURE(value);
    CHECK(parse_attributes(to_string(Attributes{{"s", value}})).string("s") == value);
  }
  CHECK(to_string(Attributes{{"s", "a\"\\\n"}}) == R"({s="a\"\\\n"})");
}

TEST_CASE("every real reads back to the same bits and looks like a real") {
  std::vector<double> values = {0.0,      -0.0,     1.0,
                                1e16,     1e300,    5e-324,
                                0.1,      1.0 / 3,  std::numeric_limits<double>::max(),
                                HUGE_VAL, -HUGE_VAL};
  std::mt19937_64 random(1);
  while (values.size() < 2000) {
    const std::uint64_t bits = random();
    double value;
    static_assert(sizeof value == sizeof bits);
    std::memcpy(&value, &bits, sizeof value);
    if (!std::isnan(value)) values.push_back(value);
  }
  for (double value : values) {
    const std::string text = to_string(Attributes{{"v", value}});
    CAPTURE(text);
    const double back = parse_attributes(text).real("v");
    CHECK(std::memcmp(&back, &value, sizeof value) == 0);
    CHECK(text.find_first_of(".en") != std::string::npos);
  }
  CHECK(to_string(Attributes{{"v", 1e-3}, {"w", 2.0}}) == "{v=0.001, w=2.0}");
  CHECK(std::isnan(parse_attributes(to_string(Attributes{{"v", std::nan("")}})).real("v")));
}

TEST_CASE("extreme integers read back") {
  for (std::int64_t value :
       {std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()})
    CHECK(parse_attributes(to_string(Attributes{{"v", value}})).integer("v") == value);
}

TEST_CASE("set replaces in place or appends") {
  Attributes attributes = {{"a", std::int64_t{1}}, {"b", std::int64_t{2}}};
  attributes.set("a", 0.5);
  attributes.set("c", f16);
  CHECK(to_string(attributes) == "{a=0.5, b=2, c=f16}");
}

TEST_CASE("reading an absent attribute or another kind is a bug of ours") {
  const Attributes attributes = {{"axis", std::int64_t{1}}};
  CHECK(attributes.contains("axis"));
  CHECK_FALSE(attributes.contains("dims"));
  CHECK_THROWS_WITH_AS(attributes.reals("dims"), "the node has no attribute 'dims'", Bug);
  CHECK_THROWS_WITH_AS(attributes.real("axis"), "attribute 'axis' is an integer, read as a real",
                       Bug);
}

TEST_CASE("a bad character is named with its position") {
  const std::pair<const char*, const char*> rows[] = {
      {"axis=1", "attributes axis=1: '{' is missing at position 0"},
      {"{axis=1", "attributes {axis=1: '}' is missing at position 7"},
      {"{=1}", "attributes {=1}: a name is missing at position 1"},
      {"{axis 1}", "attributes {axis 1}: '=' is missing at position 6"},
      {"{axis=}", "attributes {axis=}: a value is missing at position 6"},
      {"{axis=one}",
       "attributes {axis=one}: 'one' is neither a number (of 64 bits) nor an element type at "
       "position 6"},
      {"{axis=1x}",
       "attributes {axis=1x}: '1x' is neither a number (of 64 bits) nor an element type at "
       "position 6"},
      {"{n=9223372036854775808}",
       "attributes {n=9223372036854775808}: '9223372036854775808' is neither a number (of 64 bits) "
       "nor an element type at position 3"},
      {"{s=\"ab}", "attributes {s=\"ab}: the string is not terminated at position 3"},
      {"{d=[1, x]}", "attributes {d=[1, x]}: 'x' is not a number (of 64 bits) at position 7"},
      {"{d=[1, ]}", "attributes {d=[1, ]}: a number is missing at position 7"},
      {"{d=[1}", "attributes {d=[1}: ']' is missing at position 5"},
      {"{a=1, a=2}", "attributes {a=1, a=2}: attribute given twice: 'a' at position 6"},
      {"{a=1} x", "attributes {a=1} x: text after the closing '}' at position 5"}};
  for (const auto& [text, message] : rows)
    CHECK_THROWS_WITH_AS(parse_attributes(text), message, Error);
}

}  // namespace attributes_test
