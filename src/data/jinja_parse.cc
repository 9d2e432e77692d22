// src/data/jinja_parse.cc — parses a Jinja template into statements
#include <algorithm>
#include <array>
#include <charconv>

#include "alpa/base/error.h"
#include "alpa/base/text.h"
#include "jinja.h"

namespace alpa::jinja {
namespace {

constexpr int kDeepest = 200;   ///< nested expressions and statements
constexpr int kHighest = 1000;  ///< of an expression

class Parser {
 public:
  Parser(std::string_view text, const std::string& origin)
      : tokens_(tokens_of(text, origin)), origin_(origin) {}

  std::vector<Statement> statements() {
    std::vector<Statement> all = body({});
    if (now().kind != TokenKind::end) mistake("an end of nothing");
    return all;
  }

 private:
  using Words = std::vector<std::string_view>;

  /// Counts how deep the parser is.
  struct Depth {
    explicit Depth(Parser& parser) : depth(parser.depth_) {
      if (++depth > kDeepest) parser.mistake("nested too deep");
    }
    ~Depth() { --depth; }
    int& depth;
  };

  const Token& now() const { return tokens_[at_]; }
  const Token& ahead(std::size_t n) const { return tokens_[std::min(at_ + n, tokens_.size() - 1)]; }
  [[noreturn]] void mistake(const std::string& what) const {
    fail("{}: line {}: {}", origin_, now().line, what);
  }
  [[noreturn]] void unexpected(std::string_view expected) const {
    mistake(fmt::format("found \"{}\", expected {}", excerpt(now().text), expected));
  }
  bool is(TokenKind kind, std::string_view text) const {
    return now().kind == kind && now().text == text;
  }
  bool is_symbol(std::string_view text) const { return is(TokenKind::symbol, text); }
  bool is_name(std::string_view text) const { return is(TokenKind::name, text); }
  bool take(TokenKind kind, std::string_view text) {
    if (!is(kind, text)) return false;
    ++at_;
    return true;
  }
  bool take_symbol(std::string_view text) { return take(TokenKind::symbol, text); }
  bool take_name(std::string_view text) { return take(TokenKind::name, text); }
  void need_symbol(std::string_view text) {
    if (!take_symbol(text)) unexpected(fmt::format("\"{}\"", text));
  }
  std::string need_name() {
    if (now().kind != TokenKind::name) unexpected("a name");
    return tokens_[at_++].text;
  }
  void need_close(std::string_view kind) {
    if (!take(TokenKind::close, kind)) unexpected("the end of the tag");
  }

  // Statements.

  /// The statements up to a tag that begins with one of `ends`, or up to the end of the template.
  std::vector<Statement> body(const Words& ends) {
    const Depth in(*this);
    std::vector<Statement> result;
    while (now().kind != TokenKind::end) {
      if (now().kind == TokenKind::text) {
        result.push_back({StatementKind::text, now().line, now().text});
        ++at_;
      } else if (take(TokenKind::open, "{")) {
        result.push_back({.kind = StatementKind::print, .line = now().line});
        result.back().expressions.push_back(expression());
        need_close("{");
      } else {
        if (std::ranges::find(ends, std::string_view(ahead(1).text)) != ends.end()) return result;
        ++at_;
        result.push_back(statement());
      }
    }
    if (!ends.empty()) mistake(fmt::format("no \"{}\"", ends.back()));
    return result;
  }

  /// Passes the tag whose name was found by `body`, without what is behind its name.
  void pass_end(std::string_view name) {
    ++at_;
    if (!take_name(name)) unexpected(fmt::format("\"{}\"", name));
  }

