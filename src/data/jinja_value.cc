// src/data/jinja_value.cc — values of chat templates: truth, order, and their texts
#include "src/data/jinja_value.h"

#include <utf8proc.h>

#include <algorithm>
#include <cmath>

#include "alpa/base/text.h"

namespace alpa::jinja {
namespace {

constexpr int kMaxNesting = 100;
constexpr std::size_t kItemBytes = 64;  ///< of an item, about

int nesting_of(const Value& value) {
  if (const Sequence* list = value.sequence()) return list->depth;
  return value.mapping() != nullptr ? value.mapping()->depth : 0;
}

int deeper(int depth, const Value& value) {
  require(nesting_of(value) < kMaxNesting, "lists and mappings are nested more than {} deep",
          kMaxNesting);
  return std::max(depth, nesting_of(value) + 1);
}

/// A number, or true and false as 1 and 0.
bool number_of(const Value& value, double& number) {
  if (const bool* truth = value.as<bool>()) return number = *truth ? 1 : 0, true;
  if (const auto* whole = value.as<std::int64_t>())
    return number = static_cast<double>(*whole), true;
  return value.as<double>() != nullptr && (number = *value.as<double>(), true);
}

/// As Python's repr: the fewest digits that read back.
std::string real_text(double number, bool json) {
  if (!std::isfinite(number))
    return std::isnan(number) ? json ? "NaN" : "nan"
                              : std::string(number < 0 ? "-" : "") + (json ? "Infinity" : "inf");
  std::string text = fmt::format("{}", number);
  if (text.find_first_of(".e") == text.npos) text += ".0";
  return text;
}

bool printable(std::uint32_t code) {
  if (code < 0x7F) return code >= ' ';
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(code));
  return category != UTF8PROC_CATEGORY_CN && category < UTF8PROC_CATEGORY_ZS;
}

std::string hexadecimal(std::uint32_t code) {
  if (code <= 0xFF) return fmt::format("\\x{:02x}", code);
  return code <= 0xFFFF ? fmt::format("\\u{:04x}", code) : fmt::format("\\U{:08x}", code);
}

void add_python(std::string_view text, TextMaker& to) {
  const bool doubled = text.find('\'') != text.npos && text.find('"') == text.npos;
  const std::string_view quote = doubled ? "\"" : "'";
  to.add(quote);
  for (std::string_view c : characters(text)) {
    constexpr std::string_view kEscaped = "\n\r\t\\", kLetters = "nrt\\";
    const std::size_t at = kEscaped.find(c);
    if (at != kEscaped.npos)
      to.add(std::string("\\") + kLetters[at]);
    else if (c == quote)
      to.add("\\'");
    else
      to.add(printable(code_point(c)) ? std::string(c) : hexadecimal(code_point(c)));
  }
  to.add(quote);
}

void add_json(std::string_view text, bool ascii, TextMaker& to) {
  to.add("\"");
  for (std::string_view c : characters(text)) {
    constexpr std::string_view kEscaped = "\n\r\t\b\f\"\\", kLetters = "nrtbf\"\\";
    const std::size_t at = kEscaped.find(c);
    const std::uint32_t code = code_point(c);
    if (at != kEscaped.npos)
      to.add(std::string("\\") + kLetters[at]);
    else if (code >= ' ' && (!ascii || code < 0x7F))
      to.add(c);
    else if (code <= 0xFFFF)
      to.add(fmt::format("\\u{:04x}", code));
    else
      to.add(fmt::format("\\u{:04x}\\u{:04x}", 0xD7C0 + (code >> 10), 0xDC00 + (code & 0x3FF)));
  }
  to.add("\"");
}

/// Writes a value as Python's repr, or as JSON if there is a style.
class ValueWriter {
 public:
  ValueWriter(TextMaker& to, const JsonStyle* json) : to_(to), json_(json) {}

  void write(const Value& value) {
    if (const std::string* text = value.text()) {
      if (json_ != nullptr)
        add_json(*text, json_->ascii, to_);
      else
        add_python(*text, to_);
    } else if (const Sequence* list = value.sequence()) {
      write_list(*list);
    } else if (value.mapping() != nullptr) {
      write_mapping(value.mapping()->members);
    } else {
      write_scalar(value);
    }
  }

