// src/data/jinja_filter.cc — filters and tests of chat templates
#include <algorithm>
#include <charconv>
#include <cmath>

#include "alpa/base/text.h"
#include "src/data/jinja_function.h"

namespace alpa::jinja {
namespace {

Value length(Call& c) {
  if (const std::string* text = c.self.text()) return std::ssize(characters(*text));
  if (c.self.mapping() != nullptr) return std::ssize(c.self.mapping()->members);
  if (c.self.sequence() != nullptr) return std::ssize(c.self.sequence()->items);
  require(c.self.undefined(), "{} has no length", kind_of(c.self));
  return std::int64_t{0};
}

/// The value behind a path such as "function.name"; the value itself without a path.
Value behind(const Value& value, const Value& path, Work& work) {
  if (whole_of(path).has_value()) return item_of(value, path, work);
  Value result = value;
  if (path.text() == nullptr) return result;
  for (std::string_view rest = *path.text(); !rest.empty();) {
    const std::string_view name = rest.substr(0, rest.find('.'));
    rest.remove_prefix(std::min(rest.size(), name.size() + 1));
    std::int64_t number = 0;
    const bool is_number =
        !name.empty() && name.size() < 10 && name.find_first_not_of("0123456789") == name.npos;
    if (is_number) std::from_chars(name.data(), name.data() + name.size(), number);
    result = item_of(result, is_number ? Value(number) : Value(name), work);
  }
  return result;
}

Value join(Call& c) {
  TextMaker to{c.work};
  const std::string between = text_of(c.arguments[0], c.work);
  bool first = true;
  for (const Value& item : items_of(c.self, c.work)) {
    if (!std::exchange(first, false)) to.add(between);
    to.add(text_of(behind(item, c.arguments[1], c.work), c.work));
  }
  return std::move(to.text);
}

Value items(Call& c) {
  require(c.self.mapping() != nullptr || c.self.undefined(), "items: {} is no mapping",
          kind_of(c.self));
  List pairs;
  if (c.self.mapping() != nullptr)
    for (const auto& [name, value] : c.self.mapping()->members)
      pairs.push_back(make_list({name, value}, c.work, true));
  return make_list(std::move(pairs), c.work);
}

Value tojson(Call& c) {
  JsonStyle style{.sort_keys = c.is_set(3), .ascii = c.is_set(0)};
  style.indent = static_cast<int>(std::clamp<std::int64_t>(c.whole(1, -1), -1, 16));
  if (style.indent >= 0) style.item_separator = ",";
  if (c.is_set(2)) {
    const List separators = items_of(c.arguments[2], c.work);
    require(separators.size() == 2, "tojson: separators are two texts");
    style.item_separator = text_of(separators[0], c.work);
    style.key_separator = text_of(separators[1], c.work);
  }
  return to_json(c.self, style, c.work);
}

Value indent(Call& c) {
  const std::string text = text_of(c.self, c.work) + "\n";
  const Value& width = c.arguments[0];
  const std::string space =
      width.text() != nullptr
          ? *width.text()
          : std::string(static_cast<std::size_t>(std::clamp<std::int64_t>(c.whole(0, 4), 0, 1000)),
                        ' ');
  const Value lines = call_function(*find_text_method("splitlines"), text, {}, {}, c.work);
  TextMaker to{c.work};
  bool first = true;
  for (const Value& line : lines.sequence()->items) {
    if (!first) to.add("\n");
    if (first ? c.is_set(1) : !line.text()->empty() || c.is_set(2)) to.add(space);
    to.add(*line.text());
    first = false;
  }
  return std::move(to.text);
}

/// The start of a text as a number, white space around it aside.
template <class Number>
std::optional<Number> number_in(std::string_view text) {
  text.remove_prefix(leading_space(text));
  text.remove_suffix(trailing_space(text));
  if (text.starts_with('+')) text.remove_prefix(1);
  Number number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = read.ec == std::errc() && read.ptr == text.data() + text.size();
  return whole ? std::optional(number) : std::nullopt;
}

std::optional<double> real_of(const Value& value) {
  if (const double* real = value.as<double>()) return *real;
  if (value.text() != nullptr) return number_in<double>(*value.text());
  const auto whole = whole_of(value);
  return whole ? std::optional(static_cast<double>(*whole)) : std::nullopt;
}

Value to_whole(Call& c) {
  if (const auto whole = whole_of(c.self)) return *whole;
  if (const std::string* text = c.self.text())
    if (const auto whole = number_in<std::int64_t>(*text)) return *whole;
  const auto real = real_of(c.self);
  if (!real.has_value()) return c.given(0) ? c.arguments[0] : Value(std::int64_t{0});
  require(std::abs(*real) < 0x1p62, "int: {} is beyond 64 bits", *real);
  return static_cast<std::int64_t>(*real);
}

Value to_real(Call& c) {
  if (const auto real = real_of(c.self)) return *real;
  return c.given(0) ? c.arguments[0] : Value(0.0);
}

Value absolute(Call& c) {
  if (const auto whole = whole_of(c.self); whole && *whole > INT64_MIN) return std::abs(*whole);
  require(c.self.as<double>() != nullptr, "abs: {} is no number", kind_of(c.self));
  return std::abs(*c.self.as<double>());
}

Value end_of(Call& c, bool last) {
  const List all = items_of(c.self, c.work);
  return all.empty() ? Value() : last ? all.back() : all.front();
}

/// For order and equality: texts in small letters unless case matters.
Value sort_key(const Value& value, const Value& path, bool case_matters, Work& work) {
  Value key = behind(value, path, work);
  if (case_matters || key.text() == nullptr) return key;
  return call_function(*find_text_method("lower"), key, {}, {}, work);
}

/// In the order of keys at `path`.
List sorted(List items, const Value& path, bool reverse, bool case_matters, Work& work) {
  std::vector<std::pair<Value, Value>> keyed;
  for (Value& item : items)
    keyed.emplace_back(sort_key(item, path, case_matters, work), std::move(item));
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) {
    return reverse ? less(b.first, a.first, work) : less(a.first, b.first, work);
  });
  items.clear();
  for (auto& [key, item] : keyed) items.push_back(std::move(item));
  return items;
}

