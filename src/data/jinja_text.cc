// src/data/jinja_text.cc — what chat templates do with texts: methods of Python's str
#include <utf8proc.h>

#include <algorithm>

#include "alpa/base/text.h"
#include "src/data/jinja_function.h"

namespace alpa::jinja {
namespace {

using Convert = utf8proc_int32_t (*)(utf8proc_int32_t);

std::string self_text(Call& c) { return text_of(c.self, c.work); }

std::string converted(std::string_view text, Convert convert) {
  std::string result;
  for (std::string_view c : characters(text)) {
    const auto code = static_cast<utf8proc_int32_t>(code_point(c));
    const bool sharp = c == "ß" && convert == utf8proc_toupper;
    result += sharp ? "SS" : utf8_of(static_cast<std::uint32_t>(convert(code)));
  }
  return result;
}

/// The first letter large and the others small, of each word that `starts` begins behind a
/// character.
std::string titled(std::string_view text, bool (*starts)(std::string_view before)) {
  std::string result;
  std::string_view before;
  for (std::string_view c : characters(text)) {
    result += converted(c, starts(before) ? utf8proc_totitle : utf8proc_tolower);
    before = c;
  }
  return result;
}

bool is_letter(std::string_view c) {
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(code_point(c)));
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LT;
}

/// Without the characters of `chars` at the ends; without white space if they are not given.
std::string_view stripped(std::string_view text, const Value* chars, bool left, bool right) {
  if (chars == nullptr || chars->text() == nullptr) {
    if (left) text.remove_prefix(leading_space(text));
    if (right) text.remove_suffix(trailing_space(text));
    return text;
  }
  const std::vector<std::string_view> set = characters(*chars->text()), all = characters(text);
  const auto outside = [&](std::string_view c) {
    return std::find(set.begin(), set.end(), c) == set.end();
  };
  const auto bytes = [](std::size_t sum, std::string_view c) { return sum + c.size(); };
  std::size_t first = 0, last = 0;
  const auto begin = left ? std::find_if(all.begin(), all.end(), outside) : all.begin();
  for (auto c = all.begin(); c != begin; ++c) first = bytes(first, *c);
  text.remove_prefix(first);
  if (right)
    for (auto c = all.end(); c != begin && !outside(*(c - 1)); --c) last = bytes(last, *(c - 1));
  text.remove_suffix(last);
  return text;
}

Value strip(Call& c, bool left, bool right) {
  if (c.given(0)) c.work.take(self_text(c).size() * text_of(c.arguments[0], c.work).size());
  return stripped(self_text(c), c.given(0) ? &c.arguments[0] : nullptr, left, right);
}

/// Finds `part`, and counts that as work.
std::size_t find_part(std::string_view text, std::string_view part, std::size_t from, Work& work) {
  const std::size_t at = text.find(part, from);
  const std::size_t read = (at == text.npos ? text.size() : at + part.size()) - from;
  work.take(1 + read / 16 * (1 + part.size() / 16));
  return at;
}

/// At most `most` times, from the left.
Value replaced(Call& c) {
  const std::string text = self_text(c), old = text_of(c.arguments[0], c.work),
                    by = text_of(c.arguments[1], c.work);
  require(!old.empty(), "replace: the text to replace is empty");
  std::int64_t most = c.whole(2, -1);
  TextMaker to{c.work};
  std::size_t at = 0, found = 0;
  while (most-- != 0 && (found = find_part(text, old, at, c.work)) != text.npos) {
    to.add(std::string_view(text).substr(at, found - at));
    to.add(by);
    at = found + old.size();
  }
  to.add(std::string_view(text).substr(at));
  return std::move(to.text);
}

/// At white space: parts that are not empty, and behind the last cut what is left.
List space_split(std::string_view text, std::int64_t most) {
  List parts;
  for (text.remove_prefix(leading_space(text)); !text.empty();
       text.remove_prefix(leading_space(text))) {
    std::size_t size = 0;
    while (size < text.size() && leading_space(text.substr(size)) == 0) do
        ++size;
      while (size < text.size() && (text[size] & 0xC0) == 0x80);
    if (most-- == 0) size = text.size();
    parts.emplace_back(text.substr(0, size));
    text.remove_prefix(size);
  }
  return parts;
}

Value split(Call& c) {
  const std::string text = self_text(c);
  std::int64_t most = c.whole(1, -1);
  c.work.take(text.size() * 64);
  if (!c.given(0) || c.arguments[0].as<std::nullptr_t>())
    return make_list(space_split(text, most), c.work);
  const std::string& separator = c.text(0);
  require(!separator.empty(), "split: the separator is empty");
  List parts;
  std::size_t at = 0, found = 0;
  while (most-- != 0 && (found = find_part(text, separator, at, c.work)) != text.npos) {
    parts.emplace_back(text.substr(at, found - at));
    at = found + separator.size();
  }
  parts.emplace_back(text.substr(at));
  return make_list(std::move(parts), c.work);
}

List lines_of(std::string_view text) {
  List lines;
  while (!text.empty()) {
    constexpr std::string_view kEnds = "\n\r\v\f\x1c\x1d\x1e";
    std::size_t size = 0, end = 0;
    for (; size < text.size() && end == 0; size += end == 0 ? 1 : 0) {
      const std::string_view rest = text.substr(size);
      if (rest.starts_with("\r\n") || rest.starts_with("\xc2\x85"))
        end = 2;
      else if (rest.starts_with("\xe2\x80\xa8") || rest.starts_with("\xe2\x80\xa9"))
        end = 3;
      else
        end = kEnds.find(rest[0]) != kEnds.npos ? 1 : 0;
    }
    lines.emplace_back(text.substr(0, size));
    text.remove_prefix(size + end);
  }
  return lines;
}

/// True if the text starts or ends with the argument, or one of its items.
Value has_end(Call& c, bool start) {
  const std::string text = self_text(c);
  const auto fits = [&](const Value& value) {
    require(value.text() != nullptr, "startswith and endswith take texts, not {}", kind_of(value));
    return start ? text.starts_with(*value.text()) : text.ends_with(*value.text());
  };
  const Sequence* several = c.arguments[0].sequence();
  if (several == nullptr) return fits(c.arguments[0]);
  return std::any_of(several->items.begin(), several->items.end(), fits);
}

Value find_text(Call& c) {
  const std::string text = self_text(c);
  const std::size_t at = find_part(text, c.text(0), 0, c.work);
  if (at == text.npos) return std::int64_t{-1};
  return std::ssize(characters(std::string_view(text).substr(0, at)));
}

Value count_parts(Call& c) {
  const std::string text = self_text(c), &part = c.text(0);
  if (part.empty()) return std::ssize(characters(text)) + 1;
  std::int64_t result = 0;
  for (std::size_t at = 0; (at = find_part(text, part, at, c.work)) != text.npos; ++result)
    at += part.size();
  return result;
}

/// "{}", "{0}" and "{name}" stand for arguments; "{{" and "}}" for brackets.
Value format(Call& c) {
  const std::string text = self_text(c);
  TextMaker to{c.work};
  std::size_t next = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char bracket = text[at];
    if (bracket != '{' && bracket != '}') {
      to.add(std::string_view(text).substr(at, 1));
      continue;
    }
    if (at + 1 < text.size() && text[at + 1] == bracket) {
      to.add(std::string_view(text).substr(at++, 1));
      continue;
    }
    const std::size_t end = text.find('}', at);
    require(bracket == '{' && end != text.npos, "format: '{}' has a bracket alone", excerpt(text));
    const std::string field = text.substr(at + 1, end - at - 1);
    const Value* value = find_member(c.named, field, c.work);
    if (value == nullptr && field.find_first_not_of("0123456789") == field.npos) {
      const std::size_t i = field.empty()      ? next++
                            : field.size() < 4 ? std::stoul(field)
                                               : c.arguments.size();
      value = i < c.arguments.size() ? &c.arguments[i] : nullptr;
    }
    require(value != nullptr, "format: '{{{}}}' is no argument; alpa has {{}}, {{0}} and {{name}}",
            excerpt(field));
    to.add(text_of(*value, c.work));
    at = end;
  }
  return std::move(to.text);
}

