// tools/file_settings.cc — settings in TOML, YAML, Python and JSON
#include <algorithm>
#include <functional>

#include "alpa/base/error.h"
#include "alpa/base/text.h"
#include "src/base/json.h"
#include "tools/settings.h"

namespace plan {

using namespace alpa;

namespace {

constexpr int kMostDepth = 32;

bool is_word(char c) {
  return c == '_' || c == '-' || c == '.' || std::isalnum(static_cast<unsigned char>(c)) != 0;
}

[[noreturn]] void refuse_line(const std::string& origin, int line, const std::string& why) {
  fail("{}: line {}: {}", excerpt(origin), line, why);
}

/// A line without its comment, together with those that go on with its brackets.
struct FileLine {
  std::string text;  ///< with its indentation
  int number = 0;
};

std::string trimmed(std::string_view text) {
  const auto blank = [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return std::string(text);
}

/// Cuts the comment. Returns the brackets that stay open.
int cut_comment(std::string& line) {
  int open = 0;
  char quote = 0;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quote != 0) {
      if (c == quote) quote = 0;
    } else if ((c == '"' || c == '\'') && (i == 0 || !is_word(line[i - 1]))) {
      quote = c;
    } else if (c == '#' && (i == 0 || std::isspace(static_cast<unsigned char>(line[i - 1])))) {
      line.resize(i);
      break;
    } else {
      open += c == '[' || c == '{' ? 1 : c == ']' || c == '}' ? -1 : 0;
    }
  }
  return open;
}

std::vector<FileLine> lines_of(const std::string& text, const std::string& origin) {
  std::vector<FileLine> lines;
  int number = 0, open = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string line = text.substr(at, end - at);
    at = end + 1;
    ++number;
    const int more = cut_comment(line);
    if (open > 0)
      lines.back().text += " " + trimmed(line);
    else if (!trimmed(line).empty())
      lines.push_back({line, number});
    open = std::max(0, open + more);
  }
  if (open > 0) refuse_line(origin, lines.back().number, "its bracket is never closed");
  return lines;
}

/// A text without its quotes.
std::string value_of(const std::string& given, const std::string& origin, int line) {
  const std::string text = trimmed(given);
  const char first = text.empty() ? ' ' : text.front();
  if (first != '"' && first != '\'') return text;
  if (text.size() < 2 || text.back() != first || text.starts_with("\"\"\""))
    refuse_line(origin, line, "a text begins with a quote that does not end it");
  return text.substr(1, text.size() - 2);
}

void check_key(const std::string& key, const std::string& origin, int line) {
  if (key.empty() || !std::ranges::all_of(key, is_word))
    refuse_line(origin, line, fmt::format("'{}' is no key", excerpt(key)));
}

/// Texts, numbers, names and signs of Python.
struct PythonToken {
  std::string text;
  char kind = 0;  ///< 'n' name, 'v' text or number, otherwise the sign
  int line = 1;
};

std::vector<PythonToken> python_tokens(const std::string& text, const std::string& origin) {
  std::vector<PythonToken> tokens;
  int line = 1;
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (c == '#') {
      while (i < text.size() && text[i] != '\n') ++i;
    } else if (c == '"' || c == '\'') {
      const std::string quote(text.compare(i, 3, std::string(3, c)) == 0 ? 3 : 1, c);
      const std::size_t end = text.find(quote, i + quote.size());
      if (end == std::string::npos) refuse_line(origin, line, "a text has no end");
      tokens.push_back({text.substr(i + quote.size(), end - i - quote.size()), 'v', line});
      line += static_cast<int>(std::count(text.begin() + static_cast<std::ptrdiff_t>(i),
                                          text.begin() + static_cast<std::ptrdiff_t>(end), '\n'));
      i = end + quote.size();
    } else if (is_word(c)) {
      std::size_t end = i;
      while (end < text.size() && is_word(text[end])) ++end;
      const bool name = c == '_' || std::isalpha(static_cast<unsigned char>(c)) != 0;
      tokens.push_back({text.substr(i, end - i), name ? 'n' : 'v', line});
      i = end;
    } else {
      if (c == '\n') ++line;
      if (!std::isspace(static_cast<unsigned char>(c))) tokens.push_back({"", c, line});
      ++i;
    }
  }
  return tokens;
}

