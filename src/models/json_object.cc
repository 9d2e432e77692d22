// src/models/json_object.cc — JSON objects of files that programs read
#include "src/models/json_object.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "alpa/base/error.h"
#include "src/base/file.h"
#include "src/base/json_place.h"

namespace alpa::models {
namespace {

constexpr FileKind kJsonFile{"", 16 << 20};

struct Document {
  std::string path;
  nlohmann::json json;
};

}  // namespace

struct JsonObject::Impl {
  std::shared_ptr<const Document> document;
  JsonPlace place;
};

JsonObject::JsonObject(const std::string& path) {
  const auto document = std::make_shared<const Document>(
      Document{path, parse_json(read_file(path, kJsonFile), path)});
  require(document->json.is_object(), "{}: is {}, not an object", path, shown(document->json));
  impl_ = std::make_shared<const Impl>(Impl{document, JsonPlace(document->json, document->path)});
}

bool JsonObject::has(const char* key) const {
  return impl_->place.contains(key) && !impl_->place.at(key).is_null();
}

bool JsonObject::is_null(const char* key) const {
  return impl_->place.contains(key) && impl_->place.at(key).is_null();
}

std::string JsonObject::text(const char* key) const { return impl_->place.at(key).text(); }

std::int64_t JsonObject::whole(const char* key, std::int64_t least, std::int64_t most) const {
  return impl_->place.at(key).whole(least, most);
}

double JsonObject::positive(const char* key) const {
  const JsonPlace member = impl_->place.at(key);
  if (member.number() <= 0) member.bad("a number above 0");
  return member.number();
}

bool JsonObject::boolean(const char* key) const { return impl_->place.at(key).boolean(); }

JsonObject JsonObject::object(const char* key) const {
  const JsonPlace member = impl_->place.at(key);
  member.members();  // throws unless it is one
  return JsonObject(std::make_shared<const Impl>(Impl{impl_->document, member}));
}

std::vector<std::int64_t> JsonObject::wholes(const char* key, std::int64_t most) const {
  const JsonPlace member = impl_->place.at(key);
  std::vector<std::int64_t> numbers;
  for (const JsonPlace& item : member.is_list() ? member.items() : std::vector{member})
    numbers.push_back(item.whole(0, most));
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
  impl_->place.at(key).bad(expected);
}

}  // namespace alpa::models
