#pragma once
/// The panels of a report's page, as HTML with inline SVG.
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace alpa::page {

/// `text` for HTML, in elements and in attributes.
std::string escaped(std::string_view text);

/// The number at `pointer`, in an element that says where it is from: `tspan` in charts.
std::string number(const nlohmann::ordered_json& report, const std::string& pointer,
                   std::string_view unit, const char* element = "span");

std::string time_panel(const nlohmann::ordered_json& report);
std::string sharding_panel(const nlohmann::ordered_json& report);
std::string memory_panel(const nlohmann::ordered_json& report);
std::string timeline_panel(const nlohmann::ordered_json& report);
std::string communication_panel(const nlohmann::ordered_json& report);
std::string alternatives_panel(const nlohmann::ordered_json& report);
std::string assumptions_panel(const nlohmann::ordered_json& report);

}  // namespace alpa::page
