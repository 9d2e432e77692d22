// Reads the declarations of a header: a scanner of scopes, not a parser of C++.
#include "structure/public_names.h"

#include <algorithm>
#include <regex>

namespace alpa::testing::structure {
namespace {

enum class Kind { names, type, values };  // a namespace, a class, an enumeration

struct Scope {
  Kind kind = Kind::names;
  std::string prefix;  ///< "alpa::Graph::"
  std::string name;    ///< of the type itself
  bool visible = true;
};

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

std::string trimmed(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(" \n"), end = text.find_last_not_of(" \n");
  return begin == std::string::npos ? "" : text.substr(begin, end - begin + 1);
}

/// `text` without what is in <>, (), {} and [], and without default values: declarators remain.
std::string outermost(const std::string& text) {
  std::string result;
  int depth = 0;
  bool value = false;
  for (const char c : text) {
    if (std::string("<({[").find(c) != std::string::npos) ++depth;
    if (depth == 0 && c == '=') value = true;
    if (depth == 0 && c == ',') value = false;
    if (depth == 0 && !value) result += c;
    if (std::string(">)}]").find(c) != std::string::npos && depth > 0) --depth;
  }
  return result;
}

std::string last_word(const std::string& text) {
  std::size_t end = text.size();
  while (end > 0 && !is_word(text[end - 1])) --end;
  std::size_t begin = end;
  while (begin > 0 && is_word(text[begin - 1])) --begin;
  return text.substr(begin, end - begin);
}

/// The names that a declaration declares.
std::vector<std::string> names_of(const std::string& declaration) {
  static const std::regex alias(R"(^(template <.*> )?using (\w+) = .*)");
  static const std::regex operation(R"(\boperator([^\s\w(]+|\(\))\()");
  static const std::regex skipped(
      R"(^(friend|using|static_assert|typedef|extern template|template <>).*|.*= (delete|default)$)"
      R"(|^(template <.*> )?(class|struct|union|enum|enum class) \w+( : [\w:]+)?$)");
  std::smatch match;
  std::string text = declaration;
  std::replace(text.begin(), text.end(), '\n', ' ');
  if (std::regex_match(text, match, alias)) return {match[2]};
  if (std::regex_match(text, skipped)) return {};
  if (std::regex_search(text, match, operation)) return {"operator" + match[1].str()};
  if (text.find("operator ") != std::string::npos) return {};  // a conversion
  if (text.starts_with("template <")) {
    int depth = 0;
    std::size_t at = 9;
    do {
      depth += text[at] == '<' ? 1 : text[at] == '>' ? -1 : 0;
    } while (++at < text.size() && depth > 0);
    text = text.substr(at);
  }
  std::size_t open = std::string::npos;
  int angle = 0;
  for (std::size_t i = 0; i < text.size() && open == std::string::npos; ++i) {
    if (text[i] == '=' || text[i] == '{') break;
    angle += text[i] == '<' ? 1 : text[i] == '>' ? -1 : 0;
    if (text[i] == '(' && angle == 0) open = i;
  }
  if (open != std::string::npos) {
    const bool destructor = text.find('~') != std::string::npos;
    return destructor ? std::vector<std::string>{}
                      : std::vector<std::string>{last_word(text.substr(0, open))};
  }
  std::vector<std::string> found;
  std::string declarators = outermost(text);
  for (std::size_t begin = 0; begin <= declarators.size();) {
    const std::size_t comma = std::min(declarators.find(',', begin), declarators.size());
    found.push_back(last_word(declarators.substr(begin, comma - begin)));
    begin = comma + 1;
  }
  return found;
}

/// Whether a declaration gives a value behind "=", outside of its parameters.
bool has_value(const std::string& declaration) {
  int depth = 0;
  if (declaration.find("operator") != std::string::npos) return false;
  for (const char c : declaration) {
    depth += std::string("<(").find(c) != std::string::npos ? 1 : 0;
    depth -= std::string(">)").find(c) != std::string::npos ? 1 : 0;
    if (c == '=' && depth == 0) return true;
  }
  return false;
}

class Scanner {
 public:
  explicit Scanner(const SourceFile& header) : header_(header) {}

  std::map<std::string, bool> run() {
    scopes_ = {{}};
    for (line_ = 0; line_ < header_.lines.size(); ++line_) {
      std::string code = header_.lines[line_];
      if (code.starts_with("#")) continue;
      code.resize(std::min(code.size(), code.find("//")));
      for (const char c : code) take(c);
      if (!text_.empty()) text_ += '\n';
    }
    return names_;
  }