Value join_by(Call& c) {
  TextMaker to{c.work};
  bool first = true;
  for (const Value& item : items_of(c.arguments[0], c.work)) {
    require(item.text() != nullptr, "join: an item is {}, not a text", kind_of(item));
    if (!std::exchange(first, false)) to.add(self_text(c));
    to.add(*item.text());
  }
  return std::move(to.text);
}

Value without(Call& c, bool start) {
  const std::string text = self_text(c), &part = c.text(0);
  if (start) return text.starts_with(part) ? text.substr(part.size()) : text;
  return text.ends_with(part) ? text.substr(0, text.size() - part.size()) : text;
}

bool all_digits(Call& c) {
  const std::string text = self_text(c);
  return !text.empty() && text.find_first_not_of("0123456789") == text.npos;
}

constexpr Function kMethods[] = {
    {"upper", "", [](Call& c) -> Value { return converted(self_text(c), utf8proc_toupper); }},
    {"lower", "", [](Call& c) -> Value { return converted(self_text(c), utf8proc_tolower); }},
    {"title", "",
     [](Call& c) -> Value {
       return titled(self_text(c), [](std::string_view b) { return b.empty() || !is_letter(b); });
     }},
    {"capitalize", "",
     [](Call& c) -> Value {
       return titled(self_text(c), [](std::string_view before) { return before.empty(); });
     }},
    {"strip", "chars", [](Call& c) { return strip(c, true, true); }},
    {"lstrip", "chars", [](Call& c) { return strip(c, true, false); }},
    {"rstrip", "chars", [](Call& c) { return strip(c, false, true); }},
    {"replace", "old new count", replaced},
    {"split", "sep maxsplit", split},
    {"splitlines", "",
     [](Call& c) {
       const std::string text = self_text(c);
       c.work.take(text.size() * 64);
       return make_list(lines_of(text), c.work);
     }},
    {"startswith", "prefix", [](Call& c) { return has_end(c, true); }},
    {"endswith", "suffix", [](Call& c) { return has_end(c, false); }},
    {"removeprefix", "prefix", [](Call& c) { return without(c, true); }},
    {"removesuffix", "suffix", [](Call& c) { return without(c, false); }},
    {"find", "sub", find_text},
    {"count", "sub", count_parts},
    {"format", "*", format},
    {"join", "iterable", join_by},
    {"isdigit", "", [](Call& c) -> Value { return all_digits(c); }},
};

}  // namespace

Value title_words(Call& c) {
  return titled(self_text(c), [](std::string_view before) {
    return before.empty() || leading_space(before) > 0 || before.find_first_of("-({[<") == 0;
  });
}

const Function* find_text_method(std::string_view name) { return found_in(kMethods, name); }

}  // namespace alpa::jinja
