// src/data/jinja_parser.cc — a chat template's tokens as a tree
#include <algorithm>
#include <array>
#include <charconv>

#include "alpa/base/text.h"
#include "src/data/jinja_syntax.h"

namespace alpa::jinja {
namespace {

constexpr int kMaxTreeDepth = 200;  ///< of the tree, which recursion follows

class Parser {
 public:
  explicit Parser(const Source& source) : source_(source), tokens_(tokens_of(source)) {}

  Node run() {
    Node result = body({});
    if (now().kind != TokenKind::end) refuse_now("ends no tag that is open");
    return result;
  }

 private:
  const Token& now() const { return tokens_[at_]; }
  const Token& behind() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  Token next() { return at_ + 1 < tokens_.size() ? tokens_[at_++] : tokens_[at_]; }
  bool is(TokenKind kind, std::string_view text) const {
    return now().kind == kind && now().text == text;
  }
  bool is_sign(std::string_view text) const { return is(TokenKind::sign, text); }
  bool is_name(std::string_view text) const { return is(TokenKind::name, text); }
  bool skip(TokenKind kind, std::string_view text) {
    const bool found = is(kind, text);
    if (found) next();
    return found;
  }
  bool skip_sign(std::string_view text) { return skip(TokenKind::sign, text); }
  bool skip_name(std::string_view text) { return skip(TokenKind::name, text); }
  [[noreturn]] void refuse_now(const std::string& mistake) const {
    const auto kind = now().kind;
    const std::string found = kind == TokenKind::end            ? "the end of the template"
                              : kind == TokenKind::close_tag    ? "%}"
                              : kind == TokenKind::close_output ? "}}"
                                                                : "'" + excerpt(now().text) + "'";
    source_.refuse(now().offset, found + " " + mistake);
  }
  void expect_sign(const char* sign) {
    if (!skip_sign(sign)) refuse_now(fmt::format("is where '{}' was expected", sign));
  }
  void expect_name(const char* name) {
    if (!skip_name(name)) refuse_now(fmt::format("is where '{}' was expected", name));
  }
  std::string name() {
    if (now().kind != TokenKind::name) refuse_now("is where a name was expected");
    return next().text;
  }
  void close_tag() {
    if (now().kind != TokenKind::close_tag) refuse_now("is where %} was expected");
    next();
  }

  /// The node with its depth.
  Node made(Node node) const {
    for (const Node& part : node.parts) node.depth = std::max(node.depth, part.depth + 1);
    if (node.depth > kMaxTreeDepth)
      source_.refuse(node.offset, fmt::format("tags and expressions are nested more than {} deep",
                                              kMaxTreeDepth));
    return node;
  }

  // Tags.

  /// Up to a tag that begins with one of `ends`, or to the end of the template.
  Node body(const std::vector<std::string_view>& ends) {
    if (++open_ > kMaxTreeDepth) refuse_now("is nested too deep");
    Node result{.op = Op::body, .offset = now().offset};
    while (now().kind != TokenKind::end) {
      const Token token = next();
      if (token.kind == TokenKind::data) {
        Node text{.op = Op::constant, .offset = token.offset, .constant = token.text};
        result.parts.push_back(made({Op::output, token.offset, "", {std::move(text)}}));
      } else if (token.kind == TokenKind::open_output) {
        result.parts.push_back(made({Op::output, token.offset, "", {tuple()}}));
        if (now().kind != TokenKind::close_output) refuse_now("is where }} was expected");
        next();
      } else if (std::find(ends.begin(), ends.end(), now().text) != ends.end()) {
        --open_;
        return made(std::move(result));
      } else {
        result.parts.push_back(tag());
        close_tag();
      }
    }
    if (!ends.empty()) refuse_now(fmt::format("is where {{% {} %}} was expected", ends.back()));
    --open_;
    return made(std::move(result));
  }
  /// The rest of an opening tag, and what is before the tag `end`.
  Node body_until(const char* end) {
    close_tag();
    Node result = body({end});
    next();
    return result;
  }
  Node captured(const char* end) {
    const std::size_t offset = now().offset;
    return made({Op::capture, offset, "", {body_until(end)}});
  }