 private:
  void take(char c) {
    if (skipping_ > 0) {
      skipping_ += c == '{' ? 1 : c == '}' ? -1 : 0;
      if (skipping_ == 0 && ends_) finish();
      return;
    }
    if (text_.empty()) {
      if (c == ' ' || c == ';') return;
      first_ = line_;
    }
    parentheses_ += c == '(' ? 1 : c == ')' ? -1 : 0;
    if (parentheses_ > 0) {
      text_ += c;
    } else if (c == '{') {
      open();
    } else if (c == '}') {
      if (scopes_.back().kind == Kind::values) finish();
      text_.clear();
      if (scopes_.size() > 1) scopes_.pop_back();
    } else if (c == ';' || (c == ',' && scopes_.back().kind == Kind::values)) {
      finish();
    } else if (c == ':' && label()) {
      text_.clear();
    } else {
      text_ += c;
    }
  }

  /// Whether the text so far is an access label, which it then heeds.
  bool label() {
    const std::string text = trimmed(text_);
    if (text != "public" && text != "private" && text != "protected") return false;
    scopes_.back().visible = outer_visible() && text == "public";
    return true;
  }

  bool outer_visible() const { return scopes_.size() < 2 || scopes_[scopes_.size() - 2].visible; }

  /// Takes a brace: a namespace, a type, a body, or a value.
  void open() {
    static const std::regex space(R"(^(?:inline )?namespace ?([\w:]*)$)");
    static const std::regex type(
        R"(^(?:template <[^{]*>\s)?(class|struct|union|enum class|enum) (\w+)(<.*>)?( final)?( :[^(]*)?$)");
    std::string text = trimmed(text_);
    std::replace(text.begin(), text.end(), '\n', ' ');
    const Scope outer = scopes_.back();
    std::smatch match;
    if (std::regex_match(text, match, space)) {
      scopes_.push_back({Kind::names, outer.prefix + match[1].str() + "::", "",
                         outer.visible && match[1].length() > 0});
      text_.clear();
    } else if (std::regex_match(text, match, type)) {
      const std::string name = match[2];
      // A specialisation is documented where its template is.
      if (match[3].length() == 0 && text.find("template <>") == std::string::npos) note(name);
      const bool values = match[1].str().starts_with("enum");
      const bool hidden = name == "formatter" || name == "hash";
      scopes_.push_back({values ? Kind::values : Kind::type, outer.prefix + name + "::", name,
                         outer.visible && match[1] != "class" && !hidden});
      text_.clear();
    } else {
      skipping_ = 1;
      ends_ = text.find('(') != std::string::npos && !has_value(text);
    }
  }

  void finish() {
    const std::string text = trimmed(text_);
    for (const std::string& name : text.empty() ? std::vector<std::string>{} : names_of(text))
      // A constraint in front of a constructor reads like a function.
      if (name != scopes_.back().name && !name.empty() && name != "requires" &&
          !known_operator(name))
        note(name);
    text_.clear();
  }

  /// Operators of a type do what its comment says.
  bool known_operator(const std::string& name) const {
    return scopes_.back().kind == Kind::type && name.starts_with("operator");
  }

  /// Notes that the declaration from `first_` to here declares `name`.
  void note(const std::string& name) {
    if (!scopes_.back().visible) return;
    std::size_t before = first_;
    while (before > 0 && trimmed(header_.lines[before - 1]).starts_with("// NOLINT")) --before;
    bool documented = before > 0 && trimmed(header_.lines[before - 1]).starts_with("///");
    for (std::size_t i = first_; i <= line_; ++i)
      documented = documented || header_.lines[i].find("///<") != std::string::npos;
    bool& known = names_[scopes_.back().prefix + name];
    known = known || documented;
  }

  const SourceFile& header_;
  std::map<std::string, bool> names_;
  std::vector<Scope> scopes_;
  std::string text_;  ///< of the declaration that is open
  std::size_t line_ = 0, first_ = 0;
  int parentheses_ = 0, skipping_ = 0;
  bool ends_ = false;  ///< the brace that is skipped ends the declaration
};

}  // namespace

std::map<std::string, bool> public_names(const SourceFile& header) { return Scanner(header).run(); }

}  // namespace alpa::testing::structure