Value sort(Call& c) {
  return make_list(
      sorted(items_of(c.self, c.work), c.arguments[2], c.is_set(0), c.is_set(1), c.work), c.work);
}

Value dictsort(Call& c) {
  const Value pairs = items(c);
  const bool by_value = c.given(1) && text_of(c.arguments[1], c.work) == "value";
  return make_list(sorted(pairs.sequence()->items, Value(std::int64_t{by_value ? 1 : 0}),
                          c.is_set(2), c.is_set(0), c.work),
                   c.work);
}

Value unique(Call& c) {
  List keys, result;
  for (const Value& item : items_of(c.self, c.work)) {
    Value key = sort_key(item, c.arguments[1], c.is_set(0), c.work);
    const auto same = [&](const Value& other) { return equal(other, key, c.work); };
    if (std::any_of(keys.begin(), keys.end(), same)) continue;
    keys.push_back(std::move(key));
    result.push_back(item);
  }
  return make_list(std::move(result), c.work);
}

Value extreme(Call& c, bool largest) {
  const List all = sorted(items_of(c.self, c.work), c.arguments[1], largest, c.is_set(0), c.work);
  return all.empty() ? Value() : all.front();
}

Value reversed(Call& c) {
  return slice_of(c.self, nullptr, nullptr, Value(std::int64_t{-1}), c.work);
}

/// Takes the first argument away, a name.
std::string take_name(Call& c, const char* what) {
  require(!c.arguments.empty() && c.arguments[0].text() != nullptr, "{} is missing", what);
  std::string name = *c.arguments[0].text();
  c.arguments.erase(c.arguments.begin());
  return name;
}

Value map(Call& c) {
  const Value* attribute = find_member(c.named, "attribute", c.work);
  const Value* otherwise = find_member(c.named, "default", c.work);
  const Function* filter = nullptr;
  if (attribute == nullptr) {
    const std::string name = take_name(c, "map: the filter or attribute");
    filter = find_filter(name);
    require(filter != nullptr, "map: alpa has no filter '{}'", excerpt(name));
  }
  List result;
  for (const Value& item : is_true(c.self) ? items_of(c.self, c.work) : List()) {
    c.work.take(16);
    result.push_back(filter != nullptr ? call_function(*filter, item, c.arguments, c.named, c.work)
                                       : behind(item, *attribute, c.work));
    if (otherwise != nullptr && filter == nullptr && result.back().undefined())
      result.back() = *otherwise;
  }
  return make_list(std::move(result), c.work);
}

/// Items of which a test, or their truth, is `keep`; with `attribute` that of a member.
Value chosen(Call& c, bool keep, bool attribute) {
  const Value path = attribute ? Value(take_name(c, "the attribute")) : Value();
  const Function* test = nullptr;
  if (!c.arguments.empty()) {
    const std::string name = take_name(c, "the test");
    test = find_test(name);
    require(test != nullptr, "alpa has no test '{}'", excerpt(name));
  }
  List result;
  for (const Value& item : is_true(c.self) ? items_of(c.self, c.work) : List()) {
    c.work.take(16);
    const Value value = behind(item, path, c.work);
    const bool passes =
        is_true(test ? call_function(*test, value, c.arguments, c.named, c.work) : value);
    if (passes == keep) result.push_back(item);
  }
  return make_list(std::move(result), c.work);
}

Value otherwise(Call& c) {
  const bool absent = c.self.undefined() || (c.is_set(1) && !is_true(c.self));
  return !absent ? c.self : c.given(0) ? c.arguments[0] : Value("");
}

