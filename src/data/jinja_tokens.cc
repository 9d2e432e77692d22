// src/data/jinja_tokens.cc — cuts a Jinja template into tokens
#include <algorithm>
#include <cctype>

#include "alpa/base/error.h"
#include "alpa/base/text.h"
#include "jinja.h"

namespace alpa::jinja {
namespace {

class Lexer {
 public:
  Lexer(std::string_view text, const std::string& origin) : text_(text), origin_(origin) {
    if (text_.ends_with('\n')) text_.remove_suffix(1);  // as Jinja does
  }

  std::vector<Token> tokens() {
    while (at_ < text_.size()) {
      const std::size_t tag = next_tag();
      add_text(tag);
      if (tag == text_.npos) break;
      at_ = tag + 2;
      const char kind = text_[tag + 1];
      if (at_ < text_.size() && (text_[at_] == '-' || text_[at_] == '+')) ++at_;
      if (kind == '#')
        skip_comment();
      else
        add_tag(kind);
    }
    add(TokenKind::end, "");
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void mistake(const std::string& what) const {
    fail("{}: line {}: {}", origin_, line_, what);
  }
  void add(TokenKind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }
  void pass(std::size_t end) {
    line_ += static_cast<int>(std::count(text_.begin() + static_cast<std::ptrdiff_t>(at_),
                                         text_.begin() + static_cast<std::ptrdiff_t>(end), '\n'));
    at_ = end;
  }

  std::size_t next_tag() const {
    for (std::size_t i = at_; i + 1 < text_.size(); ++i)
      if (text_[i] == '{' && (text_[i + 1] == '{' || text_[i + 1] == '%' || text_[i + 1] == '#'))
        return i;
    return text_.npos;
  }

  /// The text up to a tag, without the space that the tags around it take.
  void add_text(std::size_t tag) {
    const std::size_t end = std::min(tag, text_.size());
    std::string_view part = text_.substr(at_, end - at_);
    const bool at_line_start = at_ == 0 || text_[at_ - 1] == '\n';
    if (strip_next_) part.remove_prefix(std::min(part.find_first_not_of(kSpace), part.size()));
    const char sign = tag != text_.npos && tag + 2 < text_.size() ? text_[tag + 2] : ' ';
    if (tag != text_.npos && sign == '-') {
      part = part.substr(0, part.find_last_not_of(kSpace) + 1);
    } else if (tag != text_.npos && sign != '+' && text_[tag + 1] != '{') {
      const std::size_t line = part.rfind('\n') + 1;
      const bool alone = part.find_first_not_of(kSpace, line) == part.npos;
      if (alone && (line > 0 || at_line_start)) part = part.substr(0, line);
    }
    if (!part.empty()) add(TokenKind::text, std::string(part));
    pass(end);
    strip_next_ = false;
  }

  /// Passes the end of a tag, "}}" for instance, and notes what it takes of the text behind it.
  void pass_end(char sign, bool takes_line) {
    pass(at_ + 2);
    strip_next_ = sign == '-';
    if (takes_line && sign == ' ' && at_ < text_.size() && text_[at_] == '\n') pass(at_ + 1);
  }

  void skip_comment() {
    const std::size_t end = text_.find("#}", at_);
    if (end == text_.npos) mistake("a comment without \"#}\"");
    const char sign =
        end > at_ && (text_[end - 1] == '-' || text_[end - 1] == '+') ? text_[end - 1] : ' ';
    pass(end);
    pass_end(sign, true);
  }

  /// Whether a tag of this kind ends here, and the sign before its end.
  bool ends_here(char kind, char& sign) const {
    std::size_t at = at_;
    sign = ' ';
    if (text_[at] == '-' || (text_[at] == '+' && kind == '%')) sign = text_[at++];
    const std::string_view end = kind == '%' ? "%}" : "}}";
    return text_.substr(at, 2) == end;
  }

  void add_tag(char kind) {
    add(TokenKind::open, std::string(1, kind));
    int depth = 0;  // of braces: "}}" may end two objects
    while (true) {
      pass(std::min(text_.find_first_not_of(kSpace, at_), text_.size()));
      if (at_ == text_.size())
        mistake(kind == '%' ? "a tag without \"%}\"" : "a tag without \"}}\"");
      char sign = ' ';
      if (depth == 0 && ends_here(kind, sign)) {
        if (sign != ' ') ++at_;
        add(TokenKind::close, std::string(1, kind));
        return pass_end(sign, kind == '%');
      }
      depth += text_[at_] == '{' ? 1 : text_[at_] == '}' ? -1 : 0;
      add_word();
    }
  }

  static bool is_word(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
  }

  void add_word() {
    const char first = text_[at_];
    if (first == '"' || first == '\'') return add_string(first);
    if (std::isdigit(static_cast<unsigned char>(first)) != 0) return add_number();
    std::size_t end = at_;
    while (end < text_.size() && is_word(text_[end])) ++end;
    if (end > at_) {
      add(TokenKind::name, std::string(text_.substr(at_, end - at_)));
      return pass(end);
    }
    static constexpr std::string_view kPairs[] = {"**", "//", "==", "!=", "<=", ">="};
    for (const std::string_view pair : kPairs)
      if (text_.substr(at_, 2) == pair)
        return add(TokenKind::symbol, std::string(pair)), pass(at_ + 2);
    if (std::string_view("+-*/%~<>=.,:|()[]{}").find(first) == std::string_view::npos)
      mistake(fmt::format("\"{}\" is no part of an expression", excerpt(text_.substr(at_, 1))));
    add(TokenKind::symbol, std::string(1, first));
    pass(at_ + 1);
  }

  void add_number() {
    const auto digits = [&](std::size_t from) {
      while (from < text_.size() && std::isdigit(static_cast<unsigned char>(text_[from])) != 0)
        ++from;
      return from;
    };
    const std::size_t whole = digits(at_);
    const bool real =
        whole + 1 < text_.size() && text_[whole] == '.' && digits(whole + 1) > whole + 1;
    const std::size_t end = real ? digits(whole + 1) : whole;
    if (end - at_ > 18) mistake("a number of more than 18 digits");
    add(real ? TokenKind::real : TokenKind::integer, std::string(text_.substr(at_, end - at_)));
    pass(end);
  }

  void add_string(char quote) {
    std::string value;
    std::size_t i = at_ + 1;
    for (; i < text_.size() && text_[i] != quote; ++i) {
      if (text_[i] != '\\' || i + 1 == text_.size()) {
        value += text_[i];
        continue;
      }
      const char escaped = text_[++i];
      static constexpr std::string_view kNames = "nrtfv0\\'\"\n", kBytes("\n\r\t\f\v\0\\'\"", 9);
      const std::size_t known = kNames.find(escaped);
      if (escaped == 'u' || escaped == 'x')
        mistake(fmt::format("\"\\{}\" in a text; write the character itself", escaped));
      if (known == kNames.npos)
        value += {'\\', escaped};
      else if (known < kBytes.size())
        value += kBytes[known];
    }
    if (i >= text_.size()) mistake("a text without its closing quote");
    add(TokenKind::string, std::move(value));
    pass(i + 1);
  }

  std::string_view text_;
  const std::string& origin_;
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool strip_next_ = false;
};

}  // namespace

std::vector<Token> tokens_of(std::string_view text, const std::string& origin) {
  return Lexer(text, origin).tokens();
}

}  // namespace alpa::jinja
