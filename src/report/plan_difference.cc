// src/report/plan_difference.cc — two plans side by side, by classes of alike layers
#include "plan_difference.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "alpa/base/text.h"
#include "report_parts.h"

namespace alpa {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostLines = 20;

/// Alike tensors or operators of a plan.
struct Alike {
  std::map<std::string, int> ways;  ///< how many are laid out, or done, in each way
  double amount = 0;                ///< bytes or seconds of all of them
};

std::string ways_text(const Alike* alike) {
  if (!alike) return "none";
  std::string text;
  for (const auto& [way, count] : alike->ways)
    text += (text.empty() ? "" : "; ") +
            (alike->ways.size() > 1 ? fmt::format("{} x ", count) : std::string()) + way;
  return text;
}

/// Classes that differ in their ways, the largest change first: a line for each.
std::string differences(const std::map<std::string, Alike>& before,
                        const std::map<std::string, Alike>& after,
                        const std::function<std::string(double)>& text) {
  struct Line {
    double change;
    std::string words;
  };
  std::vector<Line> lines;
  const auto add = [&](const std::string& name, const Alike* a, const Alike* b) {
    if (a && b && a->ways == b->ways) return;
    const double from = a ? a->amount : 0, to = b ? b->amount : 0;
    lines.push_back({std::abs(to - from), fmt::format("  {}: {} -> {}; {}\n", name, ways_text(a),
                                                      ways_text(b), change_text(from, to, text))});
  };
  for (const auto& [name, alike] : before) {
    const auto found = after.find(name);
    add(name, &alike, found == after.end() ? nullptr : &found->second);
  }
  for (const auto& [name, alike] : after)
    if (!before.contains(name)) add(name, nullptr, &alike);
  std::ranges::stable_sort(lines, std::greater<>(), &Line::change);
  std::string all;
  for (std::size_t i = 0; i < std::min(kMostLines, lines.size()); ++i) all += lines[i].words;
  if (lines.size() > kMostLines) all += fmt::format("  and {} more\n", lines.size() - kMostLines);
  return all.empty() ? "  none\n" : all;
}

std::map<std::string, Alike> tensors_of(const Json& report) {
  std::map<std::string, Alike> tensors;
  for (const Json& layer : report["sharding"])
    for (const Json& tensor : layer["tensors"]) {
      const int count = layer["count"].get<int>();
      Alike& alike = tensors[page::pattern_of(layer["first"].get<std::string>()) + "." +
                             tensor["name"].get<std::string>()];
      alike.ways[tensor["layout"].get<std::string>()] += count;
      alike.amount += count * tensor["bytes"].get<double>();
    }
  return tensors;
}

std::map<std::string, Alike> operators_of(const Json& report) {
  std::map<std::string, Alike> operators;
  for (const Json& op : report["operators"]) {
    const std::string name = op["name"], kind = op["operator"];
    Alike& alike =
        operators[fmt::format("{}{} ({})", name, name.ends_with(kind) ? "" : " (" + kind + ")",
                              op["region"].get<std::string>())];
    alike.ways[op["strategy"].get<std::string>()] += op["count"].get<int>();
    alike.amount += op["seconds"].get<double>();
  }
  return operators;
}

double communication_of(const Json& report) {
  double seconds = 0;
  for (const Json& time : report["time"]) seconds += time["communication"].get<double>();
  return seconds / static_cast<double>(report["time"].size());
}

/// Bytes that a device sends in a step, to others of its stage and to other stages: on average.
double sent_of(const Json& report) {
  double bytes = 0;
  for (const Json& kind : report["communication"]["kinds"])
    bytes += kind["bytes"].get<double>() *
             report["stages"][kind["stage"].get<std::size_t>()]["devices"].get<int>();
  for (const Json& transfer : report["transfers"])
    bytes += transfer["bytes"].get<double>() *
             (transfer["per"] == "step" ? 1 : report["micro_batches"].get<int>());
  return bytes / report["devices"].get<int>();
}

}  // namespace

std::string change_text(double before, double after,
                        const std::function<std::string(double)>& text) {
  const std::string share =
      before > 0 ? fmt::format(", {:+.1f} %", 100 * (after - before) / before) : "";
  return fmt::format("{} -> {} ({}{}{})", text(before), text(after), after >= before ? "+" : "-",
                     text(std::abs(after - before)), share);
}

std::string difference_text(const Json& before, const Json& after) {
  std::string text;
  const auto line = [&](const char* label, const std::string& words) {
    text += fmt::format("{:<14} {}\n", label, words);
  };
  const auto word = [](const Json& report, const char* key) {
    return report[key].get<std::string>();
  };
  const auto change = [&](const char* key, const auto& words) {
    return change_text(before[key].get<double>(), after[key].get<double>(), words);
  };
  line("plan", fmt::format("{} on meshes {} -> {} on meshes {}", word(before, "method"),
                           word(before, "meshes"), word(after, "method"), word(after, "meshes")));
  line("step", change("seconds", seconds_text));
  line("communication",
       change_text(communication_of(before), communication_of(after), seconds_text));
  line("sent", change_text(sent_of(before), sent_of(after), bytes_text) + " by a device");
  line("memory", change("memory_bytes", bytes_text));
  line("proof", fmt::format("{} -> {}", word(before, "proof"), word(after, "proof")));
  text += "layouts that differ, with the bytes of a device\n";
  text += differences(tensors_of(before), tensors_of(after), bytes_text);
  text += "operators that are done differently, with the seconds of a step\n";
  text += differences(operators_of(before), operators_of(after), seconds_text);
  return text;
}

}  // namespace alpa
