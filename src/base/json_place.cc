// src/base/json_place.cc — values of a JSON document, checked
#include "json_place.h"

#include <climits>

namespace alpa {

JsonPlace JsonPlace::at(const char* key) const {
  const auto entry = json_.is_object() ? json_.find(key) : json_.end();
  if (!json_.is_object() || entry == json_.end())
    fail("{}: {}{} is missing", origin_, path_.empty() ? "" : path_ + ".", key);
  return {*entry, origin_, path_.empty() ? key : path_ + "." + key};
}

std::vector<JsonPlace> JsonPlace::items() const {
  if (!json_.is_array()) bad("a list");
  std::vector<JsonPlace> result;
  for (const nlohmann::json& item : json_)
    result.emplace_back(item, origin_, fmt::format("{}[{}]", path_, result.size()));
  return result;
}

std::vector<std::pair<std::string, JsonPlace>> JsonPlace::members() const {
  if (!json_.is_object()) bad("an object");
  std::vector<std::pair<std::string, JsonPlace>> result;
  for (const auto& [name, value] : json_.items())
    result.emplace_back(name,
                        JsonPlace(value, origin_, fmt::format("{}[\"{}\"]", path_, excerpt(name))));
  return result;
}

std::string JsonPlace::text() const {
  if (!json_.is_string()) bad("a text");
  return json_.get<std::string>();
}

bool JsonPlace::boolean() const {
  if (!json_.is_boolean()) bad("true or false");
  return json_.get<bool>();
}

double JsonPlace::number() const {
  if (!json_.is_number()) bad("a number");
  return json_.get<double>();
}

int JsonPlace::integer() const {
  // JSON of a larger unsigned number would wrap around when compared with a signed one.
  const bool fits = json_.is_number_unsigned()
                        ? json_.get<std::uint64_t>() <= INT_MAX
                        : json_.is_number_integer() && json_.get<std::int64_t>() >= INT_MIN;
  if (!fits) bad("a whole number of 32 bits");
  return json_.get<int>();
}

std::vector<int> JsonPlace::integers() const {
  std::vector<int> result;
  for (const JsonPlace& item : items()) result.push_back(item.integer());
  return result;
}

std::int64_t JsonPlace::whole(std::int64_t least, std::int64_t most) const {
  const auto in_range = [&](std::uint64_t number) {
    return std::cmp_less_equal(least, number) && std::cmp_less_equal(number, most);
  };
  if (!json_.is_number_unsigned() || !in_range(json_.get<std::uint64_t>()))
    bad(fmt::format("a whole number from {} to {}", least, most));
  return json_.get<std::int64_t>();
}

std::uint64_t JsonPlace::count(std::uint64_t most) const {
  if (!json_.is_number_unsigned() || json_.get<std::uint64_t>() > most)
    bad(fmt::format("a whole number from 0 to {}", most));
  return json_.get<std::uint64_t>();
}

void JsonPlace::refuse(const std::string& mistake) const {
  fail("{}: {}: {}", origin_, path_, mistake);
}

void JsonPlace::bad(std::string_view expected) const {
  fail("{}: {}: found {}, expected {}", origin_, path_, shown(json_), expected);
}

std::string JsonPlace::dump() const { return json_.dump(); }

}  // namespace alpa