/// Reads the calls of one function, or of a text without functions.
class PythonReader {
 public:
  PythonReader(const std::string& text, const std::string& origin)
      : tokens_(python_tokens(text, origin)), settings_(origin) {
    for (std::size_t i = 0; i + 1 < tokens_.size(); ++i)
      if (tokens_[i].text == "def" && tokens_[i].kind == 'n')
        functions_.emplace_back(tokens_[i + 1].text, i + 2);
  }

  Settings read(const std::string& function) {
    if (functions_.empty()) return take(0, tokens_.size()), std::move(settings_);
    std::vector<std::string> names;
    for (const auto& [name, begin] : functions_) names.push_back(name);
    require(!function.empty() || names.size() == 1,
            "{}: it has several functions; give one as --recipe: {}", excerpt(settings_.origin()),
            quoted_names(names, 8));
    const std::string& wanted = function.empty() ? names.front() : function;
    require(std::ranges::find(names, wanted) != names.end(), "{}: it has no function {}; it has {}",
            excerpt(settings_.origin()), excerpt(wanted), quoted_names(names, 8));
    take_function(wanted, 0);
    return std::move(settings_);
  }

 private:
  void take_function(const std::string& name, int depth) {
    const auto found =
        std::ranges::find(functions_, name, &std::pair<std::string, std::size_t>::first);
    require(depth < kMostDepth, "{}: function {} calls itself", excerpt(settings_.origin()),
            excerpt(name));
    const std::size_t begin = found->second, end = found + 1 == functions_.end()
                                                       ? tokens_.size()
                                                       : (found + 1)->second - 2;
    // A recipe that changes another: `config = other()`.
    for (std::size_t i = begin; i + 3 < end; ++i)
      if (tokens_[i].kind == '=' && tokens_[i + 2].kind == '(' && tokens_[i + 3].kind == ')' &&
          std::ranges::count(functions_, tokens_[i + 1].text,
                             &std::pair<std::string, std::size_t>::first) > 0)
        take_function(tokens_[i + 1].text, depth + 1);
    take(begin, end);
  }

  void take(std::size_t begin, std::size_t end) {
    std::vector<std::string> path;
    std::string key;
    const auto key_path = [&] {
      std::string joined;
      for (const std::string& part : path)
        if (!part.empty()) joined += (joined.empty() ? "" : ".") + part;
      if (!key.empty()) joined += (joined.empty() ? "" : ".") + key;
      return joined.starts_with("config.") ? joined.substr(7) : joined;
    };
    int list = 0;
    for (std::size_t i = begin; i < end; ++i) {
      const PythonToken& token = tokens_[i];
      const auto is = [&](std::size_t at, char kind) {
        return at < end && tokens_[at].kind == kind;
      };
      if (token.kind == '[' || token.kind == '{') ++list;
      if (token.kind == ']' || token.kind == '}') list = std::max(0, list - 1);
      if (list > 0) {
        if (token.kind != 0 && !key.empty()) append(key_path(), token);
      } else if (token.kind == 'n' && is(i + 1, '=') && !is(i + 2, '=')) {
        key = token.text;
        ++i;
      } else if (token.kind == '(') {
        path.push_back(key);
        key.clear();
        if (path.size() > kMostDepth)
          refuse_line(settings_.origin(), token.line, "calls are nested too deeply");
      } else if (token.kind == ')') {
        if (!path.empty()) path.pop_back();
        key.clear();
      } else if (token.kind == ',') {
        key.clear();
      } else if ((token.kind == 'n' || token.kind == 'v') && !key_path().empty()) {
        if (i > begin && std::string_view("+*/%").find(tokens_[i - 1].kind) != std::string::npos)
          refuse_line(settings_.origin(), token.line, "an expression is not read; give its value");
        settings_.set(key_path(), token.text, token.line);
        if (path.empty() && !is(i + 1, '(')) key.clear();  // the end of a statement
      }
    }
  }

