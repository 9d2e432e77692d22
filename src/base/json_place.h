#pragma once
/// Reading a JSON document, with errors that name the place.
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

  JsonPlace at(const char* key) const;
  bool contains(const char* key) const { return json_.is_object() && json_.contains(key); }
  bool is_null() const { return json_.is_null(); }
  bool is_list() const { return json_.is_array(); }
  std::vector<JsonPlace> items() const;
  /// The members of an object, by name.
  std::vector<std::pair<std::string, JsonPlace>> members() const;
  std::string text() const;
  bool boolean() const;
  double number() const;
  int integer() const;
  std::vector<int> integers() const;
  /// A whole number from `least`, which is not negative, to `most`.
  std::int64_t whole(std::int64_t least, std::int64_t most) const;
  /// A whole number from 0 to `most`.
  std::uint64_t count(std::uint64_t most) const;
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
  [[noreturn]] void refuse(const std::string& mistake) const;
  [[noreturn]] void bad(std::string_view expected) const;

  const std::string& origin() const { return origin_; }
  /// The text of what is at this place.
  std::string dump() const;

 private:
  const nlohmann::json& json_;
  const std::string& origin_;
  std::string path_;
};

}  // namespace alpa
