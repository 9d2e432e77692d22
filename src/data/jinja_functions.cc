// src/data/jinja_functions.cc — Jinja's filters and tests, and the methods of Python's values
#include <fmt/ranges.h>
#include <utf8proc.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "alpa/base/error.h"
#include "alpa/base/text.h"
#include "jinja.h"

namespace alpa::jinja {
namespace {

// Short, for rows of tables.
using J = const Json&;
using S = const std::string&;
using A = const Arguments&;

using Filter = std::function<Json(J value, A arguments)>;
using Test = std::function<bool(J value, A arguments)>;
using Method = std::function<Json(S text, A arguments)>;

const std::string& string_of(const Json& value) {
  require(value.is_string(), "found {}, expected a text", kind_of(value));
  return value.get_ref<const std::string&>();
}

/// A row of a table by its name. Throws Error that names the others.
template <class Row>
const Row& row_of(const std::map<std::string, Row>& table, const std::string& name,
                  const char* kind) {
  const auto found = table.find(name);
  if (found != table.end()) return found->second;
  std::vector<std::string> known;
  for (const auto& [other, row] : table) known.push_back(other);
  fail("{} \"{}\" is not supported; there are {}", kind, excerpt(name), fmt::join(known, ", "));
}

// Texts.

/// Every character by utf8proc's map; `rest`: those behind the first of each word, or of the text.
std::string mapped(const std::string& text, utf8proc_int32_t (*first)(utf8proc_int32_t),
                   utf8proc_int32_t (*rest)(utf8proc_int32_t), bool by_word) {
  std::string result;
  bool begins = true;
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  for (std::size_t i = 0; i < text.size();) {
    utf8proc_int32_t character = 0;
    const auto left = static_cast<utf8proc_ssize_t>(text.size() - i);
    const utf8proc_ssize_t size = utf8proc_iterate(bytes + i, left, &character);
    if (size < 1) {
      result += text[i++];
      continue;
    }
    i += static_cast<std::size_t>(size);
    utf8proc_uint8_t written[4];
    const utf8proc_ssize_t count =
        utf8proc_encode_char(begins ? first(character) : rest(character), written);
    result.append(reinterpret_cast<const char*>(written), static_cast<std::size_t>(count));
    const utf8proc_category_t category = utf8proc_category(character);
    const bool is_letter = category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
    begins = by_word && !is_letter;
  }
  return result;
}

std::string capitalized(const std::string& text) {
  return mapped(text, utf8proc_toupper, utf8proc_tolower, false);
}
std::string titled(const std::string& text) {
  return mapped(text, utf8proc_toupper, utf8proc_tolower, true);
}
std::string upper(const std::string& text) {
  return mapped(text, utf8proc_toupper, utf8proc_toupper, false);
}
std::string lower(const std::string& text) {
  return mapped(text, utf8proc_tolower, utf8proc_tolower, false);
}

/// Without the characters of `chars` at the sides.
std::string stripped(const std::string& text, const Json& chars, bool left, bool right) {
  const std::string_view out = chars.is_string() ? std::string_view(string_of(chars)) : kSpace;
  const std::size_t begin = left ? std::min(text.find_first_not_of(out), text.size()) : 0;
  const std::size_t end = right ? text.find_last_not_of(out) + 1 : text.size();
  return begin < end ? text.substr(begin, end - begin) : "";
}

std::string replaced(const std::string& text, const Arguments& a) {
  const std::string old = string_of(a.at(0, "old")), with = string_of(a.at(1, "new"));
  const Json most = a.at(2, "count");
  std::int64_t left = most.is_number_integer() ? most.get<std::int64_t>() : -1;
  require(!old.empty(), "replaces an empty text");
  std::string result;
  std::size_t at = 0;
  for (std::size_t found; left != 0 && (found = text.find(old, at)) != text.npos; --left) {
    result.append(text, at, found - at).append(with);
    at = found + old.size();
  }
  return result.append(text, at);
}

Json words_of(const std::string& text) {
  Json parts = Json::array();
  for (std::size_t at = 0; (at = text.find_first_not_of(kSpace, at)) != text.npos;) {
    const std::size_t end = std::min(text.find_first_of(kSpace, at), text.size());
    parts.push_back(text.substr(at, end - at));
    at = end;
  }
  return parts;
}

Json split(const std::string& text, const Arguments& a, bool from_right) {
  const Json by = a.at(0, "sep"), most = a.at(1, "maxsplit");
  if (!by.is_string()) return words_of(text);
  const std::string& separator = string_of(by);
  require(!separator.empty(), "splits by an empty text");
  std::int64_t left = most.is_number_integer() ? most.get<std::int64_t>() : -1;
  std::vector<std::string> parts;
  std::string rest = text;
  for (; left != 0; --left) {
    const std::size_t at = from_right ? rest.rfind(separator) : rest.find(separator);
    if (at == rest.npos) break;
    const std::string before = rest.substr(0, at), behind = rest.substr(at + separator.size());
    parts.push_back(from_right ? behind : before);
    rest = from_right ? before : behind;
  }
  parts.push_back(rest);
  if (from_right) std::ranges::reverse(parts);
  return parts;
}

Json lines_of(const std::string& text) {
  Json lines = Json::array();
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const bool returns = end > at && text[end - 1] == '\r';
    lines.push_back(text.substr(at, end - at - (returns ? 1 : 0)));
    at = end + 1;
  }
  return lines;
}

/// Whether the text begins, or ends, with the argument, or with one of its list.
bool has_side(const std::string& text, const Json& sides, bool begin) {
  const std::vector<Json> all = sides.is_array() ? items_of(sides) : std::vector<Json>{sides};
  return std::ranges::any_of(all, [&](const Json& side) {
    return begin ? text.starts_with(string_of(side)) : text.ends_with(string_of(side));
  });
}

// JSON, as Python's json.dumps writes it.

std::string json_text_of(const Json& value, std::int64_t indent, std::int64_t depth) {
  if (value.is_discarded()) fail("something undefined has no JSON");
  if (!value.is_structured() || value.empty())
    return value.is_number_float() ? text_of(value) : value.dump();
  const std::string line =
      indent < 0 ? "" : "\n" + std::string(static_cast<std::size_t>(indent * (depth + 1)), ' ');
  std::string text;
  for (const auto& [name, member] : value.items()) {
    text += text.empty() ? line : (indent < 0 ? ", " : ",") + line;
    if (value.is_object()) text += Json(name).dump() + ": ";
    text += json_text_of(member, indent, depth + 1);
  }
  if (indent >= 0) text += "\n" + std::string(static_cast<std::size_t>(indent * depth), ' ');
  return value.is_object() ? "{" + text + "}" : "[" + text + "]";
}

// Lists.

Json list_of(const Json& value) { return items_of(value); }

/// The member of a name such as "function.name".
Json member_of(const Json& value, const std::string& path) {
  Json found = value;
  for (const Json& name : split(path, {{"."}, {}}, false)) {
    const auto member = found.is_object() ? found.find(string_of(name)) : found.end();
    if (!found.is_object() || member == found.end()) return undefined();
    found = Json(*member);
  }
  return found;
}

std::string joined(const Json& value, const Arguments& a) {
  const std::string between = text_of(a.at(0, "d"));
  const Json attribute = a.at(1, "attribute");
  std::string text;
  bool first = true;
  for (const Json& item : items_of(value)) {
    if (!std::exchange(first, false)) text += between;
    text += text_of(attribute.is_string() ? member_of(item, string_of(attribute)) : item);
  }
  return text;
}

/// Whether x comes before y; texts without regard to case, as Jinja sorts them.
bool is_before(const Json& x, const Json& y) {
  if (x.is_string() && y.is_string()) return lower(string_of(x)) < lower(string_of(y));
  return compared("<", x, y);
}

Json sorted(const Json& value, const Arguments& a) {
  const Json attribute = a.at(2, "attribute");
  std::vector<Json> items = items_of(value);
  const auto key = [&](const Json& item) {
    return attribute.is_string() ? member_of(item, string_of(attribute)) : item;
  };
  for (std::size_t i = 1; i < items.size(); ++i) is_before(key(items[i - 1]), key(items[i]));
  std::ranges::stable_sort(items,
                           [&](const Json& x, const Json& y) { return is_before(key(x), key(y)); });
  if (is_true(a.at(0, "reverse"))) std::ranges::reverse(items);
  return items;
}

Json pairs_of(const Json& value, bool by_name) {
  require(value.is_object(), "found {}, expected a mapping", kind_of(value));
  Json pairs = Json::array();
  for (const auto& [name, member] : value.items()) pairs.push_back(Json::array({name, member}));
  if (by_name)
    std::stable_sort(pairs.begin(), pairs.end(),
                     [](const Json& x, const Json& y) { return is_before(x[0], y[0]); });
  return pairs;
}

Json unique(const Json& value) {
  Json kept = Json::array();
  for (const Json& item : items_of(value))
    if (std::ranges::none_of(kept, [&](const Json& other) { return is_equal(item, other); }))
      kept.push_back(item);
  return kept;
}

/// Items that pass a test, or fail it; with `of_attribute` a member of theirs.
Json selected(const Json& value, const Arguments& a, bool passing, bool of_attribute) {
  const std::size_t skipped = of_attribute ? 1 : 0;
  Json kept = Json::array();
  if (!is_true(value)) return kept;  // also none
  Arguments rest;
  for (std::size_t i = skipped + 1; i < a.listed.size(); ++i) rest.listed.push_back(a.listed[i]);
  const Json test = a.at(skipped);
  for (const Json& item : items_of(value)) {
    const Json seen = of_attribute ? member_of(item, string_of(a.at(0))) : item;
    const bool passes = test.is_string() ? tested(string_of(test), seen, rest) : is_true(seen);
    if (passes == passing) kept.push_back(item);
  }
  return kept;
}

Json each(const Json& value, const Arguments& a) {
  Json results = Json::array();
  if (!is_true(value)) return results;  // also none
  const Json attribute = a.at(9, "attribute"), otherwise = a.at(9, "default");
  Arguments rest;
  for (std::size_t i = 1; i < a.listed.size(); ++i) rest.listed.push_back(a.listed[i]);
  for (const Json& item : items_of(value)) {
    Json result = attribute.is_string() ? member_of(item, string_of(attribute))
                                        : filtered(string_of(a.at(0)), item, rest);
    results.push_back(result.is_discarded() ? otherwise : result);
  }
  return results;
}

Json to_whole(const Json& value) {
  if (value.is_boolean()) return value.get<bool>() ? 1 : 0;
  if (value.is_number_float()) {
    const double number = value.get<double>();
    require(std::abs(number) < 9e15, "{} as a whole number", number);
    return static_cast<std::int64_t>(number);
  }
  if (value.is_number()) return value;
  const std::string text = stripped(text_of(value), undefined(), true, true);
  const bool digits = !text.empty() && text.size() < 18 &&
                      text.find_first_not_of("0123456789", text[0] == '-' ? 1 : 0) == text.npos &&
                      text != "-";
  return digits ? static_cast<std::int64_t>(std::stoll(text)) : 0;
}

std::string indented(const std::string& text, const Arguments& a) {
  const Json width = a.at(0, "width");
  require(width.is_discarded() || (width.is_number_integer() && width >= 0 && width < 1000),
          "indents by {}", text_of(width));
  const std::string space(width.is_discarded() ? 4 : width.get<std::size_t>(), ' ');
  std::string result = is_true(a.at(1, "first")) ? space : "";
  for (std::size_t i = 0; i < text.size(); ++i) {
    result += text[i];
    const bool blank = i + 1 < text.size() && text[i + 1] == '\n';
    if (text[i] == '\n' && i + 1 < text.size() && (!blank || is_true(a.at(2, "blank"))))
      result += space;
  }
  return result;
}

Json json_of(const Json& value, const Arguments& a) {
  const Json indent = a.at(9, "indent");
  require(!indent.is_number_integer() || (indent >= 0 && indent < 100), "indents by {}",
          text_of(indent));
  return json_text_of(value, indent.is_number_integer() ? indent.get<std::int64_t>() : -1, 0);
}

Json to_real(const Json& value) {
  return value.is_number() ? value.get<double>() : std::strtod(text_of(value).c_str(), nullptr);
}

const std::map<std::string, Filter>& filters() {
  static const auto text = [](std::string (*work)(const std::string&)) {
    return [work](J v, A) { return Json(work(text_of(v))); };
  };
  static const Filter length = [](J v, A) { return length_of(v); };
  static const Filter otherwise = [](J v, A a) {
    const bool absent = v.is_discarded() || (is_true(a.at(1, "boolean")) && !is_true(v));
    return absent ? a.at(0, "default_value") : v;
  };
  static const Filter same = [](J v, A) { return v; };
  static const std::map<std::string, Filter> table = {
      {"abs", [](J v, A) { return v < 0 ? combined("-", 0, v) : v; }},
      {"capitalize", text(capitalized)},
      {"count", length},
      {"d", otherwise},
      {"default", otherwise},
      {"dictsort", [](J v, A) { return pairs_of(v, true); }},
      {"first",
       [](J v, A) {
         const std::vector<Json> items = items_of(v);
         return items.empty() ? undefined() : items.front();
       }},
      {"float", [](J v, A) { return to_real(v); }},
      {"indent", [](J v, A a) { return Json(indented(text_of(v), a)); }},
      {"int", [](J v, A) { return to_whole(v); }},
      {"items", [](J v, A) { return v.is_discarded() ? Json::array() : pairs_of(v, false); }},
      {"join", [](J v, A a) { return Json(joined(v, a)); }},
      {"last",
       [](J v, A) {
         const std::vector<Json> items = items_of(v);
         return items.empty() ? undefined() : items.back();
       }},
      {"length", length},
      {"list", [](J v, A) { return list_of(v); }},
      {"lower", text(lower)},
      {"map", each},
      {"reject", [](J v, A a) { return selected(v, a, false, false); }},
      {"rejectattr", [](J v, A a) { return selected(v, a, false, true); }},
      {"replace", [](J v, A a) { return Json(replaced(text_of(v), a)); }},
      {"reverse", [](J v, A) { return sliced(v, undefined(), undefined(), -1); }},
      {"safe", same},
      {"select", [](J v, A a) { return selected(v, a, true, false); }},
      {"selectattr", [](J v, A a) { return selected(v, a, true, true); }},
      {"sort", sorted},
      {"string", [](J v, A) { return Json(text_of(v)); }},
      {"title", text(titled)},
      {"tojson", json_of},
      {"trim", [](J v, A a) { return Json(stripped(text_of(v), a.at(0, "chars"), true, true)); }},
      {"unique", [](J v, A) { return unique(v); }},
      {"upper", text(upper)},
  };
  return table;
}

const std::map<std::string, Test>& tests() {
  static const auto comparing = [](const char* symbol) {
    return [symbol](J v, A a) { return compared(symbol, v, a.at(0)); };
  };
  static const auto is = [](bool (*work)(const Json&)) {
    return [work](J v, A) { return work(v); };
  };
  static const auto rest = [](const Json& v, std::int64_t by) {
    return is_equal(combined("%", v, by), 0);
  };
  static const auto has_items = [](J v) {
    return v.is_string() || v.is_structured() || v.is_discarded();
  };
  static const std::map<std::string, Test> table = {
      {"boolean", is([](J v) { return v.is_boolean(); })},
      {"defined", is([](J v) { return !v.is_discarded(); })},
      {"divisibleby", [](J v, A a) { return is_equal(combined("%", v, a.at(0)), 0); }},
      {"eq", comparing("==")},
      {"equalto", comparing("==")},
      {"even", is([](J v) { return rest(v, 2); })},
      {"false", is([](J v) { return v == false; })},
      {"float", is([](J v) { return v.is_number_float(); })},
      {"ge", comparing(">=")},
      {"gt", comparing(">")},
      {"in", comparing("in")},
      {"integer", is([](J v) { return v.is_number_integer(); })},
      {"iterable", is(has_items)},
      {"le", comparing("<=")},
      {"lower", is([](J v) { return text_of(v) == lower(text_of(v)); })},
      {"lt", comparing("<")},
      {"mapping", is([](J v) { return v.is_object(); })},
      {"ne", comparing("!=")},
      {"none", is([](J v) { return v.is_null(); })},
      {"number", is([](J v) { return v.is_number() || v.is_boolean(); })},
      {"odd", is([](J v) { return !rest(v, 2); })},
      {"sameas", comparing("==")},
      {"sequence", is(has_items)},
      {"string", is([](J v) { return v.is_string(); })},
      {"true", is([](J v) { return v == true; })},
      {"undefined", is([](J v) { return v.is_discarded(); })},
      {"upper", is([](J v) { return text_of(v) == upper(text_of(v)); })},
  };
  return table;
}

/// A method of Python's str.
Json called_text(const std::string& s, const std::string& method, const Arguments& a) {
  static const std::map<std::string, Method> table = {
      {"capitalize", [](S t, A) { return Json(capitalized(t)); }},
      {"count",
       [](S t, A b) {
         return Json(std::ssize(split(t, {{b.at(0)}, {}}, false)) - 1);
       }},
      {"endswith", [](S t, A b) { return Json(has_side(t, b.at(0), false)); }},
      {"find",
       [](S t, A b) -> Json {
         const std::size_t at = t.find(string_of(b.at(0)));
         return at == t.npos ? -1 : length_of(t.substr(0, at));
       }},
      {"join",
       [](S t, A b) {
         return Json(joined(b.at(0), {{t}, {}}));
       }},
      {"lower", [](S t, A) { return Json(lower(t)); }},
      {"lstrip", [](S t, A b) { return Json(stripped(t, b.at(0), true, false)); }},
      {"removeprefix",
       [](S t, A b) -> Json {
         const std::string& side = string_of(b.at(0));
         return t.starts_with(side) ? t.substr(side.size()) : t;
       }},
      {"removesuffix",
       [](S t, A b) -> Json {
         const std::string& side = string_of(b.at(0));
         return t.ends_with(side) ? t.substr(0, t.size() - side.size()) : t;
       }},
      {"replace", [](S t, A b) { return Json(replaced(t, b)); }},
      {"rsplit", [](S t, A b) { return split(t, b, true); }},
      {"rstrip", [](S t, A b) { return Json(stripped(t, b.at(0), false, true)); }},
      {"split", [](S t, A b) { return split(t, b, false); }},
      {"splitlines", [](S t, A) { return lines_of(t); }},
      {"startswith", [](S t, A b) { return Json(has_side(t, b.at(0), true)); }},
      {"strip", [](S t, A b) { return Json(stripped(t, b.at(0), true, true)); }},
      {"title", [](S t, A) { return Json(titled(t)); }},
      {"upper", [](S t, A) { return Json(upper(t)); }},
  };
  return row_of(table, method, "the text's method")(s, a);
}

/// A method of Python's dict.
Json called_object(const Json& object, const std::string& method, const Arguments& a) {
  Json result = Json::array();
  if (method == "items") return pairs_of(object, false);
  if (method == "keys") return list_of(object);
  if (method == "values") {
    for (const auto& member : object.items()) result.push_back(member.value());
    return result;
  }
  if (method == "get") {
    const auto found = object.find(text_of(a.at(0)));
    if (found != object.end()) return *found;
    return a.at(1).is_discarded() ? Json(nullptr) : a.at(1);
  }
  fail("the mapping's method \"{}\" is not supported; there are get, items, keys, values",
       excerpt(method));
}

}  // namespace

Json filtered(const std::string& filter, const Json& value, const Arguments& arguments) {
  return row_of(filters(), filter, "filter")(value, arguments);
}

bool tested(const std::string& test, const Json& value, const Arguments& arguments) {
  return row_of(tests(), test, "test")(value, arguments);
}

Json called(const Json& object, const std::string& method, const Arguments& arguments) {
  if (object.is_string())
    return called_text(object.get_ref<const std::string&>(), method, arguments);
  require(object.is_object(), "{} has no method \"{}\"", kind_of(object), excerpt(method));
  return called_object(object, method, arguments);
}

}  // namespace alpa::jinja
