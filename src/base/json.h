#pragma once
/// Reading JSON, shared by all modules. Internal: no public header includes nlohmann's.
#include <nlohmann/json.hpp>
#include <string>

namespace alpa {

/// The document `text`. Throws Error that starts with `origin` ("cluster file x.json") and names
/// line and column, if it is not JSON, has a duplicate key, holds a number beyond a double, or is
/// nested deeper than any format of ours.
nlohmann::json parse_json(const std::string& text, const std::string& origin);

/// The text of a value, on one line or with `indent` spaces per level. Bytes that are not UTF-8
/// are replaced.
std::string json_text(const nlohmann::json& value, int indent = -1);
std::string json_text(const nlohmann::ordered_json& value, int indent = -1);

/// A value as messages show it: "an object", "a list", or its text; long strings are shortened.
std::string shown(const nlohmann::json& value);

}  // namespace alpa