  Node tag() {
    const Token token = now();
    const std::string tag = name();
    if (tag == "if") return branches(token.offset);
    if (tag == "for") return loop(token.offset);
    if (tag == "set") return set(token.offset);
    if (tag == "macro") return macro(token.offset);
    if (tag == "break" || tag == "continue") {
      if (loops_ == 0) source_.refuse(token.offset, tag + " is in no loop");
      return {.op = Op::leave, .offset = token.offset, .text = tag};
    }
    if (tag == "generation")
      return made({Op::generation, token.offset, "", {captured("endgeneration")}});
    if (tag == "filter") {
      std::vector<Node> filters;
      do filters.push_back(filter());
      while (skip_sign("|"));
      return made({Op::output, token.offset, "", {filtered(std::move(filters), "endfilter")}});
    }
    source_.refuse(token.offset, fmt::format("alpa has no tag '{}'; it has if, for, set, macro, "
                                             "break, continue, filter and generation",
                                             excerpt(tag)));
  }
  Node branches(std::size_t offset) {
    Node result{.op = Op::branches, .offset = offset};
    while (true) {
      result.parts.push_back(tuple(false));
      close_tag();
      result.parts.push_back(body({"elif", "else", "endif"}));
      const std::string end = next().text;
      if (end == "elif") continue;
      if (end == "else") result.parts.push_back(body_until("endif"));
      return made(std::move(result));
    }
  }
  Node loop(std::size_t offset) {
    Node result{.op = Op::loop, .offset = offset, .parts = {target(false)}};
    expect_name("in");
    result.parts.push_back(tuple(false));
    const Node always{.op = Op::constant, .offset = offset, .constant = true};
    result.parts.push_back(skip_name("if") ? expression() : always);
    if (is_name("recursive")) refuse_now("is a loop that alpa lacks; write a macro");
    close_tag();
    ++loops_;
    result.parts.push_back(body({"else", "endfor"}));
    --loops_;
    const bool other = next().text == "else";
    result.parts.push_back(other ? body_until("endfor") : Node{.op = Op::body, .offset = offset});
    return made(std::move(result));
  }
  Node set(std::size_t offset) {
    Node to = target(true);
    if (skip_sign("=")) return made({Op::set, offset, "", {std::move(to), tuple()}});
    std::vector<Node> filters;
    while (skip_sign("|")) filters.push_back(filter());
    return made({Op::set, offset, "", {std::move(to), filtered(std::move(filters), "endset")}});
  }
  /// What is before the tag `end`, through filters without their first part.
  Node filtered(std::vector<Node> filters, const char* end) {
    Node result = captured(end);
    for (Node& filter : filters) {
      filter.parts.insert(filter.parts.begin(), std::move(result));
      result = made(std::move(filter));
    }
    return result;
  }
  Node macro(std::size_t offset) {
    Node result{.op = Op::macro, .offset = offset, .text = name(), .parts = {Node{Op::body}}};
    expect_sign("(");
    while (!skip_sign(")")) {
      if (!result.names.empty()) expect_sign(",");
      result.names.push_back(name());
      if (skip_sign("="))
        result.parts.push_back(expression());
      else if (result.parts.size() > 1)
        refuse_now("follows a parameter without default; those with one come last");
    }
    const int loops = std::exchange(loops_, 0);
    result.parts[0] = body_until("endmacro");
    loops_ = loops;
    return made(std::move(result));
  }
  /// Names that get a value, or with `members` the member of a namespace.
  Node target(bool members) {
    std::vector<Node> targets;
    const std::size_t offset = now().offset;
    bool is_tuple = false;
    do {
      if (!targets.empty() && (is_name("in") || is_sign("=") || is_sign(")"))) break;
      if (skip_sign("(")) {
        targets.push_back(target(members));
        expect_sign(")");
      } else {
        targets.push_back({.op = Op::name, .offset = now().offset, .text = name()});
        if (members && skip_sign(".")) {
          const std::size_t at = now().offset;
          targets.back() = made({Op::attribute, at, name(), {targets.back()}});
        }
      }
      is_tuple = is_tuple || is_sign(",");
    } while (skip_sign(","));
    return is_tuple ? made({Op::tuple, offset, "", std::move(targets)}) : std::move(targets[0]);
  }

  // Expressions, from the loosest to the tightest.

