// src/base/json.cc — reads JSON with checks of keys, types and nesting
#include "json.h"

#include <new>
#include <string_view>
#include <utility>
#include <vector>

#include "alpa/base/error.h"
#include "alpa/base/text.h"

namespace alpa {
namespace {

using Json = nlohmann::json;

/// Far above every format of ours; a deep document would cost much memory, and
/// recursion its reader's stack.
constexpr int kMaxDepth = 64;

/// "line 3, column 7" of byte `offset` (from 1).
std::string position(std::string_view text, std::size_t offset) {
  std::size_t line = 1, column = 1;
  for (std::size_t i = 0; i + 1 < offset && i < text.size(); ++i) {
    column = text[i] == '\n' ? 1 : column + 1;
    line += text[i] == '\n';
  }
  return fmt::format("line {}, column {}", line, column);
}

void check_depth(std::string_view text, const std::string& origin) {
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\\' && quoted) ++i;
    if (c == '"') quoted = !quoted;
    if (quoted) continue;
    if (c == '[' || c == '{') ++depth;
    if (c == ']' || c == '}') --depth;
    if (depth > kMaxDepth)
      fail("{}: {}: lists and objects are nested more than {} deep", origin, position(text, i + 1),
           kMaxDepth);
  }
}

/// Builds a document, and refuses keys given twice in one object, which JSON libraries silently
/// overwrite. nlohmann's own callback for keys visits all siblings of every list and object.
class DocumentReader {
 public:
  explicit DocumentReader(const std::string& origin) : origin_(origin) {}

  Json take() { return std::move(document_); }

  // Called by nlohmann's parser, from the first byte to the last; false would stop it.
  bool null() { return add(nullptr); }
  bool boolean(bool value) { return add(value); }
  bool number_integer(std::int64_t value) { return add(value); }
  bool number_unsigned(std::uint64_t value) { return add(value); }
  bool number_float(double value, const std::string&) { return add(value); }
  bool string(std::string& value) { return add(std::move(value)); }
  bool binary(Json::binary_t&) { return false; }  // not in JSON
  bool start_object(std::size_t) { return open(Json::object()); }
  bool start_array(std::size_t) { return open(Json::array()); }
  bool end_object() { return open_.pop_back(), true; }
  bool end_array() { return open_.pop_back(), true; }
  bool key(std::string& key) {
    const auto [member, added] =
        open_.back()->get_ref<Json::object_t&>().try_emplace(std::move(key), nullptr);
    if (!added)
      fail("{}: key {} is given twice in one object; remove one", origin_, shown(member->first));
    member_ = &member->second;
    return true;
  }
  template <class Exception>
  bool parse_error(std::size_t, const std::string&, const Exception& error) {
    throw error;
  }

 private:
  /// Puts a value where the parser is: at the end of a list, behind a key, or as the document.
  Json& placed(Json value) {
    if (open_.empty()) return document_ = std::move(value);
    if (open_.back()->is_object()) return *member_ = std::move(value);
    auto& items = open_.back()->get_ref<Json::array_t&>();
    return items.emplace_back(std::move(value));
  }
  bool add(Json value) { return placed(std::move(value)), true; }
  bool open(Json value) { return open_.push_back(&placed(std::move(value))), true; }

  const std::string& origin_;
  Json document_;
  std::vector<Json*> open_;  // from the document to the innermost list or object
  Json* member_ = nullptr;   // behind the last key
};

}  // namespace

Json parse_json(const std::string& text, const std::string& origin) {
  require(text.find_first_not_of(" \t\r\n") != std::string::npos, "{}: is empty; expected JSON",
          origin);
  check_depth(text, origin);
  try {
    DocumentReader reader(origin);
    Json::sax_parse(text, &reader);
    return reader.take();
  } catch (const Json::parse_error& error) {
    fail("{}: {}: not valid JSON; check for a missing comma, quote or bracket just before", origin,
         position(text, error.byte));
  } catch (const Json::out_of_range&) {
    fail("{}: a number is too large for a double; write a smaller one", origin);
  } catch (const Json::exception& error) {
    fail("{}: not valid JSON: {}", origin, excerpt(error.what(), 200));
  } catch (const std::bad_alloc&) {
    fail("{}: does not fit in memory", origin);
  }
}

std::string json_text(const Json& value, int indent) {
  return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

std::string json_text(const nlohmann::ordered_json& value, int indent) {
  return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

std::string shown(const Json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return "a list";
  if (value.is_string()) return '"' + excerpt(value.get_ref<const std::string&>()) + '"';
  return value.dump();
}

}  // namespace alpa
