// src/models/json_object.cc — JSON objects of files that programs read
#include "src/models/json_object.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

#include "alpa/base/error.h"
#include "src/base/file.h"

namespace alpa::models {
namespace {

constexpr FileKind kJsonFile{"", 16 << 20};

}  // namespace

JsonObject::JsonObject(const std::string& path)
    : JsonObject(path, parse_json(read_file(path, kJsonFile), path)) {}

JsonObject::JsonObject(const std::string& origin, nlohmann::json json)
    : document_(std::make_shared<const Document>(Document{origin, std::move(json)})),
      place_(document_->json, document_->path) {
  require(document_->json.is_object(), "{}: is {}, not an object", origin, shown(document_->json));
}

bool JsonObject::has(const char* key) const {
  return place_.contains(key) && !place_.at(key).is_null();
}

bool JsonObject::is_null(const char* key) const {
  return place_.contains(key) && place_.at(key).is_null();
}

bool JsonObject::is_text(const char* key) const {
  return has(key) && place_.at(key).dump().starts_with('"');
}

bool JsonObject::is_empty(const char* key) const {
  const std::string text = place_.at(key).dump();
  return text == "[]" || text == "{}";
}

std::string JsonObject::text(const char* key) const { return place_.at(key).text(); }

std::int64_t JsonObject::whole(const char* key, std::int64_t least, std::int64_t most) const {
  return place_.at(key).whole(least, most);
}

std::int64_t JsonObject::members(const char* key) const {
  return std::ssize(place_.at(key).members());
}

double JsonObject::positive(const char* key) const {
  const JsonPlace member = place_.at(key);
  if (member.number() <= 0) member.bad("a number above 0");
  return member.number();
}

double JsonObject::number_or(const char* key, double otherwise) const {
  return has(key) ? place_.at(key).number() : otherwise;
}

bool JsonObject::boolean(const char* key) const { return place_.at(key).boolean(); }

JsonObject JsonObject::object(const char* key) const {
  const JsonPlace member = place_.at(key);
  member.members();  // throws unless it is one
  return JsonObject(document_, member);
}

std::vector<std::int64_t> JsonObject::wholes(const char* key, std::int64_t most) const {
  const JsonPlace member = place_.at(key);
  std::vector<std::int64_t> numbers;
  for (const JsonPlace& item : member.is_list() ? member.items() : std::vector{member})
    numbers.push_back(item.whole(0, most));
  return numbers;
}

std::vector<std::string> JsonObject::texts(const char* key) const {
  std::vector<std::string> texts;
  for (const JsonPlace& item : place_.at(key).items()) texts.push_back(item.text());
  return texts;
}

std::vector<double> JsonObject::positives(const char* key, std::int64_t count) const {
  std::vector<double> numbers;
  for (const JsonPlace& item : place_.at(key).items()) {
    numbers.push_back(item.number());
    if (numbers.back() <= 0) item.bad("a number above 0");
  }
  if (std::ssize(numbers) != count) refuse(key, fmt::format("{} numbers", count));
  return numbers;
}

void JsonObject::expect(const char* key, bool value) const {
  if (has(key) && boolean(key) != value) refuse(key, value ? "true" : "false");
}

void JsonObject::expect_one_of(const char* key, const std::vector<std::string>& words) const {
  if (has(key) && std::ranges::find(words, text(key)) == words.end())
    refuse(key, fmt::format("\"{}\"", fmt::join(words, "\" or \"")));
}

void JsonObject::refuse(const char* key, const std::string& expected) const {
  place_.at(key).bad(expected);
}

std::int64_t size(const JsonObject& config, const char* key) {
  return config.whole(key, 1, std::numeric_limits<std::int32_t>::max());
}

std::int64_t size_or(const JsonObject& config, const char* key, std::int64_t otherwise) {
  return config.has(key) ? size(config, key) : otherwise;
}

void check_heads(const JsonObject& config, const char* key, std::int64_t heads,
                 std::int64_t width) {
  if (width % heads != 0) config.refuse(key, fmt::format("a divisor of the width {}", width));
}

}  // namespace alpa::models
