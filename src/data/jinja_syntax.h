#pragma once
/// The syntax of chat templates: Jinja as transformers sets it, with trim_blocks and lstrip_blocks,
/// break and continue, and `generation`.
#include <cstddef>
#include <string>
#include <vector>

#include "src/data/jinja_value.h"

namespace alpa::jinja {

/// A template's text in UTF-8, with "\n" as the end of lines.
struct Source {
  std::string text, path;

  /// Throws Error: "PATH: line 3, column 7: MISTAKE", for byte `offset` of the text.
  [[noreturn]] void refuse(std::size_t offset, const std::string& mistake) const;
};

enum class TokenKind {
  data,
  open_output,
  close_output,
  open_tag,
  close_tag,
  name,
  text,
  number,
  sign,
  end
};
struct Token {
  TokenKind kind;
  std::string text;  ///< of a text literal without quotes and escapes
  std::size_t offset;
};

/// The last token is the end. Throws Error naming line, column and mistake.
std::vector<Token> tokens_of(const Source& source);

enum class Op {
  constant,     ///< `constant`
  name,         ///< `text`
  attribute,    ///< parts[0].text
  item,         ///< parts[0][parts[1]]
  slice,        ///< parts[0][parts[1]:parts[2]:parts[3]]
  list,         ///< parts
  tuple,        ///< parts
  mapping,      ///< parts: name, value, name, value, …
  call,         ///< parts[0] of the others, of which the last are given to `names`
  filter,       ///< parts[0]|text of the others, as for a call
  test,         ///< parts[0] is text of the others, as for a call
  negate,       ///< not parts[0]
  sign,         ///< -parts[0] or +parts[0], by `text`
  both,         ///< parts[0] and parts[1]
  either,       ///< parts[0] or parts[1]
  arithmetic,   ///< parts[0] `text` parts[1]
  compare,      ///< parts[0] names[0] parts[1] names[1] …
  conditional,  ///< parts[1] if parts[0] else parts[2]
  capture,      ///< what parts[0], a body, writes
  body,         ///< parts, one after the other
  output,       ///< writes parts[0]
  generation,   ///< writes parts[0], which is of the assistant
  branches,  ///< if parts[0] then parts[1], else if parts[2] …; an odd one at the end is for else
  loop,      ///< for parts[0] in parts[1] if parts[2] do parts[3], of no item parts[4]
  set,       ///< parts[0] becomes parts[1]
  macro,     ///< `text` of `names` does parts[0]; the others are the last defaults
  leave,     ///< break, or continue if `text` says so
};

struct Node {
  Op op;
  std::size_t offset = 0;
  std::string text = {};
  std::vector<Node> parts = {};
  std::vector<std::string> names = {};
  Value constant = {};
  int depth = 1;  ///< one more than that of its deepest part
};

/// A body. Throws Error naming line, column and mistake, also for what alpa lacks of Jinja.
Node parse_template(const Source& source);

}  // namespace alpa::jinja