  /// A list is the text of its parts.
  void append(const std::string& at, const PythonToken& token) {
    const std::string sign =
        token.kind == 'v' || token.kind == 'n' ? token.text : std::string(1, token.kind);
    settings_.set(at, (token.kind == '[' && !settings_.has(at) ? "" : settings_.text(at)) + sign,
                  token.line);
  }

  std::vector<PythonToken> tokens_;
  Settings settings_;
  std::vector<std::pair<std::string, std::size_t>> functions_;  ///< and where their arguments begin
};

void flatten(const nlohmann::json& json, const std::string& path, Settings& settings) {
  if (json.is_object()) {
    for (const auto& [name, value] : json.items())
      flatten(value, path.empty() ? name : path + "." + name, settings);
  } else if (!path.empty()) {
    settings.set(path, json.is_string() ? json.get<std::string>() : json.dump());
  }
}

}  // namespace

Settings read_toml(const std::string& text, const std::string& origin) {
  Settings settings(origin);
  std::string section;
  for (const auto& [given, number] : lines_of(text, origin)) {
    const std::string line = trimmed(given);
    if (line.front() == '[') {
      if (line.back() != ']' || line.starts_with("[["))
        refuse_line(origin, number, "a section is [name]; lists of tables are not read");
      section = trimmed(line.substr(1, line.size() - 2));
      check_key(section, origin, number);
      continue;
    }
    const std::size_t equals = line.find('=');
    if (equals == std::string::npos) refuse_line(origin, number, "expected key = value");
    const std::string key = trimmed(line.substr(0, equals));
    check_key(key, origin, number);
    settings.set(section.empty() ? key : section + "." + key,
                 value_of(line.substr(equals + 1), origin, number), number);
  }
  return settings;
}

Settings read_yaml(const std::string& text, const std::string& origin) {
  Settings settings(origin);
  std::vector<std::pair<std::size_t, std::string>> open;  // indentation and path
  std::optional<std::size_t> list;                        // indentation of its items
  for (const auto& [line, number] : lines_of(text, origin)) {
    const std::size_t indent = line.find_first_not_of(' ');
    const std::string own = trimmed(line);
    if (line[indent] == '\t') refuse_line(origin, number, "it is indented by a tab");
    if (own == "---" || (list && indent > *list)) continue;
    list.reset();
    if (own == "-" || own.starts_with("- ")) {
      list = indent;
      continue;
    }
    std::size_t colon = own.find(": ");
    if (colon == std::string::npos && own.back() == ':') colon = own.size() - 1;
    if (colon == std::string::npos) refuse_line(origin, number, "expected key: value");
    const std::string key = value_of(own.substr(0, colon), origin, number);
    check_key(key, origin, number);
    while (!open.empty() && open.back().first >= indent) open.pop_back();
    if (open.size() > kMostDepth) refuse_line(origin, number, "it is nested too deeply");
    const std::string path = open.empty() ? key : open.back().second + "." + key;
    const std::string value = trimmed(own.substr(colon + 1));
    if (!value.empty() && std::string_view("|>&*!").find(value.front()) != std::string::npos)
      refuse_line(origin, number, fmt::format("'{}' is not read", excerpt(value)));
    if (value.empty())
      open.emplace_back(indent, path);
    else
      settings.set(path, value_of(value, origin, number), number);
  }
  return settings;
}

Settings read_python(const std::string& text, const std::string& origin,
                     const std::string& function) {
  return PythonReader(text, origin).read(function);
}

Settings read_json(const std::string& text, const std::string& origin) {
  Settings settings(origin);
  flatten(parse_json(text, excerpt(origin)), "", settings);
  return settings;
}

}  // namespace plan
