// src/base/json.cc — reads JSON with checks of keys, types and nesting
#include "json.h"

#include <new>
#include <set>
#include <string_view>
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

/// Refuses keys given twice in one object, which JSON libraries silently overwrite.
class KeysOnce {
 public:
  explicit KeysOnce(const std::string& origin) : origin_(origin) {}

  bool operator()(int, Json::parse_event_t event, Json& value) {
    if (event == Json::parse_event_t::object_start) open_.emplace_back();
    if (event == Json::parse_event_t::object_end) open_.pop_back();
    if (event == Json::parse_event_t::key && !open_.back().insert(value.get<std::string>()).second)
      fail("{}: key {} is given twice in one object; remove one", origin_, shown(value));
    return true;
  }

 private:
  const std::string& origin_;
  std::vector<std::set<std::string>> open_;
};

}  // namespace

Json parse_json(const std::string& text, const std::string& origin) {
  require(text.find_first_not_of(" \t\r\n") != std::string::npos, "{}: is empty; expected JSON",
          origin);
  check_depth(text, origin);
  try {
    return Json::parse(text, KeysOnce(origin));
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

std::string shown(const Json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return "a list";
  if (value.is_string()) return '"' + excerpt(value.get_ref<const std::string&>()) + '"';
  return value.dump();
}

}  // namespace alpa
