// src/base/attributes_text.cc — text form of attributes: printing and parsing
#include <algorithm>
#include <charconv>
#include <optional>

#include "alpa/base/attributes.h"
#include "alpa/base/error.h"
#include "alpa/base/text.h"

namespace alpa {
namespace {

/// An empty list of reals, so that it stays apart from one of integers.
constexpr std::string_view kNoReals = "[.]";

/// Characters that occur in every real but in no integer; 'n' is for inf and nan.
constexpr std::string_view kRealMarks = ".en";

std::string print(std::int64_t value) { return std::to_string(value); }

std::string print(double value) {
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(kRealMarks) == std::string::npos) text += ".0";
  return text;
}

std::string print(const std::string& value) { return quoted(value); }

std::string print(DType value) { return std::string(name_of(value)); }

template <class T>
std::string print(const std::vector<T>& values) {
  if (std::is_same_v<T, double> && values.empty()) return std::string(kNoReals);
  std::string text = "[";
  for (std::size_t i = 0; i < values.size(); ++i) text += (i > 0 ? ", " : "") + print(values[i]);
  return text + "]";
}

/// Limit on the attributes of one node; no operator has nearly as many.
constexpr std::size_t kMaxAttributes = 64;

constexpr std::string_view kWordCharacters =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_+-.";

/// Reads `text` from left to right; every complaint names the position reached.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  Attributes attributes() {
    Attributes result;
    if (text_.empty()) return result;
    expect('{');
    do {
      const std::size_t start = skip_blanks();
      std::string name(word("a name"));
      if (result.items().size() == kMaxAttributes) complain(start, "more than 64 attributes");
      if (result.contains(name))
        complain(start, fmt::format("attribute given twice: '{}'", excerpt(name)));
      expect('=');
      result.set(std::move(name), value());
    } while (accept(','));
    expect('}');
    if (at_ < text_.size()) complain(at_, "text after the closing '}'");
    return result;
  }

 private:
  [[noreturn]] void complain(std::size_t position, std::string_view what) const {
    fail("attributes {}: {} at position {}", excerpt(text_), what, position);
  }

  std::size_t skip_blanks() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    return at_;
  }

  bool accept(char c) {
    skip_blanks();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  void expect(char c) {
    if (!accept(c)) complain(at_, fmt::format("'{}' is missing", c));
  }

  std::string_view word(std::string_view what) {
    const std::size_t start = skip_blanks();
    at_ = std::min(text_.find_first_not_of(kWordCharacters, start), text_.size());
    if (at_ == start) complain(start, fmt::format("{} is missing", what));
    return text_.substr(start, at_ - start);
  }

  template <class T>
  static std::optional<T> number(std::string_view text) {
    T result{};
    const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), result);
    if (status != std::errc{} || end != text.data() + text.size()) return std::nullopt;
    return result;
  }

  /// An integer or a real, told apart by how it is written: 1 or 1.0, so an integer
  /// never overflows into a real.
  static std::optional<std::variant<std::int64_t, double>> number(std::string_view text) {
    if (text.find_first_of(kRealMarks) == std::string_view::npos) return number<std::int64_t>(text);
    return number<double>(text);
  }

  Attribute value() {
    const std::size_t start = skip_blanks();
    if (accept('"')) return quoted(start);
    if (accept('[')) return list();
    const std::string_view text = word("a value");
    if (const auto read = number(text))
      return std::visit([](auto v) { return Attribute(v); }, *read);
    for (DType dtype : kDTypes)
      if (name_of(dtype) == text) return dtype;
    complain(start, fmt::format("'{}' is neither a number (of 64 bits) nor an element type",
                                excerpt(text)));
  }

  std::string quoted(std::size_t start) {
    std::string result;
    for (; at_ < text_.size() && text_[at_] != '"'; ++at_) {
      const bool escaped = text_[at_] == '\\' && at_ + 1 < text_.size();
      if (escaped) ++at_;
      result += escaped && text_[at_] == 'n' ? '\n' : text_[at_];
    }
    if (at_ == text_.size()) complain(start, "the string is not terminated");
    ++at_;
    return result;
  }

  Attribute list() {
    if (accept(']')) return std::vector<std::int64_t>();
    if (text_.substr(at_ - 1, kNoReals.size()) == kNoReals) {
      at_ += kNoReals.size() - 1;
      return std::vector<double>();
    }
    std::vector<std::int64_t> integers;
    std::vector<double> reals;
    do {
      const std::size_t start = skip_blanks();
      const std::string_view text = word("a number");
      const auto read = number(text);
      if (!read) complain(start, fmt::format("'{}' is not a number (of 64 bits)", excerpt(text)));
      if (const auto* integer = std::get_if<std::int64_t>(&*read)) integers.push_back(*integer);
      reals.push_back(std::visit([](auto v) { return static_cast<double>(v); }, *read));
    } while (accept(','));
    expect(']');
    // One number written as a real makes the whole list one of reals.
    if (integers.size() == reals.size()) return integers;
    return reals;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

std::string to_string(const Attributes& attributes) {
  if (attributes.items().empty()) return "";
  std::string text;
  for (const auto& [name, value] : attributes.items()) {
    text += text.empty() ? "{" : ", ";
    text += name + "=" + std::visit([](const auto& v) { return print(v); }, value);
  }
  return text + "}";
}

Attributes parse_attributes(std::string_view text) { return Reader(text).attributes(); }

}  // namespace alpa
