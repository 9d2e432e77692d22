// tools/shell_settings.cc — flags of commands and shell scripts
#include <algorithm>
#include <charconv>
#include <map>
#include <string_view>

#include "tools/settings.h"

namespace plan {

namespace {

bool is_name(char c) { return c == '_' || std::isalnum(static_cast<unsigned char>(c)) != 0; }
bool is_blank(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }

/// Behind the "))" of the arithmetic at `begin`, "$((…))"; `begin` if it does not end.
std::size_t end_of_arithmetic(const std::string& text, std::size_t begin) {
  if (text.compare(begin, 3, "$((") != 0) return begin;
  int depth = 0;
  for (std::size_t i = begin; i < text.size() && text[i] != '\n'; ++i) {
    depth += text[i] == '(' ? 1 : text[i] == ')' ? -1 : 0;
    if (depth == 0 && text[i] == ')') return i + 1;
  }
  return begin;
}

/// Words of a shell text, without comments, quotes and parentheses around lists.
std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words(1);
  char quote = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (const std::size_t end = end_of_arithmetic(text, i); end > i) {
      for (; i < end; ++i)
        if (!is_blank(text[i])) words.back() += text[i];
      --i;
    } else if (quote == 0 && c == '#' && words.back().empty()) {
      while (i + 1 < text.size() && text[i + 1] != '\n') ++i;
    } else if (c == '\\' && i + 1 < text.size() && text[i + 1] == '\n') {
      ++i;
    } else if (quote == 0 && (c == '"' || c == '\'')) {
      quote = c;
    } else if (c == quote && quote != 0) {
      quote = 0;
    } else if (is_blank(c) || (quote == 0 && (c == '(' || c == ')' || c == ';'))) {
      // A quoted list of flags is several words, too.
      if (!words.back().empty()) words.emplace_back();
    } else {
      words.back() += c;
    }
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

/// Variables of a shell text.
class Variables {
 public:
  /// Notes NAME=value. The name; "": the word is no assignment.
  std::string note(const std::string& word) {
    const std::size_t end = word.find('=');
    if (end == std::string::npos || end == 0 ||
        !std::all_of(word.begin(), word.begin() + static_cast<std::ptrdiff_t>(end), is_name))
      return "";
    values_[word.substr(0, end)] = in(word.substr(end + 1));
    return word.substr(0, end);
  }
  const std::string& value_of(const std::string& name) const { return values_.at(name); }

  /// The word with the values of $NAME, ${NAME}, ${NAME:-default} and $((…)); unknown ones stay.
  std::string in(const std::string& word) const {
    std::string result;
    for (std::size_t i = 0; i < word.size(); ++i) {
      if (const std::size_t stop = end_of_arithmetic(word, i); stop > i) {
        std::string_view inner = std::string_view(word).substr(i + 3, stop - i - 5);
        const std::optional<std::int64_t> value = sum(inner, 0);
        result += value && inner.empty() ? std::to_string(*value) : word.substr(i, stop - i);
        i = stop - 1;
        continue;
      }
      const bool braced = word.compare(i, 2, "${") == 0;
      const std::size_t begin = i + (braced ? 2 : 1);
      std::size_t end = begin;
      while (end < word.size() && is_name(word[end])) ++end;
      if (word[i] != '$' || end == begin) {
        result += word[i];
        continue;
      }
      const auto known = values_.find(word.substr(begin, end - begin));
      const std::size_t close = braced ? word.find('}', end) : end - 1;
      if (close == std::string::npos) return word;
      if (known != values_.end())
        result += known->second;
      else if (word.compare(end, 2, ":-") == 0)
        result += word.substr(end + 2, close - end - 2);
      else
        result += word.substr(i, close + 1 - i);
      i = close;
    }
    return result;
  }

 private:
  static constexpr int kMostDepth = 32;
  static constexpr std::int64_t kMost = std::int64_t{1} << 31;
  using Number = std::optional<std::int64_t>;