  Statement statement() {
    const int line = now().line;
    const std::string name = need_name();
    if (name == "for") return loop(line);
    if (name == "if") return branches(line);
    if (name == "set") return set(line);
    if (name == "macro") return macro(line);
    if (name == "break" || name == "continue") {
      if (loops_ == 0) mistake(fmt::format("\"{}\" outside of a loop", name));
      need_close("%");
      return {name == "break" ? StatementKind::leave : StatementKind::next, line};
    }
    if (name == "generation") {  // what the model writes: all of it is printed
      need_close("%");
      Statement block{.kind = StatementKind::block, .line = line};
      block.bodies.push_back(body({"endgeneration"}));
      pass_end("endgeneration");
      need_close("%");
      return block;
    }
    --at_;
    mistake(
        fmt::format("\"{}\" is not supported; chat templates have for, if, set, macro, break, "
                    "continue and generation",
                    excerpt(name)));
  }

  std::vector<std::string> targets() {
    const bool in_parentheses = take_symbol("(");
    std::vector<std::string> names{need_name()};
    while (take_symbol(",")) names.push_back(need_name());
    if (in_parentheses) need_symbol(")");
    return names;
  }

  Statement loop(int line) {
    Statement result{.kind = StatementKind::loop, .line = line, .names = targets()};
    if (!take_name("in")) unexpected("\"in\"");
    result.expressions.push_back(either());
    if (take_name("if")) result.expressions.push_back(expression());
    need_close("%");
    ++loops_;
    result.bodies.push_back(body({"else", "endfor"}));
    --loops_;
    if (ahead(1).text == "else") {
      pass_end("else");
      need_close("%");
      result.bodies.push_back(body({"endfor"}));
    }
    pass_end("endfor");
    need_close("%");
    return result;
  }

  Statement branches(int line) {
    Statement result{.kind = StatementKind::branches, .line = line};
    do {
      result.expressions.push_back(expression());
      need_close("%");
      result.bodies.push_back(body({"elif", "else", "endif"}));
      ++at_;
    } while (take_name("elif"));
    if (take_name("else")) {
      need_close("%");
      result.bodies.push_back(body({"endif"}));
      ++at_;
    }
    if (!take_name("endif")) unexpected("\"endif\"");
    need_close("%");
    return result;
  }

  Statement set(int line) {
    Statement result{.kind = StatementKind::set, .line = line, .names = targets()};
    if (take_symbol(".")) result.text = need_name();
    if (take_symbol("=")) {
      result.expressions.push_back(tuple());
      need_close("%");
      return result;
    }
    need_close("%");
    result.bodies.push_back(body({"endset"}));
    pass_end("endset");
    need_close("%");
    return result;
  }

  Statement macro(int line) {
    Statement result{.kind = StatementKind::macro, .line = line, .text = need_name()};
    need_symbol("(");
    while (!take_symbol(")")) {
      result.names.push_back(need_name());
      if (take_symbol("="))
        result.expressions.push_back(expression());
      else if (!result.expressions.empty())
        unexpected("a default, as the argument before has one");
      if (!is_symbol(")")) need_symbol(",");
    }
    need_close("%");
    result.bodies.push_back(body({"endmacro"}));
    pass_end("endmacro");
    need_close("%");
    return result;
  }

  // Expressions, by how weakly they bind.

  Expression make(ExpressionKind kind, std::vector<Expression> parts, std::string text = "") const {
    int height = 1;
    for (const Expression& part : parts) height = std::max(height, part.height + 1);
    if (height > kHighest) mistake("an expression of too many parts");
    return {.kind = kind,
            .line = now().line,
            .text = std::move(text),
            .parts = std::move(parts),
            .height = height};
  }
  Expression constant(Json value) const {
    return {.kind = ExpressionKind::constant, .line = now().line, .value = std::move(value)};
  }

  Expression tuple() {
    Expression first = expression();
    if (!is_symbol(",")) return first;
    std::vector<Expression> parts{std::move(first)};
    while (take_symbol(",") && now().kind != TokenKind::close) parts.push_back(expression());
    return make(ExpressionKind::list, std::move(parts));
  }

