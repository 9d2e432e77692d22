// src/data/jinja_values.cc — Jinja's values: as Python writes, compares and combines them
#include <algorithm>
#include <charconv>
#include <cmath>

#include "alpa/base/error.h"
#include "alpa/base/text.h"
#include "jinja.h"
#include "utf8.h"

namespace alpa::jinja {
namespace {

std::string real_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  const double size = std::abs(value);
  char digits[64];
  const bool plain = size == 0 || (size >= 1e-4 && size < 1e16);
  const auto end = std::to_chars(digits, digits + sizeof digits, value,
                                 plain ? std::chars_format::fixed : std::chars_format::scientific);
  std::string text(digits, end.ptr);
  if (plain && text.find('.') == text.npos) text += ".0";
  return text;
}

/// As Python's repr(): texts within lists.
std::string inner_text(const Json& value) {
  if (!value.is_string()) return text_of(value);
  const auto& text = value.get_ref<const std::string&>();
  const bool doubled = text.find('\'') != text.npos && text.find('"') == text.npos;
  std::string result(1, doubled ? '"' : '\'');
  for (const char c : text) {
    if (c == '\\' || (c == '\'' && !doubled)) result += '\\';
    if (c == '\n')
      result += "\\n";
    else if (c == '\t')
      result += "\\t";
    else if (c == '\r')
      result += "\\r";
    else
      result += c;
  }
  return result + result[0];
}

double number_of(const Json& value, const std::string& symbol) {
  if (value.is_boolean()) return value.get<bool>() ? 1 : 0;
  require(value.is_number(), "{} is no number for \"{}\"", kind_of(value), symbol);
  return value.get<double>();
}

bool is_whole(const Json& value) { return value.is_number_integer() || value.is_boolean(); }

std::int64_t whole_of(const Json& value) {
  return value.is_boolean() ? (value.get<bool>() ? 1 : 0) : value.get<std::int64_t>();
}

Json combined_wholes(const std::string& symbol, std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  bool over = false;
  if (symbol == "+") {
    over = __builtin_add_overflow(a, b, &result);
  } else if (symbol == "-") {
    over = __builtin_sub_overflow(a, b, &result);
  } else if (symbol == "*") {
    over = __builtin_mul_overflow(a, b, &result);
  } else if (b == -1) {  // the smallest number has no opposite
    over = __builtin_sub_overflow(std::int64_t{0}, symbol == "%" ? 0 : a, &result);
  } else {
    const std::int64_t rest = (a % b + b) % b;
    result = symbol == "%" ? rest : (a - rest) / b;
  }
  require(!over, "\"{}\" gives a number of more than 64 bits", symbol);
  return result;
}

Json combined_numbers(const std::string& symbol, const Json& a, const Json& b) {
  const double x = number_of(a, symbol), y = number_of(b, symbol);
  const bool divides = symbol == "/" || symbol == "//" || symbol == "%";
  require(!divides || y != 0, "division by zero");
  if (symbol == "/") return x / y;
  if (symbol == "**") {
    const double power = std::pow(x, y);
    if (!is_whole(a) || !is_whole(b) || y < 0) return power;
    require(std::abs(power) < 9e15, "\"**\" gives a number of more than 53 bits");
    return static_cast<std::int64_t>(power);
  }
  if (is_whole(a) && is_whole(b)) return combined_wholes(symbol, whole_of(a), whole_of(b));
  if (symbol == "+") return x + y;
  if (symbol == "-") return x - y;
  if (symbol == "*") return x * y;
  const double floor = std::floor(x / y);
  return symbol == "//" ? floor : x - floor * y;
}

Json repeated(const Json& value, std::int64_t times) {
  Json result = value.is_string() ? Json("") : Json::array();
  times = std::max<std::int64_t>(times, 0);
  const std::size_t size =
      value.is_string() ? value.get_ref<const std::string&>().size() : value.size();
  require(times == 0 || static_cast<std::int64_t>(size) <= kMostBytes / times,
          "\"*\" gives more than {} MiB", kMostBytes >> 20);
  for (std::int64_t i = 0; i < times; ++i) {
    if (value.is_string())
      result.get_ref<std::string&>() += value.get_ref<const std::string&>();
    else
      result.insert(result.end(), value.begin(), value.end());
  }
  return result;
}

/// Where characters begin, and the end.
std::vector<std::size_t> characters_of(std::string_view text) {
  std::vector<std::size_t> begins;
  for (std::size_t i = 0; i < text.size(); ++i)
    if ((static_cast<unsigned char>(text[i]) & 0xc0) != 0x80) begins.push_back(i);
  begins.push_back(text.size());
  return begins;
}

bool contains(const Json& whole, const Json& part) {
  if (whole.is_string()) {
    require(part.is_string(), "{} in a text", kind_of(part));
    return whole.get_ref<const std::string&>().find(part.get_ref<const std::string&>()) !=
           std::string::npos;
  }
  const std::vector<Json> items = items_of(whole);
  return std::ranges::any_of(items, [&](const Json& item) { return is_equal(item, part); });
}

/// A bound of a slice of so many items, as Python cuts it.
std::int64_t bound_of(const Json& bound, std::int64_t otherwise, std::int64_t length,
                      bool forward) {
  if (bound.is_discarded() || bound.is_null()) return otherwise;
  require(bound.is_number_integer(), "{} in a slice", kind_of(bound));
  std::int64_t at = bound.get<std::int64_t>();
  if (at < 0) at = std::max<std::int64_t>(at + length, forward ? 0 : -1);
  return std::min(at, forward ? length : length - 1);
}

}  // namespace

