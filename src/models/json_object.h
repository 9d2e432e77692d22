#pragma once
/// JSON objects of files that programs read. Every mistake is an Error of one line: file, place,
/// what was found and what is expected.
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "src/base/json_place.h"

namespace alpa::models {

/// An object with members by name. Copies and the objects in it share the document.
class JsonObject {
 public:
  /// Reads a file of one object. Throws Error if it can't be read, or holds anything else.
  explicit JsonObject(const std::string& path);
  /// An object that was read from elsewhere, with `origin` as file in messages.
  JsonObject(const std::string& origin, nlohmann::json json);

  bool has(const char* key) const;       ///< and it is not null
  bool is_null(const char* key) const;   ///< it is there, and null
  bool is_text(const char* key) const;   ///< it is there, and a text
  bool is_empty(const char* key) const;  ///< it is a list or an object with nothing in it
  /// The member. Throws Error if it is absent or anything else.
  std::string text(const char* key) const;
  std::int64_t whole(const char* key, std::int64_t least, std::int64_t most) const;  ///< in a range
  std::int64_t members(const char* key) const;                ///< how many an object has
  double positive(const char* key) const;                     ///< a number above 0
  double number_or(const char* key, double otherwise) const;  ///< any number
  bool boolean(const char* key) const;
  JsonObject object(const char* key) const;
  /// One whole number from 0 to `most`, or a list of them.
  std::vector<std::int64_t> wholes(const char* key, std::int64_t most) const;
  std::vector<std::string> texts(const char* key) const;  ///< a list
  /// A list of `count` numbers above 0.
  std::vector<double> positives(const char* key, std::int64_t count) const;
  /// Throws Error unless the member is absent, null or this.
  void expect(const char* key, bool value) const;
  /// As `expect`, of several words.
  void expect_one_of(const char* key, const std::vector<std::string>& words) const;
  /// Throws Error: the member is not what is expected, "a number above 3".
  [[noreturn]] void refuse(const char* key, const std::string& expected) const;

 private:
  struct Document {
    std::string path;
    nlohmann::json json;
  };
  JsonObject(std::shared_ptr<const Document> document, JsonPlace place)
      : document_(std::move(document)), place_(std::move(place)) {}

  std::shared_ptr<const Document> document_;
  JsonPlace place_;  ///< in the document
};

/// An extent of tensors: a whole number from 1.
std::int64_t size(const JsonObject& config, const char* key);
std::int64_t size_or(const JsonObject& config, const char* key, std::int64_t otherwise);

/// Throws Error, naming the key, unless the heads divide the width.
void check_heads(const JsonObject& config, const char* key, std::int64_t heads, std::int64_t width);

}  // namespace alpa::models