 private:
  void write_scalar(const Value& value) {
    if (value.as<std::nullptr_t>())
      to_.add(json_ != nullptr ? "null" : "None");
    else if (const bool* truth = value.as<bool>())
      to_.add(json_ != nullptr ? *truth ? "true" : "false" : *truth ? "True" : "False");
    else if (const auto* whole = value.as<std::int64_t>())
      to_.add(std::to_string(*whole));
    else if (const double* real = value.as<double>())
      to_.add(real_text(*real, json_ != nullptr));
    else if (json_ == nullptr && value.undefined())
      to_.add("Undefined");
    else
      fail("{} has no {}", kind_of(value), json_ != nullptr ? "JSON" : "text");
  }
  void write_list(const Sequence& list) {
    const bool tuple = list.tuple && json_ == nullptr;
    open(tuple ? "(" : "[");
    for (const Value& item : list.items) next(), write(item);
    if (tuple && list.items.size() == 1) to_.add(",");
    close(tuple ? ")" : "]", list.items.empty());
  }
  void write_mapping(Members members) {
    if (json_ != nullptr && json_->sort_keys)
      std::stable_sort(members.begin(), members.end(), [&](const auto& a, const auto& b) {
        return less(a.first, b.first, to_.work);
      });
    open("{");
    for (const auto& [name, value] : members) {
      next();
      // JSON has texts for keys alone.
      if (json_ == nullptr || name.text() != nullptr)
        write(name);
      else
        to_.add("\""), write(name), to_.add("\"");
      to_.add(json_ != nullptr ? json_->key_separator : ": ");
      write(value);
    }
    close("}", members.empty());
  }
  void open(std::string_view bracket) { to_.add(bracket), ++level_, first_ = true; }
  void next() {
    if (!first_) to_.add(json_ != nullptr ? json_->item_separator : ", ");
    first_ = false;
    new_line();
  }
  void close(std::string_view bracket, bool empty) {
    --level_, first_ = false;
    if (!empty) new_line();
    to_.add(bracket);
  }
  void new_line() {
    if (json_ != nullptr && json_->indent >= 0)
      to_.add("\n" + std::string(level_ * static_cast<std::size_t>(json_->indent), ' '));
  }