constexpr Function kFilters[] = {
    {"length", "", length},
    {"count", "", length},
    {"trim", "chars", [](Call& c) { return find_text_method("strip")->body(c); }},
    {"join", "d attribute", join},
    {"items", "", items},
    {"tojson", "ensure_ascii indent separators sort_keys", tojson},
    {"indent", "width first blank", indent},
    {"int", "default base", to_whole},
    {"float", "default", to_real},
    {"abs", "", absolute},
    {"first", "", [](Call& c) { return end_of(c, false); }},
    {"last", "", [](Call& c) { return end_of(c, true); }},
    {"sort", "reverse case_sensitive attribute", sort},
    {"dictsort", "case_sensitive by reverse", dictsort},
    {"unique", "case_sensitive attribute", unique},
    {"min", "case_sensitive attribute", [](Call& c) { return extreme(c, false); }},
    {"max", "case_sensitive attribute", [](Call& c) { return extreme(c, true); }},
    {"reverse", "", reversed},
    {"map", "*", map},
    {"select", "*", [](Call& c) { return chosen(c, true, false); }},
    {"reject", "*", [](Call& c) { return chosen(c, false, false); }},
    {"selectattr", "*", [](Call& c) { return chosen(c, true, true); }},
    {"rejectattr", "*", [](Call& c) { return chosen(c, false, true); }},
    {"title", "", title_words},
    {"default", "default_value boolean", otherwise},
    {"d", "default_value boolean", otherwise},
    {"list", "", [](Call& c) { return make_list(items_of(c.self, c.work), c.work); }},
    {"string", "", [](Call& c) -> Value { return text_of(c.self, c.work); }},
    {"safe", "", [](Call& c) -> Value { return text_of(c.self, c.work); }},
};

bool is_number(const Value& v) { return whole_of(v).has_value() || v.as<double>() != nullptr; }
bool has_items(const Value& v) {
  return v.sequence() != nullptr || v.mapping() != nullptr || v.text() != nullptr;
}

constexpr Function kTests[] = {
    {"defined", "", [](Call& c) -> Value { return !c.self.undefined(); }},
    {"undefined", "", [](Call& c) -> Value { return c.self.undefined(); }},
    {"none", "", [](Call& c) -> Value { return c.self.as<std::nullptr_t>() != nullptr; }},
    {"string", "", [](Call& c) -> Value { return c.self.text() != nullptr; }},
    {"mapping", "", [](Call& c) -> Value { return c.self.mapping() != nullptr; }},
    {"iterable", "", [](Call& c) -> Value { return has_items(c.self) || c.self.undefined(); }},
    {"sequence", "", [](Call& c) -> Value { return has_items(c.self) || c.self.undefined(); }},
    {"number", "", [](Call& c) -> Value { return is_number(c.self); }},
    {"integer", "", [](Call& c) -> Value { return c.self.as<std::int64_t>() != nullptr; }},
    {"float", "", [](Call& c) -> Value { return c.self.as<double>() != nullptr; }},
    {"boolean", "", [](Call& c) -> Value { return c.self.as<bool>() != nullptr; }},
    {"true", "", [](Call& c) -> Value { return c.self.as<bool>() && *c.self.as<bool>(); }},
    {"false", "", [](Call& c) -> Value { return c.self.as<bool>() && !*c.self.as<bool>(); }},
    {"callable", "",
     [](Call& c) -> Value { return c.self.as<Callable>() || c.self.as<const Macro*>(); }},
    {"eq", "other", [](Call& c) -> Value { return equal(c.self, c.arguments[0], c.work); }},
    {"equalto", "other", [](Call& c) -> Value { return equal(c.self, c.arguments[0], c.work); }},
    {"==", "other", [](Call& c) -> Value { return equal(c.self, c.arguments[0], c.work); }},
    {"ne", "other", [](Call& c) -> Value { return !equal(c.self, c.arguments[0], c.work); }},
    {"!=", "other", [](Call& c) -> Value { return !equal(c.self, c.arguments[0], c.work); }},
    {"lt", "other", [](Call& c) -> Value { return less(c.self, c.arguments[0], c.work); }},
    {"gt", "other", [](Call& c) -> Value { return less(c.arguments[0], c.self, c.work); }},
    {"le", "other", [](Call& c) -> Value { return !less(c.arguments[0], c.self, c.work); }},
    {"ge", "other", [](Call& c) -> Value { return !less(c.self, c.arguments[0], c.work); }},
    {"in", "seq", [](Call& c) -> Value { return contains(c.arguments[0], c.self, c.work); }},
    {"odd", "", [](Call& c) -> Value { return whole_of(c.self).value_or(0) % 2 != 0; }},
    {"even", "", [](Call& c) -> Value { return whole_of(c.self).value_or(1) % 2 == 0; }},
};

}  // namespace

const Function* find_filter(std::string_view name) {
  if (const Function* found = found_in(kFilters, name)) return found;
  constexpr std::string_view kOfTexts[] = {"upper", "lower", "capitalize", "replace"};
  const bool of_texts =
      std::find(std::begin(kOfTexts), std::end(kOfTexts), name) != std::end(kOfTexts);
  return of_texts ? find_text_method(name) : nullptr;
}

const Function* find_test(std::string_view name) { return found_in(kTests, name); }

}  // namespace alpa::jinja
