#pragma once
/// Reads pieces of MLIR's text, and knows where it is.
#include <string>
#include <string_view>

#include "src/import/module.h"

namespace alpa::stablehlo {

/// A position in a text. Spaces and comments before a piece are skipped.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  TextPlace place();                 ///< of the next piece
  bool at_end();                     ///< nothing but spaces is left
  bool sees(std::string_view what);  ///< the next piece begins so
  bool take(std::string_view what);  ///< the same, and goes behind it
  /// `take`, or throws Error that says what was expected.
  void expect(std::string_view what);
  /// Letters, digits and any of `others`; may be empty.
  std::string_view word(std::string_view others = "_.$-");
  std::string quoted();  ///< what "…" says; escapes stay as they are
  double number();       ///< such as -1, 2.5E-3, true, 0xFF800000 (a double of these bits)
  std::size_t count();   ///< a number of results
  /// Everything up to the bracket that closes the one just taken, which is taken, too.
  std::string_view balanced(char open, char close);
  /// Throws Error that shows what is here.
  [[noreturn]] void fail_here(std::string_view expected);

  /// Limits how deep brackets and regions may nest.
  class Nested {
   public:
    explicit Nested(Reader& reader);
    ~Nested() { --reader_.depth_; }
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;

   private:
    Reader& reader_;
  };

 private:
  void skip();
  std::string_view rest() const { return text_.substr(at_); }

  std::string_view text_;
  std::size_t at_ = 0, line_start_ = 0;
  int line_ = 1, depth_ = 0;
};

/// tensor<4x8xf32>, or another type as a word.
Type read_type(Reader& reader);
/// Any attribute's value.
Attribute read_attribute(Reader& reader);
/// name = value, …, up to the bracket `close`, which is taken.
std::vector<std::pair<std::string, Attribute>> read_fields(Reader& reader, std::string_view close);

}  // namespace alpa::stablehlo