  /// Sums, products and what they join, of whole numbers up to 2^31; takes them from `text`.
  Number sum(std::string_view& text, int depth) const {
    Number left = product(text, depth);
    while (left && !text.empty() && (text[0] == '+' || text[0] == '-')) {
      const bool plus = text[0] == '+';
      text.remove_prefix(1);
      const Number right = product(text, depth);
      left = right ? bounded(plus ? *left + *right : *left - *right) : std::nullopt;
    }
    return left;
  }
  Number product(std::string_view& text, int depth) const {
    Number left = operand(text, depth);
    while (left && !text.empty() && std::string_view("*/%").find(text[0]) != std::string::npos) {
      const char op = text[0];
      text.remove_prefix(1);
      const Number right = operand(text, depth);
      if (!right || (op != '*' && *right == 0)) return std::nullopt;
      left = bounded(op == '*' ? *left * *right : op == '/' ? *left / *right : *left % *right);
    }
    return left;
  }
  Number operand(std::string_view& text, int depth) const {
    if (depth > kMostDepth) return std::nullopt;
    if (text.starts_with("(")) {
      text.remove_prefix(1);
      const Number inner = sum(text, depth + 1);
      if (!text.starts_with(")")) return std::nullopt;
      text.remove_prefix(1);
      return inner;
    }
    while (!text.empty() && (text[0] == '$' || text[0] == '{')) text.remove_prefix(1);
    const auto end =
        static_cast<std::size_t>(std::ranges::find_if_not(text, is_name) - text.begin());
    const std::string name(text.substr(0, end));
    text.remove_prefix(end);
    while (text.starts_with("}")) text.remove_prefix(1);
    const auto known = values_.find(name);
    return bounded_number(known == values_.end() ? name : known->second);
  }
  static Number bounded(std::int64_t value) {
    return value < -kMost || value > kMost ? Number() : value;
  }
  static Number bounded_number(const std::string& text) {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return bounded(value);
  }

  std::map<std::string, std::string> values_;
};

/// What of an "if" is read: branches whose condition is known to be false are not.
class Branches {
 public:
  /// True if the word at `i` is of no branch that is passed over; its "if", "else" and "fi" are.
  bool reads(const std::vector<std::string>& words, std::size_t i, const Variables& variables) {
    const std::string& word = words[i];
    const bool begins = word == "if" && i + 1 < words.size() && words[i + 1].starts_with("[");
    if (begins) open_.push_back({});
    if (!open_.empty() && (begins || word == "elif")) {
      const std::optional<bool> holds = condition(words, i + 1, variables);
      open_.back().active = holds.value_or(true) && !open_.back().taken;
      open_.back().taken |= holds.value_or(false);
    } else if (!open_.empty() && word == "else") {
      open_.back().active = !open_.back().taken;
    } else if (!open_.empty() && word == "fi") {
      open_.pop_back();
    }
    return std::ranges::all_of(open_, &Branch::active);
  }

 private:
  struct Branch {
    bool active = true, taken = false;
  };

  /// Of "[ A = B ]", with "==", "!=", "-eq" or "-ne", too; nothing if it is another or unknown.
  static std::optional<bool> condition(const std::vector<std::string>& words, std::size_t i,
                                       const Variables& variables) {
    if (i + 4 >= words.size() || !words[i].starts_with("[") || !words[i + 4].starts_with("]"))
      return {};
    const std::string left = variables.in(words[i + 1]), right = variables.in(words[i + 3]);
    const std::string& op = words[i + 2];
    if ((left + right).find('$') != std::string::npos) return {};
    if (op == "=" || op == "==" || op == "-eq") return left == right;
    return op == "!=" || op == "-ne" ? std::optional(left != right) : std::nullopt;
  }

  std::vector<Branch> open_;
};

}  // namespace

Settings read_words(const std::string& text, const std::string& origin) {
  Settings settings(origin);
  Variables variables;
  Branches branches;
  std::string flag;
  const std::vector<std::string> words = words_of(text);
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (!branches.reads(words, i, variables)) continue;
    std::string value = variables.in(word);
    if (const std::string name = word.starts_with("--") ? "" : variables.note(word);
        !name.empty()) {
      value = variables.value_of(name);
      settings.set(name, value);
      if (!value.starts_with("--")) continue;  // else the first of a list of flags
    }
    if (value.starts_with("--")) {
      const std::size_t equal = value.find('=');
      flag = value.substr(0, equal);
      settings.set(flag, equal == std::string::npos ? "" : value.substr(equal + 1));
    } else if (value.ends_with(".yml")) {
      if (!value.ends_with("base.yml")) settings.set("config", value);
    } else if (!flag.empty() && settings.text(flag).empty()) {
      settings.set(flag, value);
      flag.clear();
    }
  }
  return settings;
}

}  // namespace plan
