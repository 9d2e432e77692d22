// tools/settings.cc — texts by key, and the messages about them
#include "tools/settings.h"

#include <algorithm>
#include <charconv>

#include "alpa/base/error.h"
#include "alpa/base/text.h"

namespace plan {

using namespace alpa;

namespace {

std::optional<std::int64_t> whole_of(const std::string& text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace

void Settings::set(const std::string& key, std::string value, int line) {
  values_[key] = {std::move(value), line};
}

bool Settings::has(const std::string& key) const {
  const auto found = values_.find(key);
  return found != values_.end() && found->second.text != "null" && found->second.text != "None";
}

std::string Settings::text(const std::string& key, const std::string& otherwise) const {
  return has(key) && !values_.at(key).text.empty() ? values_.at(key).text : otherwise;
}

bool Settings::on(const std::string& key) const {
  if (!has(key)) return false;
  const std::string& value = values_.at(key).text;
  const auto is = [&](std::initializer_list<const char*> words) {
    return std::ranges::find(words, value) != words.end();
  };
  if (is({"", "true", "True", "1"})) return true;
  if (is({"false", "False", "0"})) return false;
  fail("{}: {} is '{}'; give true or false", place_of(key), key, excerpt(value));
}

std::int64_t Settings::whole(const std::string& key, std::optional<std::int64_t> otherwise,
                             std::int64_t most) const {
  if (!has(key)) {
    require(otherwise.has_value(), "{}: {} is missing", place_of(key), key);
    return *otherwise;
  }
  const std::string& value = values_.at(key).text;
  const std::optional<std::int64_t> number = whole_of(value);
  require(number && *number >= 1 && *number <= most,
          "{}: {} is '{}'; give a whole number from 1 to {}", place_of(key), key, excerpt(value),
          most);
  return *number;
}

int Settings::degree(const std::string& key, int otherwise) const {
  if (!has(key)) return otherwise;
  return text(key) == "-1" ? -1 : static_cast<int>(whole(key, {}, kMostDegree));
}

void Settings::check_section(const std::string& section,
                             const std::vector<std::string>& known) const {
  for (const auto& [key, value] : values_)
    if (key.starts_with(section + ".") &&
        std::ranges::find(known, key.substr(section.size() + 1)) == known.end())
      refuse(key, "is not known here");
}

void Settings::refuse(const std::string& key, const std::string& why) const {
  const std::string value = text(key);
  fail("{}: {}{} {}", place_of(key), excerpt(key), value.empty() ? "" : " " + excerpt(value), why);
}

std::vector<std::string> Settings::keys() const {
  std::vector<std::string> keys;
  for (const auto& [key, value] : values_) keys.push_back(key);
  return keys;
}

std::string Settings::place_of(const std::string& key) const {
  const auto found = values_.find(key);
  const int line = found == values_.end() ? 0 : found->second.line;
  return excerpt(origin_) + (line > 0 ? fmt::format(": line {}", line) : "");
}

}  // namespace plan
