// src/report/report_page.cc — a report as one HTML file
#include "report_page.h"

#include <map>

#include "alpa/base/error.h"
#include "src/base/json.h"

namespace alpa {

using Json = nlohmann::ordered_json;

std::string report_page(const Json& report) {
  std::string numbers;  // safe inside of a script element
  for (char c : json_text(report)) numbers += c == '<' ? "\\u003c" : std::string(1, c);
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>Plan</title>\n<style>{}</style></head>\n"
      "<body>\n<h1>Plan of a training step</h1>\n"
      "<noscript>A script of this page draws it. Let it run.</noscript>\n"
      "<dl></dl><nav></nav><main></main><div id=\"tip\" role=\"tooltip\"></div>\n"
      "<script type=\"application/json\" id=\"numbers\">{}</script>\n<script>{}</script>\n"
      "</body></html>\n",
      page::kStyle, numbers, page::kScript);
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
