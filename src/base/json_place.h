#pragma once
/// Reading a JSON document, with errors that name the place.
#include <climits>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "alpa/base/error.h"
#include "alpa/base/text.h"
#include "src/base/json.h"

namespace alpa {

/// A place in a document, for typed access and for messages: "plan x.json: mesh.axes[0]: found 3,
/// expected a text". The document and `origin` ("plan x.json") outlive it.
class JsonPlace {
 public:
  JsonPlace(const nlohmann::json& json, const std::string& origin, std::string path = "")
      : json_(json), origin_(origin), path_(std::move(path)) {}

  JsonPlace at(const char* key) const {
    const auto entry = json_.is_object() ? json_.find(key) : json_.end();
    if (!json_.is_object() || entry == json_.end())
      fail("{}: {}{} is missing", origin_, path_.empty() ? "" : path_ + ".", key);
    return {*entry, origin_, path_.empty() ? key : path_ + "." + key};
  }
  bool contains(const char* key) const { return json_.is_object() && json_.contains(key); }
  bool is_null() const { return json_.is_null(); }
  bool is_list() const { return json_.is_array(); }

  std::vector<JsonPlace> items() const {
    if (!json_.is_array()) bad("a list");
    std::vector<JsonPlace> result;
    for (const nlohmann::json& item : json_)
      result.emplace_back(item, origin_, fmt::format("{}[{}]", path_, result.size()));
    return result;
  }
  /// The members of an object, by name.
  std::vector<std::pair<std::string, JsonPlace>> members() const {
    if (!json_.is_object()) bad("an object");
    std::vector<std::pair<std::string, JsonPlace>> result;
    for (const auto& [name, value] : json_.items())
      result.emplace_back(
          name, JsonPlace(value, origin_, fmt::format("{}[\"{}\"]", path_, excerpt(name))));
    return result;
  }
  std::string text() const {
    if (!json_.is_string()) bad("a text");
    return json_.get<std::string>();
  }
  bool boolean() const {
    if (!json_.is_boolean()) bad("true or false");
    return json_.get<bool>();
  }
  double number() const {
    if (!json_.is_number()) bad("a number");
    return json_.get<double>();
  }
  int integer() const {
    // JSON of a larger unsigned number would wrap around when compared with a signed one.
    const bool fits = json_.is_number_unsigned()
                          ? json_.get<std::uint64_t>() <= INT_MAX
                          : json_.is_number_integer() && json_.get<std::int64_t>() >= INT_MIN;
    if (!fits) bad("a whole number of 32 bits");
    return json_.get<int>();
  }
  std::vector<int> integers() const {
    std::vector<int> result;
    for (const JsonPlace& item : items()) result.push_back(item.integer());
    return result;
  }
  /// A whole number from `least`, which is not negative, to `most`.
  std::int64_t whole(std::int64_t least, std::int64_t most) const {
    const auto in_range = [&](std::uint64_t number) {
      return std::cmp_less_equal(least, number) && std::cmp_less_equal(number, most);
    };
    if (!json_.is_number_unsigned() || !in_range(json_.get<std::uint64_t>()))
      bad(fmt::format("a whole number from {} to {}", least, most));
    return json_.get<std::int64_t>();
  }
  /// A whole number from 0 to `most`.
  std::uint64_t count(std::uint64_t most) const {
    if (!json_.is_number_unsigned() || json_.get<std::uint64_t>() > most)
      bad(fmt::format("a whole number from 0 to {}", most));
    return json_.get<std::uint64_t>();
  }
  /// Returns parse(text); adds the position to its error.
  template <class Parse>
  auto parsed(Parse parse) const {
    const std::string given = text();
    return checked([&] { return parse(given); });
  }
  /// Returns make(); adds the position to its error.
  template <class Make>
  auto checked(Make make) const {
    try {
      return make();
    } catch (const Error& error) {
      refuse(excerpt(error.what(), 300));
    }
  }
  [[noreturn]] void refuse(const std::string& mistake) const {
    fail("{}: {}: {}", origin_, path_, mistake);
  }
  [[noreturn]] void bad(std::string_view expected) const {
    fail("{}: {}: found {}, expected {}", origin_, path_, shown(json_), expected);
  }

  const std::string& origin() const { return origin_; }
  /// The text of what is at this place.
  std::string dump() const { return json_.dump(); }

 private:
  const nlohmann::json& json_;
  const std::string& origin_;
  std::string path_;
};

}  // namespace alpa
