// src/import/reader.cc — pieces of MLIR's text: words, numbers, strings, types
#include "src/import/reader.h"

#include <bit>
#include <charconv>

#include "alpa/base/text.h"

namespace alpa::stablehlo {
namespace {

constexpr int kMostNested = 64;
constexpr double kMostResults = 1 << 16;

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/// "4x8x" before the element. False if there is an extent that is not a number.
bool read_extents(std::string_view& text, Shape& shape) {
  while (!text.empty() && text[0] >= '0' && text[0] <= '9') {
    std::int64_t extent = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), extent);
    const auto length = static_cast<std::size_t>(end - text.data());
    if (error != std::errc() || length >= text.size() || text[length] != 'x') return false;
    shape.push_back(extent);
    text.remove_prefix(length + 1);
  }
  return !text.starts_with("?");
}

}  // namespace

Reader::Nested::Nested(Reader& reader) : reader_(reader) {
  const TextPlace place = reader.place();
  if (++reader.depth_ > kMostNested) {
    --reader.depth_;
    fail_at(place, "brackets are nested more than {} deep", kMostNested);
  }
}

void Reader::skip() {
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (c == '\n') {
      ++line_, line_start_ = at_ + 1;
    } else if (rest().starts_with("//")) {
      at_ = std::min(text_.find('\n', at_), text_.size());
      continue;
    } else if (c != ' ' && c != '\t' && c != '\r') {
      return;
    }
    ++at_;
  }
}

TextPlace Reader::place() {
  skip();
  return {line_, static_cast<int>(at_ - line_start_) + 1};
}

bool Reader::at_end() {
  skip();
  return at_ == text_.size();
}

bool Reader::sees(std::string_view what) {
  skip();
  return rest().starts_with(what);
}

bool Reader::take(std::string_view what) {
  if (!sees(what)) return false;
  at_ += what.size();
  return true;
}

void Reader::expect(std::string_view what) {
  if (!take(what)) fail_here("\"" + std::string(what) + '"');
}

std::string_view Reader::word(std::string_view others) {
  skip();
  std::size_t end = at_;
  while (end < text_.size() &&
         (is_letter(text_[end]) || others.find(text_[end]) != std::string_view::npos))
    ++end;
  const std::string_view found = text_.substr(at_, end - at_);
  at_ = end;
  return found;
}

std::string Reader::quoted() {
  expect("\"");
  std::size_t end = at_;
  while (end < text_.size() && text_[end] != '"' && text_[end] != '\n')
    end += text_[end] == '\\' ? 2 : 1;
  if (end >= text_.size() || text_[end] != '"') fail_here("the end of a string");
  const std::string found(text_.substr(at_, end - at_));
  at_ = end + 1;
  return found;
}

double Reader::number() {
  if (take("true")) return 1;
  if (take("false")) return 0;
  skip();
  const bool hexadecimal = rest().starts_with("0x") || rest().starts_with("0X");
  const char *begin = text_.data() + at_, *end = text_.data() + text_.size();
  double value = 0;
  std::uint64_t bits = 0;
  const std::from_chars_result result =
      hexadecimal ? std::from_chars(begin + 2, end, bits, 16) : std::from_chars(begin, end, value);
  if (result.ec != std::errc()) fail_here("a number");
  at_ = static_cast<std::size_t>(result.ptr - text_.data());
  return hexadecimal ? std::bit_cast<double>(bits) : value;
}

std::size_t Reader::count() {
  const TextPlace here = place();
  const double found = number();
  if (!(found >= 0 && found <= kMostResults)) fail_at(here, "{} is no number of results", found);
  return static_cast<std::size_t>(found);
}

std::string_view Reader::balanced(char open, char close) {
  const std::size_t start = at_;
  for (int depth = 1; at_ < text_.size(); ++at_) {
    const char c = text_[at_];
    if (c == '\n') ++line_, line_start_ = at_ + 1;
    if (c == '"') {
      static_cast<void>(quoted());
      --at_;
    } else if (c == open) {
      ++depth;
    } else if (c == close && !(c == '>' && at_ > start && text_[at_ - 1] == '-') && --depth == 0) {
      return text_.substr(start, at_++ - start);
    }
  }
  fail_here("\"" + std::string(1, close) + '"');
}

void Reader::fail_here(std::string_view expected) {
  const TextPlace here = place();
  const std::string_view line = rest().substr(0, std::min(rest().find('\n'), rest().size()));
  fail_at(here, "found \"{}\", expected {}", excerpt(line, 30), expected);
}

Type read_type(Reader& reader) {
  const TextPlace place = reader.place();
  if (!reader.take("tensor<")) {
    Type type{.element = std::string(reader.word("_.$!?*")), .shape = {}};
    if (type.element.empty()) reader.fail_here("a type");
    if (reader.take("<")) type.element += "<" + std::string(reader.balanced('<', '>')) + ">";
    return type;
  }
  std::string_view inside = reader.balanced('<', '>');
  Type type;
  if (!read_extents(inside, type.shape))
    fail_at(place,
            "tensor<{}> has no fixed shape; lower the jax function for arrays, not for "
            "symbolic shapes",
            excerpt(inside));
  type.element = std::string(inside.substr(0, inside.find(',')));
  return type;
}

}  // namespace alpa::stablehlo
