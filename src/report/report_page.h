#pragma once
/// A report as one HTML file that needs nothing else, and the measured lanes of its timeline.
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace alpa {

/// The page of `report_json`, at most 2 MB. Every number on it is in an element with attributes
/// data-n, its place in that JSON, and data-u, its unit: see `report_number`. The JSON is in the
/// page, too.
std::string report_page(const nlohmann::ordered_json& report);

/// A number as the page shows it. Units: "s" seconds, "B" bytes, "B/s", "F" FLOPs, "F/s", "%" of
/// a share, "" none.
std::string report_number(double value, std::string_view unit);

/// Adds what ran when, as a Chrome trace of `Executable::trace` says: the first device of every
/// stage. Throws Error naming `origin` unless `trace` is such a file.
void add_trace(nlohmann::ordered_json& report, const std::string& trace, const std::string& origin);

}  // namespace alpa