  /// An expression, or several with commas between.
  Node tuple(bool conditional = true) {
    const std::size_t offset = now().offset;
    std::vector<Node> items = {conditional ? expression() : either()};
    if (!is_sign(",")) return std::move(items[0]);
    while (skip_sign(",") && !ends_tuple()) items.push_back(conditional ? expression() : either());
    return made({Op::tuple, offset, "", std::move(items)});
  }
  bool ends_tuple() const {
    return is_sign(")") || now().kind == TokenKind::close_output ||
           now().kind == TokenKind::close_tag;
  }
  Node expression() {
    if (++open_ > kMaxTreeDepth) refuse_now("is nested too deep");
    Node result = either();
    while (is_name("if")) {
      const std::size_t offset = next().offset;
      Node condition = either(), other{.op = Op::constant, .offset = offset};
      if (skip_name("else")) other = expression();
      result = made({Op::conditional,
                     offset,
                     "",
                     {std::move(condition), std::move(result), std::move(other)}});
    }
    --open_;
    return result;
  }
  Node either() {
    return chain("or", Op::either,
                 [&] { return chain("and", Op::both, [&] { return negation(); }); });
  }
  template <class Part>
  Node chain(std::string_view word, Op op, Part part) {
    Node left = part();
    while (is_name(word)) {
      const std::size_t offset = next().offset;
      left = made({op, offset, "", {std::move(left), part()}});
    }
    return left;
  }
  Node negation() {
    if (!is_name("not")) return comparison();
    if (++open_ > kMaxTreeDepth) refuse_now("is nested too deep");
    const std::size_t offset = next().offset;
    Node result = made({Op::negate, offset, "", {negation()}});
    --open_;
    return result;
  }
  Node comparison() {
    Node result{.op = Op::compare, .offset = now().offset, .parts = {arithmetic(0)}};
    constexpr std::array<std::string_view, 6> kSigns = {"==", "!=", "<", "<=", ">", ">="};
    while (true) {
      const bool inverse = is_name("not") && behind().text == "in";
      const bool sign = now().kind == TokenKind::sign &&
                        std::find(kSigns.begin(), kSigns.end(), now().text) != kSigns.end();
      if (!sign && !inverse && !is_name("in")) break;
      if (result.names.empty()) result.offset = now().offset;
      if (inverse) next();
      result.names.push_back((inverse ? "not " : "") + next().text);
      result.parts.push_back(arithmetic(0));
    }
    return result.names.empty() ? std::move(result.parts[0]) : made(std::move(result));
  }
  /// Of this level of precedence, or a higher one.
  Node arithmetic(std::size_t level) {
    static const std::array<std::vector<std::string_view>, 4> kLevels = {
        {{"+", "-"}, {"~"}, {"*", "/", "//", "%"}, {"**"}}};
    if (level == kLevels.size()) return unary(true);
    Node left = arithmetic(level + 1);
    const auto& signs = kLevels[level];
    while (now().kind == TokenKind::sign &&
           std::find(signs.begin(), signs.end(), now().text) != signs.end()) {
      const Token sign = next();
      left =
          made({Op::arithmetic, sign.offset, sign.text, {std::move(left), arithmetic(level + 1)}});
    }
    return left;
  }
  Node unary(bool with_filters) {
    if (++open_ > kMaxTreeDepth) refuse_now("is nested too deep");
    Node result;
    if (is_sign("-") || is_sign("+")) {
      const Token sign = next();
      result = made({Op::sign, sign.offset, sign.text, {unary(false)}});
    } else {
      result = primary();
    }
    result = postfix(std::move(result));
    --open_;
    return with_filters ? with_filter(std::move(result)) : std::move(result);
  }
  Node with_filter(Node result) {
    while (true) {
      if (skip_sign("|")) {
        Node node = filter();
        node.parts.insert(node.parts.begin(), std::move(result));
        result = made(std::move(node));
      } else if (is_name("is")) {
        result = test(std::move(result));
      } else if (is_sign("(")) {
        result = call(std::move(result));
      } else {
        return result;
      }
    }
  }
  /// Without the value that goes through it.
  Node filter() {
    Node result{.op = Op::filter, .offset = now().offset, .text = name()};
    if (is_sign("(")) arguments(result);
    return result;
  }
  Node test(Node value) {
    next();
    const bool inverse = skip_name("not");
    Node result{
        .op = Op::test, .offset = now().offset, .text = name(), .parts = {std::move(value)}};
    const bool word = is_name("else") || is_name("or") || is_name("and") || is_name("is");
    const bool given = (now().kind == TokenKind::name && !word) || now().kind == TokenKind::text ||
                       now().kind == TokenKind::number || is_sign("[") || is_sign("{");
    if (is_sign("("))
      arguments(result);
    else if (given && !is_name("if") && !is_name("in") && !is_name("not"))
      result.parts.push_back(postfix(primary()));
    result = made(std::move(result));
    const std::size_t offset = result.offset;
    return inverse ? made({Op::negate, offset, "", {std::move(result)}}) : std::move(result);
  }
  Node call(Node callee) {
    Node result{.op = Op::call, .offset = now().offset, .parts = {std::move(callee)}};
    arguments(result);
    return made(std::move(result));
  }
  /// Adds the values in brackets, and the names of the last.
  void arguments(Node& to) {
    expect_sign("(");
    for (bool first = true; !skip_sign(")"); first = false) {
      if (!first) expect_sign(",");
      if (!first && skip_sign(")")) return;
      if (is_sign("*") || is_sign("**")) refuse_now("before an argument is what alpa lacks");
      if (now().kind == TokenKind::name && behind().kind == TokenKind::sign &&
          behind().text == "=") {
        to.names.push_back(next().text);
        next();
      } else if (!to.names.empty()) {
        refuse_now("is an argument without name behind one with a name");
      }
      to.parts.push_back(expression());
    }
  }
  Node postfix(Node result) {
    while (true) {
      const std::size_t offset = now().offset;
      if (skip_sign(".")) {
        if (now().kind == TokenKind::number)
          result = made({Op::item, offset, "", {std::move(result), number()}});
        else
          result = made({Op::attribute, offset, name(), {std::move(result)}});
      } else if (skip_sign("[")) {
        result = subscript(offset, std::move(result));
      } else if (is_sign("(")) {
        result = call(std::move(result));
      } else {
        return result;
      }
    }
  }
  Node subscript(std::size_t offset, Node value) {
    const auto bound = [&] {
      const bool absent = is_sign(":") || is_sign("]");
      return absent ? Node{.op = Op::constant, .offset = offset, .constant = nullptr}
                    : expression();
    };
    std::vector<Node> parts = {std::move(value), bound()};
    const bool slice = is_sign(":");
    if (!slice && tokens_[at_ - 1].text == "[") refuse_now("is where an item was expected");
    while (parts.size() < 4 && skip_sign(":")) parts.push_back(bound());
    expect_sign("]");
    const Node absent{.op = Op::constant, .offset = offset, .constant = nullptr};
    if (slice && parts.size() < 4) parts.push_back(absent);
    return made({slice ? Op::slice : Op::item, offset, "", std::move(parts)});
  }