  TextMaker& to_;
  const JsonStyle* json_;
  std::size_t level_ = 0;
  bool first_ = true;
};

bool is_space(std::uint32_t code) {
  return (code >= 9 && code <= 13) || (code >= 0x1C && code <= 0x20) || code == 0x85 ||
         code == 0xA0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 ||
         code == 0x2029 || code == 0x202F || code == 0x205F || code == 0x3000;
}

bool continues(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

std::size_t character_size(std::string_view text) {
  std::size_t size = 1;
  while (size < text.size() && continues(text[size])) ++size;
  return size;
}

}  // namespace

const Sequence* Value::sequence() const {
  const auto* list = as<std::shared_ptr<const Sequence>>();
  return list != nullptr ? list->get() : nullptr;
}

const Mapping* Value::mapping() const {
  const auto* mapping = as<std::shared_ptr<const Mapping>>();
  return mapping != nullptr ? mapping->get() : nullptr;
}

void Work::take(std::size_t units) {
  left -= static_cast<std::int64_t>(std::min<std::size_t>(units, std::size_t{1} << 40));
  require(left >= 0, "the template takes too many steps, or makes too much text");
}

Value make_list(List items, Work& work, bool tuple) {
  work.take((items.size() + 1) * kItemBytes);
  int depth = 1;
  for (const Value& item : items) depth = deeper(depth, item);
  return std::make_shared<const Sequence>(Sequence{std::move(items), tuple, depth});
}

Value make_mapping(Members members, Work& work) {
  work.take((members.size() + 1) * kItemBytes);
  int depth = 1;
  for (const auto& [name, value] : members) depth = deeper(depth, value);
  return std::make_shared<const Mapping>(Mapping{std::move(members), depth});
}

std::string kind_of(const Value& value) {
  if (const auto* undefined = value.as<Undefined>())
    return undefined->name ? excerpt(*undefined->name) + ", which is undefined," : "nothing";
  constexpr const char* kKinds[] = {"",           "none",    "a boolean",  "a number",
                                    "a number",   "a text",  "a list",     "a mapping",
                                    "a function", "a macro", "a namespace"};
  return kKinds[value.index()];
}

bool is_true(const Value& value) {
  double number = 0;
  if (number_of(value, number)) return number != 0;
  if (const std::string* text = value.text()) return !text->empty();
  if (const Sequence* list = value.sequence()) return !list->items.empty();
  if (const Mapping* mapping = value.mapping()) return !mapping->members.empty();
  return !value.undefined() && !value.as<std::nullptr_t>();
}

bool equal(const Value& a, const Value& b, Work& work) {
  work.take(1);
  double x = 0, y = 0;
  if (number_of(a, x) && number_of(b, y)) {
    const auto *m = a.as<std::int64_t>(), *n = b.as<std::int64_t>();
    return m != nullptr && n != nullptr ? *m == *n : x == y;
  }
  if (a.index() != b.index()) return false;
  if (a.text() != nullptr) {
    work.take(a.text()->size() / 16);
    return *a.text() == *b.text();
  }
  const auto same = [&](const Value& c, const Value& d) { return equal(c, d, work); };
  if (const Sequence* s = a.sequence(), *t = b.sequence(); s != nullptr)
    return s->tuple == t->tuple &&
           std::equal(s->items.begin(), s->items.end(), t->items.begin(), t->items.end(), same);
  if (const Mapping* s = a.mapping(), *t = b.mapping(); s != nullptr) {
    const auto found = [&](const auto& member) {
      const Value* other = find_member(t->members, member.first, work);
      return other != nullptr && same(member.second, *other);
    };
    return s->members.size() == t->members.size() &&
           std::all_of(s->members.begin(), s->members.end(), found);
  }
  if (a.as<Namespace*>()) return *a.as<Namespace*>() == *b.as<Namespace*>();
  if (a.as<const Macro*>()) return *a.as<const Macro*>() == *b.as<const Macro*>();
  return !a.as<Callable>();
}

bool less(const Value& a, const Value& b, Work& work) {
  work.take(1);
  double x = 0, y = 0;
  if (number_of(a, x) && number_of(b, y)) {
    const auto *m = a.as<std::int64_t>(), *n = b.as<std::int64_t>();
    return m != nullptr && n != nullptr ? *m < *n : x < y;
  }
  if (a.text() != nullptr && b.text() != nullptr) {
    work.take(a.text()->size() / 16);
    return *a.text() < *b.text();
  }
  const Sequence *s = a.sequence(), *t = b.sequence();
  require(s != nullptr && t != nullptr, "{} and {} have no order", kind_of(a), kind_of(b));
  for (std::size_t i = 0; i < s->items.size() && i < t->items.size(); ++i)
    if (!equal(s->items[i], t->items[i], work)) return less(s->items[i], t->items[i], work);
  return s->items.size() < t->items.size();
}

const Value* find_member(const Members& members, const Value& key, Work& work) {
  for (const auto& [other, value] : members)
    if (equal(other, key, work)) return &value;
  return nullptr;
}

void set_member(Members& members, const Value& key, Value value, Work& work) {
  work.take(2 * kItemBytes);
  for (auto& [other, old] : members)
    if (equal(other, key, work)) return void(old = std::move(value));
  members.emplace_back(key, std::move(value));
}

List items_of(const Value& value, Work& work) {
  List items;
  if (const Sequence* list = value.sequence()) {
    work.take(list->items.size() * kItemBytes);
    return list->items;
  }
  if (const Mapping* mapping = value.mapping()) {
    work.take(mapping->members.size() * kItemBytes);
    for (const auto& [name, member] : mapping->members) items.emplace_back(name);
  } else if (const std::string* text = value.text()) {
    work.take(text->size() * 2 * kItemBytes);
    for (std::string_view c : characters(*text)) items.emplace_back(c);
  } else {
    require(value.undefined(), "{} has no items", kind_of(value));
  }
  return items;
}

std::string text_of(const Value& value, Work& work) {
  if (value.undefined()) return "";
  if (const std::string* text = value.text()) return work.take(text->size()), *text;
  TextMaker to{work};
  ValueWriter(to, nullptr).write(value);
  return std::move(to.text);
}

std::string to_json(const Value& value, const JsonStyle& style, Work& work) {
  TextMaker to{work};
  ValueWriter(to, &style).write(value);
  return std::move(to.text);
}

std::vector<std::string_view> characters(std::string_view text) {
  std::vector<std::string_view> result;
  for (; !text.empty(); text.remove_prefix(result.back().size()))
    result.push_back(text.substr(0, character_size(text)));
  return result;
}

std::uint32_t code_point(std::string_view character) {
  const auto first = static_cast<unsigned char>(character[0]);
  std::uint32_t code = character.size() == 1 ? first : first & (0x7FU >> character.size());
  for (char c : character.substr(1)) code = code << 6 | (static_cast<unsigned char>(c) & 0x3FU);
  return code;
}

std::string utf8_of(std::uint32_t code_point) {
  utf8proc_uint8_t bytes[4];
  const auto size = utf8proc_encode_char(static_cast<utf8proc_int32_t>(code_point), bytes);
  return {reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(size)};
}

std::size_t leading_space(std::string_view text) {
  std::size_t size = 0;
  while (size < text.size()) {
    const std::string_view c = text.substr(size, character_size(text.substr(size)));
    if (!is_space(code_point(c))) break;
    size += c.size();
  }
  return size;
}

std::size_t trailing_space(std::string_view text) {
  std::size_t begin = text.size();
  while (begin > 0) {
    std::size_t start = begin - 1;
    while (start > 0 && continues(text[start])) --start;
    if (!is_space(code_point(text.substr(start, begin - start)))) break;
    begin = start;
  }
  return text.size() - begin;
}

}  // namespace alpa::jinja
