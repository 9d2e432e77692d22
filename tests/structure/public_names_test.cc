// Every public name of include/alpa has a comment.
#include <doctest/doctest.h>

#include "structure/public_names.h"

namespace public_names_test {

using namespace alpa::testing;

namespace {

constexpr int kMostUndocumented = 0;

}  // namespace

TEST_CASE("every public name of include/alpa is documented") {
  std::string undocumented;
  int count = 0, all = 0;
  for (const structure::SourceFile& header : structure::source_files("include", {".h"}))
    for (const auto& [name, documented] : structure::public_names(header)) {
      ++all;
      if (documented) continue;
      undocumented += header.path + ": " + name + "\n";
      ++count;
    }
  CAPTURE(undocumented);
  CHECK(all > 500);
  CHECK(count <= kMostUndocumented);
}

TEST_CASE("names are found with and without comments, and private ones are not") {
  const std::map<std::string, bool> names =
      structure::public_names({"x.h",
                               {"namespace alpa {",
                                "class Later;",
                                "/// A box.",
                                "class Box {",
                                " public:",
                                "  Box() = default;",
                                "  explicit Box(int size) : size_(size) {}",
                                "  /// Its size.",
                                "  int size() const { return size_; }",
                                "  bool operator==(const Box&) const = default;",
                                "  int weight() const;",
                                "",
                                " private:",
                                "  int size_ = 0;",
                                "};",
                                "",
                                "enum class Colour { red, green };  ///< of a box",
                                "/// Both.",
                                "int f(Box box = {});",
                                "int f(double);",
                                "struct Options {",
                                "  std::map<int, int> a = {}, b;  ///< two",
                                "  int c = 0;",
                                "};",
                                "template <class T, int n = 3>",
                                "T g(T x);",
                                "using Boxes = std::vector<Box>;",
                                "}  // namespace alpa"}});
  const std::map<std::string, bool> expected = {
      {"alpa::Box", true},        {"alpa::Box::size", true},   {"alpa::Box::weight", false},
      {"alpa::Colour", true},     {"alpa::Colour::red", true}, {"alpa::Colour::green", true},
      {"alpa::f", true},          {"alpa::Options", false},    {"alpa::Options::a", true},
      {"alpa::Options::b", true}, {"alpa::Options::c", false}, {"alpa::g", false},
      {"alpa::Boxes", false}};
  CHECK(names == expected);
}

}  // namespace public_names_test