  Expression expression() {
    const Depth in(*this);
    Expression value = either();
    while (take_name("if")) {
      Expression condition = either();
      Expression otherwise = take_name("else") ? expression() : constant(undefined());
      value = make(ExpressionKind::choice,
                   {std::move(value), std::move(condition), std::move(otherwise)});
    }
    return value;
  }

  Expression either() {
    Expression left = both();
    while (take_name("or")) left = binary("or", std::move(left), both());
    return left;
  }
  Expression both() {
    Expression left = negated();
    while (take_name("and")) left = binary("and", std::move(left), negated());
    return left;
  }
  Expression negated() {
    const Depth in(*this);
    if (!take_name("not")) return compare();
    return make(ExpressionKind::unary, {negated()}, "not");
  }
  Expression binary(std::string symbol, Expression left, Expression right) const {
    return make(ExpressionKind::binary, {std::move(left), std::move(right)}, std::move(symbol));
  }

  Expression compare() {
    Expression result = make(ExpressionKind::compare, {});
    result.parts.push_back(added());
    while (true) {
      const bool is_not_in = is_name("not") && ahead(1).text == "in";
      static constexpr std::array<std::string_view, 6> kSymbols = {"==", "!=", "<",
                                                                   "<=", ">",  ">="};
      const bool is_symbol = now().kind == TokenKind::symbol &&
                             std::ranges::find(kSymbols, now().text) != kSymbols.end();
      if (!is_not_in && !is_symbol && !is_name("in")) break;
      result.words.push_back(is_not_in ? "not in" : now().text);
      at_ += is_not_in ? 2 : 1;
      result.parts.push_back(added());
    }
    if (result.words.empty()) return std::move(result.parts[0]);
    return result;
  }

  /// Parts of `next` between symbols of one strength.
  template <class Next>
  Expression chain(std::initializer_list<std::string_view> symbols, const Next& next) {
    Expression left = next();
    while (now().kind == TokenKind::symbol &&
           std::ranges::find(symbols, now().text) != symbols.end()) {
      const std::string symbol = tokens_[at_++].text;
      left = binary(symbol, std::move(left), next());
    }
    return left;
  }
  Expression added() {
    return chain({"+", "-"}, [&] { return joined(); });
  }
  Expression joined() {
    return chain({"~"}, [&] { return multiplied(); });
  }
  Expression multiplied() {
    return chain({"*", "/", "//", "%"}, [&] { return raised(); });
  }
  Expression raised() {
    return chain({"**"}, [&] { return signed_value(true); });
  }

  Expression signed_value(bool with_filters) {
    const Depth in(*this);
    Expression value = [&] {
      for (const char* sign : {"-", "+"})
        if (take_symbol(sign)) return make(ExpressionKind::unary, {signed_value(false)}, sign);
      return primary();
    }();
    value = behind(std::move(value));
    return with_filters ? filtered_value(std::move(value)) : value;
  }

  Expression primary() {
    const Token token = now();
    ++at_;
    switch (token.kind) {
      case TokenKind::name:
        if (token.text == "true" || token.text == "True") return constant(true);
        if (token.text == "false" || token.text == "False") return constant(false);
        if (token.text == "none" || token.text == "None") return constant(nullptr);
        return make(ExpressionKind::name, {}, token.text);
      case TokenKind::integer: {
        std::int64_t value = 0;
        std::from_chars(token.text.data(), token.text.data() + token.text.size(), value);
        return constant(value);
      }
      case TokenKind::real: {
        double value = 0;
        std::from_chars(token.text.data(), token.text.data() + token.text.size(), value);
        return constant(value);
      }
      case TokenKind::string: {
        std::string value = token.text;
        while (now().kind == TokenKind::string) value += tokens_[at_++].text;
        return constant(value);
      }
      default: break;
    }
    --at_;
    if (take_symbol("(")) return in_parentheses();
    if (take_symbol("[")) return make(ExpressionKind::list, parts_until("]"));
    if (take_symbol("{")) return object();
    unexpected("a value");
  }

