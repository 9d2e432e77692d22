// src/report/report_page.cc — a report as one HTML file
#include "report_page.h"

#include <cmath>
#include <map>

#include "alpa/base/error.h"
#include "alpa/base/text.h"
#include "report_assets.h"
#include "report_panels.h"
#include "src/base/json.h"

namespace alpa {

using Json = nlohmann::ordered_json;

namespace {

/// Two significant digits with a prefix: "1.2 TFLOP/s".
std::string with_prefix(double value, std::string_view unit) {
  constexpr const char* kPrefixes[] = {"", "k", "M", "G", "T", "P", "E"};
  std::size_t prefix = 0;
  while (std::abs(value) >= 999.5 && prefix + 1 < std::size(kPrefixes)) value /= 1000, ++prefix;
  return fmt::format("{} {}{}", two_digits(value), kPrefixes[prefix], unit);
}

std::string summary(const Json& report) {
  std::string html = "<dl>";
  for (const Json& line : report["summary"])
    html += fmt::format("<dt>{}</dt><dd>{}</dd>", page::escaped(line["label"].get<std::string>()),
                        page::escaped(line["text"].get<std::string>()));
  return html + "</dl>\n";
}

/// JSON inside of a script element.
std::string embedded(const Json& report) {
  std::string text = json_text(report), safe;
  for (char c : text) safe += c == '<' ? "\\u003c" : std::string(1, c);
  return safe;
}

struct Panel {
  const char *id, *title;
  std::string (*html)(const Json&);
};
constexpr Panel kPanels[] = {
    {"time", "Where the seconds go", page::time_panel},
    {"sharding", "How tensors are split", page::sharding_panel},
    {"memory", "Memory over the step", page::memory_panel},
    {"timeline", "Timeline of the pipeline", page::timeline_panel},
    {"communication", "Communication", page::communication_panel},
    {"alternatives", "What else could be chosen", page::alternatives_panel},
    {"assumptions", "What the planner assumed", page::assumptions_panel},
};

}  // namespace

std::string report_number(double value, std::string_view unit) {
  if (unit == "s") return seconds_text(value);
  if (unit == "B") return bytes_text(value);
  if (unit == "%") return fmt::format("{:.0f} %", 100 * value);
  if (unit == "F") return with_prefix(value, "FLOP");
  if (unit == "F/s") return with_prefix(value, "FLOP/s");
  if (unit == "B/s") return with_prefix(value, "B/s");
  return value == std::floor(value) ? fmt::format("{:.0f}", value) : two_digits(value);
}

std::string report_page(const Json& report) {
  std::string body, links;
  for (const Panel& panel : kPanels) {
    const std::string html = panel.html(report);
    if (html.empty()) continue;
    links += fmt::format("<a href=\"#{}\">{}</a>", panel.id, panel.title);
    body +=
        fmt::format("<section id=\"{}\"><h2>{}</h2>\n{}</section>\n", panel.id, panel.title, html);
  }
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>Plan: {}</title>\n<style>{}</style></head>\n"
      "<body>\n<h1>Plan of a training step</h1>\n"
      "{}<nav>{}</nav>\n{}<div id=\"tip\" role=\"tooltip\"></div>\n"
      "<script type=\"application/json\" id=\"numbers\">{}</script>\n<script>{}</script>\n"
      "</body></html>\n",
      page::escaped(report["summary"][0]["text"].get<std::string>()), page::kStyle, summary(report),
      links, body, embedded(report), page::kScript);
}

void add_trace(Json& report, const std::string& trace, const std::string& origin) {
  const std::string title = "trace " + origin;
  const nlohmann::json file = parse_json(trace, title);
  const std::string expected =
      "; expected a trace of a step, as --trace or Executable::trace writes it";
  require(file.is_object() && file.contains("traceEvents") && file["traceEvents"].is_array(),
          "{}: no traceEvents{}", title, expected);
  std::map<int, int> thread_of_device;                // that of whole runs
  std::map<int, std::pair<int, Json>> runs_of_stage;  // of its first device
  const auto whole = [](const nlohmann::json& event, const char* key) {
    return event.contains(key) && event[key].is_number() ? event[key].get<int>() : -1;
  };
  for (const nlohmann::json& event : file["traceEvents"])
    if (event.is_object() && event.value("ph", "") == "M" &&
        event.value("name", "") == "thread_name" && event.contains("args") &&
        event["args"].value("name", "") == "measured")
      thread_of_device[whole(event, "pid")] = whole(event, "tid");
  double seconds = 0;
  for (const nlohmann::json& event : file["traceEvents"]) {
    if (!event.is_object() || event.value("ph", "") != "X" || !event.contains("args")) continue;
    const int device = whole(event, "pid"), stage = whole(event["args"], "stage");
    const auto thread = thread_of_device.find(device);
    if (thread == thread_of_device.end() || whole(event, "tid") != thread->second) continue;
    auto& [first, runs] = runs_of_stage.try_emplace(stage, device, Json::array()).first->second;
    if (first != device) continue;
    const double begin = event.value("ts", 0.0) / 1e6, end = begin + event.value("dur", 0.0) / 1e6;
    std::string name = event.value("name", "");
    runs.push_back({{"run", name.substr(0, name.find(' '))},
                    {"micro_batch", whole(event["args"], "micro_batch")},
                    {"stage", stage},
                    {"begin", begin},
                    {"end", end}});
    seconds = std::max(seconds, end);
  }
  require(!runs_of_stage.empty(), "{}: no measured runs{}", title, expected);
  Json meshes = Json::array();
  for (auto& [stage, runs] : runs_of_stage) meshes.push_back(std::move(runs.second));
  report["measured"] = {{"seconds", seconds}, {"meshes", std::move(meshes)}};
}

}  // namespace alpa
