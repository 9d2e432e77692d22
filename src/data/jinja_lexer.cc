// src/data/jinja_lexer.cc — a chat template as tokens, without the white space that tags take away
#include <algorithm>
#include <array>
#include <cctype>

#include "alpa/base/text.h"
#include "src/data/jinja_syntax.h"

namespace alpa::jinja {
namespace {

bool starts_name(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

class Lexer {
 public:
  explicit Lexer(const Source& source) : source_(source), text_(source.text) {
    if (text_.ends_with('\n')) text_.remove_suffix(1);
  }

  std::vector<Token> run() {
    while (at_ < text_.size()) {
      std::size_t tag = at_;
      while ((tag = text_.find('{', tag)) != text_.npos &&
             (tag + 1 == text_.size() || std::string_view("{%#").find(text_[tag + 1]) > 2))
        ++tag;
      add_data(tag);
      if (tag == text_.npos) break;
      const char kind = text_[tag + 1];
      at_ = tag + (sign_behind(tag) != 0 ? 3 : 2);
      if (kind == '#')
        skip_comment(tag);
      else
        read_tag(tag, kind == '{');
    }
    add(TokenKind::end, "", text_.size());
    return std::move(tokens_);
  }

 private:
  void add(TokenKind kind, std::string text, std::size_t offset) {
    tokens_.push_back({kind, std::move(text), offset});
  }
  /// The + or - of a tag that opens at `tag`; 0 if it has none.
  char sign_behind(std::size_t tag) const {
    const char sign = tag + 2 < text_.size() ? text_[tag + 2] : '\0';
    return sign == '-' || sign == '+' ? sign : '\0';
  }
  /// Adds the text up to a tag, or to the end.
  void add_data(std::size_t tag) {
    std::string_view data = text_.substr(at_, tag - at_);
    if (tag != text_.npos && sign_behind(tag) == '-')
      data.remove_suffix(trailing_space(data));
    else if (tag != text_.npos && sign_behind(tag) == 0 && text_[tag + 1] != '{')
      data.remove_suffix(indent_of(data));
    if (!data.empty()) add(TokenKind::data, std::string(data), at_);
  }
  /// Bytes of white space between the line's start and the end of `data`, which is at a tag.
  std::size_t indent_of(std::string_view data) const {
    const std::size_t line = data.rfind('\n') + 1;
    if (line == 0 && at_ > 0 && text_[at_ - 1] != '\n') return 0;
    const std::size_t space = data.size() - line;
    return leading_space(data.substr(line)) == space ? space : 0;
  }
  void skip_comment(std::size_t tag) {
    const std::size_t end = text_.find("#}", at_);
    if (end == text_.npos) source_.refuse(tag, "the comment has no end; write #} behind it");
    const char sign = end > at_ ? text_[end - 1] : '\0';
    at_ = end + 2;
    skip_behind(sign == '-', sign != '+');
  }
  /// Behind a tag: skips all white space, or one end of a line.
  void skip_behind(bool space, bool line) {
    if (space)
      at_ += leading_space(text_.substr(at_));
    else if (line && at_ < text_.size() && text_[at_] == '\n')
      ++at_;
  }

  void read_tag(std::size_t tag, bool output) {
    add(output ? TokenKind::open_output : TokenKind::open_tag, "", tag);
    std::string open;  // brackets
    while (true) {
      at_ += leading_space(text_.substr(at_));
      if (at_ >= text_.size())
        source_.refuse(tag, output ? "{{ has no }} behind it" : "{% has no %} behind it");
      if (open.empty() && close_tag(output)) return;
      if (!read_name() && !read_number() && !read_text()) read_sign(open);
    }
  }
  bool close_tag(bool output) {
    const std::string_view rest = text_.substr(at_), close = output ? "}}" : "%}";
    const bool space = rest[0] == '-', keep = rest[0] == '+' && !output;
    if (!rest.substr(space || keep ? 1 : 0).starts_with(close)) return false;
    add(output ? TokenKind::close_output : TokenKind::close_tag, "", at_);
    at_ += (space || keep ? 3 : 2);
    skip_behind(space, !output && !keep);
    return true;
  }
  bool read_name() {
    std::size_t end = at_;
    while (end < text_.size() && (starts_name(text_[end]) || (end > at_ && is_digit(text_[end]))))
      ++end;
    return take(TokenKind::name, end);
  }
  /// Digits, a fraction and an exponent.
  bool read_number() {
    std::size_t end = digits(at_);
    if (end == at_) return false;
    const bool member = !tokens_.empty() && tokens_.back().text == ".";  // the 0 of x.0.y
    if (!member && end < text_.size() && text_[end] == '.') {
      const std::size_t fraction = digits(end + 1);
      if (fraction > end + 1) end = fraction;
    }
    if (!member && end < text_.size() && (text_[end] == 'e' || text_[end] == 'E')) {
      const bool sign = end + 1 < text_.size() && (text_[end + 1] == '-' || text_[end + 1] == '+');
      const std::size_t begin = end + (sign ? 2 : 1), exponent = digits(begin);
      if (exponent > begin) end = exponent;
    }
    return take(TokenKind::number, end);
  }
  std::size_t digits(std::size_t at) const {
    while (at < text_.size() && is_digit(text_[at])) ++at;
    return at;
  }
  bool take(TokenKind kind, std::size_t end) {
    if (end == at_) return false;
    add(kind, std::string(text_.substr(at_, end - at_)), at_);
    at_ = end;
    return true;
  }

  bool read_text() {
    const char quote = text_[at_];
    if (quote != '\'' && quote != '"') return false;
    const std::size_t begin = at_++;
    std::string literal;
    while (at_ < text_.size() && text_[at_] != quote)
      if (text_[at_] == '\\')
        literal += escaped();
      else
        literal += text_[at_++];
    if (at_ >= text_.size()) source_.refuse(begin, "the text has no closing quote");
    ++at_;
    add(TokenKind::text, std::move(literal), begin);
    return true;
  }
  /// An escape of Python; unknown ones stand for themselves.
  std::string escaped() {
    const char c = at_ + 1 < text_.size() ? text_[at_ + 1] : '\0';
    constexpr std::string_view kLetters = "ntrabfv\\'\"\n", kStand = "\n\t\r\a\b\f\v\\'\"";
    if (const std::size_t i = kLetters.find(c); i != kLetters.npos) {
      at_ += 2;
      return std::string(kStand.substr(i, 1));
    }
    if (c >= '0' && c <= '7') return code_escape(1, 3, 8);
    if (c == 'x' || c == 'u' || c == 'U')
      return code_escape(2, c == 'x' ? 2 : c == 'u' ? 4 : 8, 16);
    if (c == 'N' || static_cast<unsigned char>(c) >= 0x80)  // Jinja writes the latter in ASCII
      source_.refuse(at_, "the escape is one that alpa lacks; write the character");
    ++at_;
    return "\\";
  }
  /// A character by its number, of `most` digits that begin `skip` bytes from here; of base 16 all
  /// have to be there.
  std::string code_escape(std::size_t skip, std::size_t most, unsigned base) {
    std::uint32_t code = 0;
    std::size_t count = 0;
    for (; count < most && at_ + skip + count < text_.size(); ++count) {
      const auto c = static_cast<unsigned char>(text_[at_ + skip + count]);
      const unsigned digit = is_digit(static_cast<char>(c)) ? c - '0' : (c | 0x20U) - 'a' + 10;
      if (digit >= base) break;
      code = code * base + digit;
    }
    if ((base == 16 && count < most) || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000))
      source_.refuse(at_, "the escape stands for no character");
    at_ += skip + count;
    return utf8_of(code);
  }

  void read_sign(std::string& open) {
    constexpr std::array<std::string_view, 26> kSigns = {
        "==", "!=", ">=", "<=", "//", "**", "+", "-", "/", "*", "%", "~", "[",
        "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};
    const std::string_view rest = text_.substr(at_);
    const auto* sign = std::find_if(kSigns.begin(), kSigns.end(),
                                    [&](std::string_view s) { return rest.starts_with(s); });
    if (sign == kSigns.end())
      source_.refuse(at_, "'" + excerpt(characters(rest.substr(0, 8))[0]) +
                              "' begins nothing of an expression");
    constexpr std::string_view kOpen = "([{", kClose = ")]}";
    if (const std::size_t i = kOpen.find(*sign); i != kOpen.npos) open += kClose[i];
    if (kClose.find(*sign) != kClose.npos) {
      if (open.empty() || open.back() != sign->front())
        source_.refuse(at_, fmt::format("'{}' closes no bracket", *sign));
      open.pop_back();
    }
    take(TokenKind::sign, at_ + sign->size());
  }

  const Source& source_;
  std::string_view text_;
  std::size_t at_ = 0;
  std::vector<Token> tokens_;
};

}  // namespace

void Source::refuse(std::size_t offset, const std::string& mistake) const {
  const std::string_view before = std::string_view(text).substr(0, offset);
  const std::size_t line = before.rfind('\n') + 1;
  fail("{}: line {}, column {}: {}", path, std::count(before.begin(), before.end(), '\n') + 1,
       before.size() - line + 1, mistake);
}

std::vector<Token> tokens_of(const Source& source) { return Lexer(source).run(); }

}  // namespace alpa::jinja