  Expression in_parentheses() {
    if (take_symbol(")")) return make(ExpressionKind::list, {});
    Expression first = expression();
    if (take_symbol(")")) return first;
    need_symbol(",");
    std::vector<Expression> parts = parts_until(")");
    parts.insert(parts.begin(), std::move(first));
    return make(ExpressionKind::list, std::move(parts));
  }

  std::vector<Expression> parts_until(std::string_view end) {
    std::vector<Expression> parts;
    while (!take_symbol(end)) {
      parts.push_back(expression());
      if (!is_symbol(end)) need_symbol(",");
    }
    return parts;
  }

  Expression object() {
    std::vector<Expression> parts;
    while (!take_symbol("}")) {
      parts.push_back(expression());
      need_symbol(":");
      parts.push_back(expression());
      if (!is_symbol("}")) need_symbol(",");
    }
    return make(ExpressionKind::object, std::move(parts));
  }

  /// Attributes, items and calls behind a value.
  Expression behind(Expression value) {
    while (true) {
      if (take_symbol(".")) {
        if (now().kind == TokenKind::integer) {
          value = make(ExpressionKind::item, {std::move(value), primary()});
          continue;
        }
        value = make(ExpressionKind::attribute, {std::move(value)}, need_name());
      } else if (take_symbol("[")) {
        value = item(std::move(value));
      } else if (take_symbol("(")) {
        value = make(ExpressionKind::call, {std::move(value)});
        read_arguments(value);
      } else {
        return value;
      }
    }
  }

  Expression item(Expression value) {
    std::vector<Expression> parts{std::move(value)};
    const auto part = [&] {
      const bool absent = is_symbol(":") || is_symbol("]");
      parts.push_back(absent ? constant(undefined()) : expression());
    };
    part();
    const bool slice = is_symbol(":");
    while (parts.size() < 4 && take_symbol(":")) part();
    need_symbol("]");
    if (slice) parts.resize(4, constant(undefined()));
    return make(slice ? ExpressionKind::slice : ExpressionKind::item, std::move(parts));
  }

  /// Arguments up to ")".
  void read_arguments(Expression& call) {
    while (!take_symbol(")")) {
      if (now().kind == TokenKind::name && ahead(1).kind == TokenKind::symbol &&
          ahead(1).text == "=") {
        std::string name = need_name();
        ++at_;
        call.named.emplace_back(std::move(name), expression());
      } else {
        call.parts.push_back(expression());
      }
      if (!is_symbol(")")) need_symbol(",");
    }
  }

  Expression filtered_value(Expression value) {
    while (true) {
      if (take_symbol("|")) {
        value = make(ExpressionKind::filter, {std::move(value)}, need_name());
        if (take_symbol("(")) read_arguments(value);
      } else if (take_name("is")) {
        const bool negative = take_name("not");
        value = make(ExpressionKind::test, {std::move(value)}, need_name());
        if (take_symbol("("))
          read_arguments(value);
        else if (begins_argument())
          value.parts.push_back(behind(primary()));
        if (negative) value = make(ExpressionKind::unary, {std::move(value)}, "not");
      } else {
        return value;
      }
    }
  }

  /// Whether a test has its argument here, without parentheses.
  bool begins_argument() const {
    static constexpr std::array<std::string_view, 7> kBehind = {"else", "or", "and", "is",
                                                                "if",   "in", "not"};
    if (now().kind == TokenKind::name)
      return std::ranges::find(kBehind, now().text) == kBehind.end();
    return now().kind == TokenKind::string || now().kind == TokenKind::integer ||
           now().kind == TokenKind::real || is_symbol("[") || is_symbol("{");
  }

  std::vector<Token> tokens_;
  const std::string& origin_;
  std::size_t at_ = 0;
  int depth_ = 0, loops_ = 0;
};

}  // namespace

std::vector<Statement> parse(std::string_view text, const std::string& origin) {
  return Parser(text, origin).statements();
}

}  // namespace alpa::jinja