  Node primary() {
    const Token token = now();
    if (token.kind == TokenKind::number) return number();
    Node result{.op = Op::constant, .offset = token.offset};
    if (token.kind == TokenKind::name) {
      const std::string name = next().text;
      if (name == "true" || name == "True" || name == "false" || name == "False")
        result.constant = name == "true" || name == "True";
      else if (name == "none" || name == "None")
        result.constant = nullptr;
      else
        result.op = Op::name, result.text = name;
    } else if (token.kind == TokenKind::text) {
      std::string text;
      while (now().kind == TokenKind::text) text += next().text;
      result.constant = std::move(text);
    } else if (skip_sign("(")) {
      result = is_sign(")") ? Node{.op = Op::tuple, .offset = token.offset} : tuple();
      expect_sign(")");
    } else if (skip_sign("[")) {
      result.op = Op::list;
      items("]", [&] { result.parts.push_back(expression()); });
    } else if (skip_sign("{")) {
      result.op = Op::mapping;
      items("}", [&] {
        result.parts.push_back(expression());
        expect_sign(":");
        result.parts.push_back(expression());
      });
    } else {
      refuse_now("is where an expression was expected");
    }
    return made(std::move(result));
  }
  template <class Item>
  void items(const char* end, Item item) {
    for (bool first = true; !skip_sign(end); first = false) {
      if (!first) expect_sign(",");
      if (!first && skip_sign(end)) return;
      item();
    }
  }
  Node number() {
    const Token token = next();
    const char *begin = token.text.data(), *end = begin + token.text.size();
    Node result{.op = Op::constant, .offset = token.offset};
    std::int64_t whole = 0;
    double real = 0;
    if (const auto read = std::from_chars(begin, end, whole);
        read.ec == std::errc() && read.ptr == end)
      result.constant = whole;
    else if (std::from_chars(begin, end, real).ec == std::errc() &&
             token.text.find_first_of(".eE") != token.text.npos)
      result.constant = real;
    else
      source_.refuse(token.offset, "the number " + excerpt(token.text) + " is too large");
    return result;
  }

  const Source& source_;
  const std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int open_ = 0, loops_ = 0;
};

}  // namespace

Node parse_template(const Source& source) { return Parser(source).run(); }

}  // namespace alpa::jinja
