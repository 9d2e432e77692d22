#pragma once
/// A report as one HTML file that needs nothing else, and the measured lanes of its timeline.
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace alpa {

/// The page of `report_json`, at most 2 MB: that JSON, with a style and the script that draws it.
std::string report_page(const nlohmann::ordered_json& report);

/// Adds what ran when, as a Chrome trace of `Executable::trace` says: the first device of every
/// stage. Throws Error naming `origin` unless `trace` is such a file.
void add_trace(nlohmann::ordered_json& report, const std::string& trace, const std::string& origin);

namespace page {

/// Texts of report_page.css and report_page.js, embedded by CMake (AlpaLibrary).
extern const char *const kStyle, *const kScript;

}  // namespace page
}  // namespace alpa
