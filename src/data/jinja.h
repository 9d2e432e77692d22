#pragma once
/// Jinja templates as chat templates use them, with the settings of Hugging Face's transformers:
/// trim_blocks and lstrip_blocks. Values are JSON; a discarded one is Jinja's undefined.
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace alpa::jinja {

using Json = nlohmann::ordered_json;

constexpr std::string_view kSpace = " \t\r\n\f\v";
constexpr std::int64_t kMostBytes = 64 << 20;  ///< of what a template writes, and of its texts

inline Json undefined() { return Json(Json::value_t::discarded); }

/// Kinds of tokens: `text` between tags, the ends of tags, and words within them.
enum class TokenKind : std::uint8_t { text, open, close, name, integer, real, string, symbol, end };

/// A token. `open` and `close` are of a statement ("%") or of an expression ("{").
struct Token {
  TokenKind kind;
  std::string text;
  int line;
};

/// The tokens of a template, the last of kind `end`. Throws Error that begins with `origin` and
/// names the line.
std::vector<Token> tokens_of(std::string_view text, const std::string& origin);

enum class ExpressionKind : std::uint8_t {
  constant,   ///< `value`
  name,       ///< `text`
  list,       ///< also a tuple
  object,     ///< keys and values by turns
  attribute,  ///< parts[0].text
  item,       ///< parts[0][parts[1]]
  slice,      ///< parts[0][parts[1]:parts[2]:parts[3]]; constants that are undefined are absent
  call,       ///< parts[0](…)
  filter,     ///< parts[0] | text(…)
  test,       ///< parts[0] is text …
  unary,      ///< text is "-", "+" or "not"
  binary,     ///< arithmetic, "~", "and" and "or"
  compare,    ///< parts[0] words[0] parts[1] words[1] parts[2] …
  choice,     ///< parts[0] if parts[1] else parts[2]
};

/// An expression. Arguments of calls, filters and tests are the parts behind the first, and
/// `named`.
struct Expression {
  ExpressionKind kind;
  int line;
  std::string text = {};
  Json value = {};
  std::vector<Expression> parts = {};
  std::vector<std::pair<std::string, Expression>> named = {};
  std::vector<std::string> words = {};
  int height = 1;  ///< longest path to a part of its parts
};

enum class StatementKind : std::uint8_t {
  text,      ///< `text`
  print,     ///< expressions[0]
  branches,  ///< `bodies[i]` if expressions[i] is true; a last body without one: else
  loop,      ///< for `names` in expressions[0] (if expressions[1]): bodies[0], else bodies[1]
  set,       ///< `names` = expressions[0], or bodies[0]; with `text`, a member of names[0]
  macro,     ///< `text`(names…): bodies[0]; `expressions`: defaults of the last names
  block,     ///< bodies[0]
  leave,     ///< break
  next,      ///< continue
};

/// A statement.
struct Statement {
  StatementKind kind;
  int line;
  std::string text = {};
  std::vector<std::string> names = {};
  std::vector<Expression> expressions = {};
  std::vector<std::vector<Statement>> bodies = {};
};

/// The statements of a template. Throws Error that begins with `origin`, names the line, and says
/// what is not supported.
std::vector<Statement> parse(std::string_view text, const std::string& origin);

/// The text that the statements write with these variables. Throws Error as `parse`, if
/// `raise_exception` is called, and beyond a million steps or 64 MiB.
std::string run(const std::vector<Statement>& statements, const Json& variables,
                const std::string& origin);

/// The arguments of a call.
struct Arguments {
  std::vector<Json> listed = {};
  std::vector<std::pair<std::string, Json>> named = {};

  /// The argument at a place or of this name; undefined if there is none.
  Json at(std::size_t place, std::string_view name = "") const;
};

/// Results of filters, tests, methods and operators; each throws Error without a place.
Json filtered(const std::string& filter, const Json& value, const Arguments& arguments);
bool tested(const std::string& test, const Json& value, const Arguments& arguments);
Json called(const Json& object, const std::string& method, const Arguments& arguments);
Json combined(const std::string& symbol, const Json& a, const Json& b);
bool compared(const std::string& symbol, const Json& a, const Json& b);
Json sliced(const Json& value, const Json& begin, const Json& end, const Json& step);

bool is_true(const Json& value);                ///< as Python's bool()
std::string text_of(const Json& value);         ///< as Python's str()
std::vector<Json> items_of(const Json& value);  ///< what a loop visits
std::int64_t length_of(const Json& value);      ///< in items or characters
std::string kind_of(const Json& value);         ///< in messages: "a text"
bool is_equal(const Json& a, const Json& b);

}  // namespace alpa::jinja