std::string kind_of(const Json& value) {
  if (value.is_discarded()) return "something undefined";
  if (value.is_null()) return "none";
  if (value.is_boolean()) return "a truth value";
  if (value.is_number()) return "a number";
  if (value.is_string()) return "a text";
  return value.is_array() ? "a list" : "a mapping";
}

bool is_equal(const Json& a, const Json& b) {
  if ((is_whole(a) || a.is_number()) && (is_whole(b) || b.is_number()))
    return is_whole(a) && is_whole(b) ? whole_of(a) == whole_of(b)
                                      : number_of(a, "==") == number_of(b, "==");
  if (a.is_discarded() || b.is_discarded()) return a.is_discarded() && b.is_discarded();
  return a == b;
}

Json Arguments::at(std::size_t place, std::string_view name) const {
  if (place < listed.size()) return listed[place];
  for (const auto& [given, value] : named)
    if (given == name) return value;
  return undefined();
}

bool is_true(const Json& value) {
  if (value.is_discarded() || value.is_null()) return false;
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number()) return value.get<double>() != 0;
  if (value.is_string()) return !value.get_ref<const std::string&>().empty();
  return !value.empty();
}

std::string text_of(const Json& value) {
  if (value.is_discarded()) return "";
  if (value.is_null()) return "None";
  if (value.is_boolean()) return value.get<bool>() ? "True" : "False";
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) return real_text(value.get<double>());
  if (value.is_number()) return value.dump();
  std::string text;
  for (const auto& [name, member] : value.items())
    text += (text.empty() ? "" : ", ") +
            (value.is_object() ? inner_text(name) + ": " + inner_text(member) : inner_text(member));
  return value.is_object() ? "{" + text + "}" : "[" + text + "]";
}

std::int64_t length_of(const Json& value) {
  if (value.is_discarded()) return 0;
  if (value.is_string()) return std::ssize(characters_of(value.get_ref<const std::string&>())) - 1;
  require(value.is_array() || value.is_object(), "{} has no length", kind_of(value));
  return std::ssize(value);
}

std::vector<Json> items_of(const Json& value) {
  std::vector<Json> items;
  if (value.is_discarded()) return items;
  require(value.is_array() || value.is_object() || value.is_string(), "{} has no items",
          kind_of(value));
  if (value.is_array()) return {value.begin(), value.end()};
  if (value.is_object()) {
    for (const auto& member : value.items()) items.emplace_back(member.key());
    return items;
  }
  const std::string& text = value.get_ref<const std::string&>();
  const std::vector<std::size_t> begins = characters_of(text);
  for (std::size_t i = 0; i + 1 < begins.size(); ++i)
    items.emplace_back(text.substr(begins[i], begins[i + 1] - begins[i]));
  return items;
}

Json sliced(const Json& value, const Json& begin, const Json& end, const Json& step) {
  if (value.is_discarded()) fail("a slice of something undefined");
  const std::vector<Json> items = items_of(value);
  const std::int64_t length = std::ssize(items),
                     by = step.is_number_integer() ? step.get<std::int64_t>() : 1;
  require(by != 0 && std::abs(by) < kMostBytes, "a slice with step {}", by);
  const bool forward = by > 0;
  const std::int64_t first = bound_of(begin, forward ? 0 : length - 1, length, forward),
                     last = bound_of(end, forward ? length : -1, length, forward);
  Json result = value.is_string() ? Json("") : Json::array();
  for (std::int64_t i = first; forward ? i < last : i > last; i += by) {
    const Json& item = items[static_cast<std::size_t>(i)];
    if (value.is_string())
      result.get_ref<std::string&>() += item.get_ref<const std::string&>();
    else
      result.push_back(item);
  }
  return result;
}

Json combined(const std::string& symbol, const Json& a, const Json& b) {
  if (symbol == "~") return text_of(a) + text_of(b);
  if (symbol == "+" && a.is_string() && b.is_string())
    return a.get_ref<const std::string&>() + b.get_ref<const std::string&>();
  if (symbol == "+" && a.is_array() && b.is_array()) {
    Json both = a;
    both.insert(both.end(), b.begin(), b.end());
    return both;
  }
  const auto is_series = [](const Json& value) { return value.is_string() || value.is_array(); };
  if (symbol == "*" && is_series(a) && is_whole(b)) return repeated(a, whole_of(b));
  if (symbol == "*" && is_whole(a) && is_series(b)) return repeated(b, whole_of(a));
  const auto counts = [](const Json& value) { return is_whole(value) || value.is_number(); };
  require(counts(a) && counts(b), "\"{}\" of {} and {}", symbol, kind_of(a), kind_of(b));
  return combined_numbers(symbol, a, b);
}

bool compared(const std::string& symbol, const Json& a, const Json& b) {
  if (symbol == "==") return is_equal(a, b);
  if (symbol == "!=") return !is_equal(a, b);
  if (symbol == "in") return contains(b, a);
  if (symbol == "not in") return !contains(b, a);
  const auto order = [&](const auto& x, const auto& y) {
    return symbol == "<" ? x < y : symbol == "<=" ? x <= y : symbol == ">" ? x > y : x >= y;
  };
  if (a.is_string() && b.is_string())
    return order(a.get_ref<const std::string&>(), b.get_ref<const std::string&>());
  const auto counts = [](const Json& value) { return is_whole(value) || value.is_number(); };
  require(counts(a) && counts(b), "\"{}\" of {} and {}", symbol, kind_of(a), kind_of(b));
  return order(number_of(a, symbol), number_of(b, symbol));
}

}  // namespace alpa::jinja
