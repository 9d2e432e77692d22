#pragma once
/// Reading JSON, for every module that does. Internal: nlohmann's header stays out of the public ones.
#include <nlohmann/json.hpp>
#include <string>

namespace alpa {

/// The document `text`. Throws Error that starts with `origin` ("cluster file x.json") and names line and
/// column, if it is no JSON, gives a key twice, holds a number beyond a double, or is nested deeper than
/// any format of ours.
nlohmann::json parse_json(const std::string& text, const std::string& origin);

/// A value as messages show it: "an object", "a list", or its text; long strings are shortened.
std::string shown(const nlohmann::json& value);

}  // namespace alpa
