// src/report/report_panels.cc — the panels of a report's page
#include "report_panels.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "alpa/base/error.h"
#include "report_page.h"

namespace alpa::page {

using Json = nlohmann::ordered_json;

namespace {

double at(const Json& report, const std::string& pointer) {
  return report.at(Json::json_pointer(pointer)).get<double>();
}

std::string text_of(const Json& json, const char* key) { return json.at(key).get<std::string>(); }

std::string tip(const std::string& text) {
  return fmt::format(" tabindex=\"0\" data-tip=\"{}\"", escaped(text));
}

/// Legend: the meaning of the colours, as HTML.
std::string key(std::initializer_list<std::pair<int, const char*>> colours) {
  std::string html = "<p class=\"key\">";
  for (const auto& [colour, what] : colours)
    html += fmt::format("<span><i class=\"k{}\"></i>{}</span>", colour, what);
  return html + "</p>\n";
}

std::string table(std::initializer_list<const char*> heads, const std::string& rows) {
  std::string html = "<div class=\"wide\"><table><tr>";
  for (const char* head : heads)
    html += *head == '>' ? fmt::format("<th class=\"r\">{}</th>", head + 1)
                         : fmt::format("<th>{}</th>", head);
  return html + "</tr>\n" + rows + "</table></div>\n";
}

std::string cell(const std::string& html) { return "<td>" + html + "</td>"; }
std::string right(const std::string& html) { return "<td class=\"r\">" + html + "</td>"; }

constexpr double kWidth = 1000;

/// A rectangle of a chart, with what it stands for.
std::string rect(double x, double y, double width, double height, int colour,
                 const std::string& words) {
  return fmt::format(
      "<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" class=\"k{}\"{}/>", x, y,
      width, height, colour, tip(words));
}

std::string label(double x, double y, const std::string& html) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\">{}</text>", x, y, html);
}

std::string svg(const char* id, double height, const std::string& content, const char* words) {
  return fmt::format(
      "<div class=\"wide\"><svg id=\"{}\" viewBox=\"0 0 {} {:.0f}\" role=\"img\" "
      "aria-label=\"{}\">{}</svg></div>\n",
      id, kWidth, height, words, content);
}

/// A bar per stage: products, memory, communication, waiting.
std::string time_bars(const Json& report) {
  constexpr const char* kParts[] = {"compute", "memory", "communication", "waiting"};
  constexpr const char* kWords[] = {"operators bound by FLOPs", "operators bound by memory",
                                    "communication", "waiting"};
  constexpr int kColours[] = {0, 2, 1, 4};
  std::string bars;
  const double scale = (kWidth - 80) / std::max(1e-30, at(report, "/seconds"));
  double y = 4;
  for (std::size_t s = 0; s < report["time"].size(); ++s, y += 26) {
    bars += label(0, y + 14, fmt::format("stage {}", s));
    double x = 70;
    for (int part = 0; part < 4; ++part) {
      const double seconds = at(report, fmt::format("/time/{}/{}", s, kParts[part]));
      bars += rect(x, y, seconds * scale, 20, kColours[part],
                   fmt::format("stage {}: {} {}", s, kWords[part], report_number(seconds, "s")));
      x += seconds * scale;
    }
  }
  return svg("time-bars", y + 4, bars, "Seconds of each stage by what bounds them");
}

/// FLOPs per byte against FLOP/s, both logarithmic, with the roofs of the cluster's rates.
std::string roofline(const Json& report) {
  constexpr double kHeight = 260, kLeft = 60, kBottom = 30;
  const double bandwidth = at(report, "/assumptions/memory_bytes_per_second");
  double peak = 0;
  for (const Json& rate : report["assumptions"]["rates"])
    peak = std::max(peak, rate["flops_per_second"].get<double>());
  if (bandwidth <= 0 || peak <= 0) return "";
  const double least = std::log10(bandwidth * 0.05), most = std::log10(peak * 1.5);
  const auto x_of = [&](double per_byte) {
    const double share = (std::log10(std::clamp(per_byte, 0.05, 2e4)) - std::log10(0.05)) /
                         (std::log10(2e4) - std::log10(0.05));
    return kLeft + share * (kWidth - kLeft - 10);
  };
  const auto y_of = [&](double rate) {
    const double share = (std::log10(std::max(rate, 1.0)) - least) / (most - least);
    return (kHeight - kBottom) * (1 - std::clamp(share, 0.0, 1.0)) + 4;
  };
  std::string marks;
  std::map<double, std::pair<std::size_t, std::string>> roofs;  // by rate: the first, and all names
  for (std::size_t r = 0; r < report["assumptions"]["rates"].size(); ++r) {
    const Json& rate = report["assumptions"]["rates"][r];
    auto& [first, names] =
        roofs.try_emplace(rate["flops_per_second"].get<double>(), r, "").first->second;
    names += (names.empty() ? "" : ", ") + text_of(rate, "dtype");
  }
  for (const auto& [rate, roof] : roofs) {
    marks += fmt::format("<path class=\"roof\" d=\"M{:.1f} {:.1f}L{:.1f} {:.1f}L{:.1f} {:.1f}\"/>",
                         x_of(0.05), y_of(0.05 * bandwidth), x_of(rate / bandwidth), y_of(rate),
                         x_of(2e4), y_of(rate));
    const std::string place = fmt::format("/assumptions/rates/{}/flops_per_second", roof.first);
    marks +=
        label(kWidth - 170, y_of(rate) - 4,
              fmt::format("{} {}", escaped(roof.second), number(report, place, "F/s", "tspan")));
  }
  marks += fmt::format("<line class=\"axis\" x1=\"{0}\" y1=\"{1}\" x2=\"{2}\" y2=\"{1}\"/>", kLeft,
                       kHeight - kBottom + 4, kWidth - 10);
  for (const double per_byte : {0.1, 1.0, 10.0, 100.0, 1000.0, 10000.0})
    marks += label(x_of(per_byte) - 8, kHeight - 10, report_number(per_byte, ""));
  marks += label(kWidth - 130, kHeight + 6, "FLOPs per byte");
  const double step = at(report, "/seconds");
  for (const Json& op : report["operators"]) {
    const double per_byte = op["flops_per_byte"].get<double>();
    const double rate = op["flops_per_second"].get<double>();
    if (per_byte <= 0 || rate <= 0) continue;
    const double radius = 4 + 26 * std::sqrt(op["seconds"].get<double>() / std::max(step, 1e-30));
    marks += fmt::format(
        "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{:.1f}\" class=\"k{}\" fill-opacity=\"0.55\"{}/>",
        x_of(per_byte), y_of(rate), radius, op["bound_by"] == "compute" ? 0 : 2,
        tip(fmt::format("{} x {}\n{} a step, {}, {} FLOPs per byte\n{}", op["count"].get<int>(),
                        text_of(op, "name"), report_number(op["seconds"].get<double>(), "s"),
                        report_number(rate, "F/s"), report_number(per_byte, ""),
                        text_of(op, "strategy"))));
  }
  return svg("roofline", kHeight + 12, marks, "Roofline of the costliest operators") +
         "<p>Circles are classes of operators, their area the seconds; lines are the rates and the "
         "bandwidth that the planner assumed.</p>\n";
}

int colour_of_axis(const std::string& name) {
  return name.empty() || name[0] < 'x' ? 3 : std::min(2, name[0] - 'x');
}

std::string tensor_cell(const Json& tensor) {
  std::string stripes;
  for (const Json& axes : tensor["split"])
    stripes += axes.empty() ? "<i class=\"k4\"></i>"
                            : fmt::format("<i class=\"k{}\"></i>",
                                          colour_of_axis(axes[0].get<std::string>()));
  const std::string words =
      fmt::format("{} {} {}\n{}\n{} a device", text_of(tensor, "kind"), text_of(tensor, "name"),
                  text_of(tensor, "type"), text_of(tensor, "layout"),
                  report_number(tensor["bytes"].get<double>(), "B"));
  return fmt::format("<span class=\"cell {}{}\"{}>{} {}</span>", text_of(tensor, "kind"),
                     tensor["partial"].empty() ? "" : " partial", tip(words), stripes,
                     escaped(text_of(tensor, "name")));
}

/// Areas of what lives, one above the other.
std::string memory_chart(const Json& report, std::size_t stage) {
  constexpr double kHeight = 150, kFarLimit = 4;  // above that it would flatten the chart
  constexpr int kColours[] = {0, 3, 1, 2, 4};
  const Json& memory = report["memory"][stage];
  const double limit = at(report, fmt::format("/stages/{}/memory/limit", stage));
  const auto points = memory["points"].size();
  std::vector<double> top(points, 0);
  double most = 1;
  for (const Json& point : memory["points"]) {
    double sum = 0;
    for (const Json& bytes : point) sum += bytes.get<double>();
    most = std::max(most, sum);
  }
  const bool shows_limit = limit > 0 && limit < kFarLimit * most;
  if (shows_limit) most = std::max(most, limit);
  const double x_step = (kWidth - 80) / static_cast<double>(points);
  const auto y_of = [&](double bytes) { return 4 + kHeight * (1 - bytes / most); };
  std::string marks;
  for (std::size_t kind = 0; kind < memory["kinds"].size(); ++kind) {
    std::string upper, lower;
    double largest = 0;
    for (std::size_t p = 0; p < points; ++p) {
      const double bytes = memory["points"][p][kind].get<double>(), x = 70 + x_step * p;
      largest = std::max(largest, bytes);
      lower =
          fmt::format("L{:.1f} {:.1f}L{:.1f} {:.1f}", x + x_step, y_of(top[p]), x, y_of(top[p])) +
          lower;
      top[p] += bytes;
      upper += fmt::format("{}{:.1f} {:.1f}L{:.1f} {:.1f}", p == 0 ? "M" : "L", x, y_of(top[p]),
                           x + x_step, y_of(top[p]));
    }
    marks += fmt::format(
        "<path d=\"{}{}Z\" class=\"k{}\"{}/>", upper, lower, kColours[kind],
        tip(fmt::format("stage {}: {}, at most {}", stage, memory["kinds"][kind].get<std::string>(),
                        report_number(largest, "B"))));
  }
  if (shows_limit)
    marks +=
        fmt::format("<line class=\"limit\" x1=\"70\" y1=\"{0:.1f}\" x2=\"{1}\" y2=\"{0:.1f}\"/>",
                    y_of(limit), kWidth - 10) +
        label(
            kWidth - 150, y_of(limit) + 13,
            "limit " + number(report, fmt::format("/stages/{}/memory/limit", stage), "B", "tspan"));
  marks += label(0, 20, fmt::format("stage {}", stage));
  return svg(fmt::format("memory-{}", stage).c_str(), kHeight + 10, marks, "Bytes of a device");
}

/// A lane per part of the devices.
std::string lanes(const Json& timeline, double seconds, double y, const char* what) {
  const std::map<std::string, int> colours = {
      {"forward", 0}, {"backward", 2}, {"weights", 3}, {"apply", 1}, {"accumulate", 0}};
  std::string marks;
  for (std::size_t mesh = 0; mesh < timeline["meshes"].size(); ++mesh, y += 24) {
    marks += label(0, y + 14, fmt::format("{} {}", what, mesh));
    for (const Json& run : timeline["meshes"][mesh]) {
      const double begin = run["begin"].get<double>(), end = run["end"].get<double>();
      const auto colour = colours.find(text_of(run, "run"));
      marks += rect(90 + (kWidth - 100) * begin / seconds, y,
                    std::max(0.3, (kWidth - 100) * (end - begin) / seconds - 0.4), 19,
                    colour == colours.end() ? 4 : colour->second,
                    fmt::format("stage {}, {} of micro-batch {}\n{} to {}", run["stage"].get<int>(),
                                text_of(run, "run"), run["micro_batch"].get<int>(),
                                report_number(begin, "s"), report_number(end, "s")));
    }
  }
  return marks;
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string safe;
  for (char c : text) {
    switch (c) {
      case '&': safe += "&amp;"; break;
      case '<': safe += "&lt;"; break;
      case '>': safe += "&gt;"; break;
      case '"': safe += "&quot;"; break;
      default: safe += c;
    }
  }
  return safe;
}

std::string number(const Json& report, const std::string& pointer, std::string_view unit,
                   const char* element) {
  return fmt::format("<{0} data-n=\"{1}\" data-u=\"{2}\">{3}</{0}>", element, pointer, unit,
                     report_number(at(report, pointer), unit));
}

std::string time_panel(const Json& report) {
  std::string rows;
  for (std::size_t i = 0; i < report["operators"].size(); ++i) {
    const Json& op = report["operators"][i];
    const std::string place = fmt::format("/operators/{}/", i);
    rows += "<tr>" + right(number(report, place + "seconds", "s")) +
            cell(fmt::format("{} x <b>{}</b><br>{}", number(report, place + "count", ""),
                             escaped(text_of(op, "name")), escaped(text_of(op, "strategy")))) +
            cell(escaped(text_of(op, "region"))) + right(number(report, place + "flops", "F")) +
            right(number(report, place + "bytes", "B")) +
            right(number(report, place + "flops_per_second", "F/s")) +
            cell(escaped(text_of(op, "bound_by"))) + "</tr>\n";
  }
  return "<p>Predicted seconds of a step: " + number(report, "/seconds", "s") + "</p>\n" +
         key({{0, "operators bound by FLOPs"},
              {2, "operators bound by memory"},
              {1, "communication"},
              {4, "waiting for other stages"}}) +
         time_bars(report) + roofline(report) +
         table({">seconds", "operators", "region", ">FLOPs", ">bytes", ">rate", "bound by"}, rows);
}

std::string sharding_panel(const Json& report) {
  std::string html =
      "<p>A cell is a tensor, a stripe one of its dimensions. Results are those of "
      "products.</p>\n" +
      key({{0, "split over x"}, {1, "split over y"}, {2, "split over z"}, {4, "whole"}});
  for (const Json& layer : report["sharding"]) {
    const std::string first = text_of(layer, "first"), last = text_of(layer, "last");
    html += fmt::format(
        "<div class=\"layer\"><b>{}{}{}</b><div class=\"cells\">",
        report["stages"].size() > 1 ? fmt::format("stage {}: ", layer["stage"].get<int>()) : "",
        escaped(first),
        first == last ? ""
                      : fmt::format(" to {} ({} alike)", escaped(last), layer["count"].get<int>()));
    for (const Json& tensor : layer["tensors"]) html += tensor_cell(tensor);
    html += "</div></div>\n";
  }
  return html;
}

std::string memory_panel(const Json& report) {
  std::string html =
      "<p>Values of a device from the begin of the step to its end, before they are packed; the "
      "exact peak is " +
      number(report, "/memory_bytes", "B") + ".</p>\n" +
      key({{0, "parameters"},
           {3, "optimizer state"},
           {1, "accumulators"},
           {2, "activations in flight"},
           {4, "temporaries"}});
  std::string rows;
  for (std::size_t s = 0; s < report["memory"].size(); ++s) {
    html += memory_chart(report, s);
    const std::string place = fmt::format("/stages/{}/memory/", s);
    rows += fmt::format("<tr><td>{}</td>", s);
    for (const char* kind :
         {"state", "accumulators", "activations", "temporaries", "total", "limit"})
      rows += right(number(report, place + kind, "B"));
    rows += right(number(report, place + "in_flight", "")) + "</tr>\n";
  }
  return html + table({"stage", ">state", ">accumulators", ">activations", ">temporaries", ">total",
                       ">limit", ">in flight"},
                      rows);
}

std::string timeline_panel(const Json& report) {
  if (!report.contains("timeline") && !report.contains("measured")) return "";
  double seconds = 1e-30, y = 4;
  std::string marks;
  for (const char* which : {"timeline", "measured"})
    if (report.contains(which))
      seconds = std::max(seconds, at(report, fmt::format("/{}/seconds", which)));
  for (const char* which : {"timeline", "measured"}) {
    if (!report.contains(which)) continue;
    const bool measured = which == std::string_view("measured");
    marks += lanes(report[which], seconds, y, measured ? "measured" : "predicted");
    y += 24 * static_cast<double>(report[which]["meshes"].size()) + 8;
  }
  std::string words;
  if (report.contains("timeline"))
    words += fmt::format(
        "<p>Predicted {}; devices wait {} of it. {} of {} micro-batches are shown.</p>\n",
        number(report, "/timeline/seconds", "s"), number(report, "/bubble", "%"),
        number(report, "/timeline/shown_micro_batches", ""),
        number(report, "/timeline/micro_batches", ""));
  if (report.contains("measured"))
    words += fmt::format("<p>Measured {}.</p>\n", number(report, "/measured/seconds", "s"));
  return words + key({{0, "forward"}, {2, "backward"}, {3, "gradients of weights"}, {1, "apply"}}) +
         "<div class=\"zoom\" data-of=\"runs\"><button data-zoom=\"in\">closer</button>"
         "<button data-zoom=\"out\">wider</button><button data-zoom=\"all\">all</button></div>\n" +
         svg("runs", y, marks, "Runs of the stages");
}

std::string communication_panel(const Json& report) {
  std::string kinds, largest, transfers;
  for (std::size_t i = 0; i < report["communication"]["kinds"].size(); ++i) {
    const Json& kind = report["communication"]["kinds"][i];
    const std::string place = fmt::format("/communication/kinds/{}/", i);
    kinds += "<tr>" + cell(fmt::format("{}", kind["stage"].get<int>())) +
             cell(escaped(text_of(kind, "axis"))) + cell(escaped(text_of(kind, "kind"))) +
             right(number(report, place + "count", "")) +
             right(number(report, place + "bytes", "B")) +
             right(number(report, place + "seconds", "s")) + "</tr>\n";
  }
  for (std::size_t i = 0; i < report["communication"]["largest"].size(); ++i) {
    const Json& one = report["communication"]["largest"][i];
    const std::string place = fmt::format("/communication/largest/{}/", i);
    largest += "<tr>" + right(number(report, place + "seconds", "s")) +
               right(number(report, place + "bytes", "B")) +
               cell(fmt::format("{} x {} of {} from {} for {}<br>left with {}, wanted with {}",
                                number(report, place + "count", ""), escaped(text_of(one, "what")),
                                escaped(text_of(one, "type")), escaped(text_of(one, "from")),
                                escaped(text_of(one, "for")), escaped(text_of(one, "left")),
                                escaped(text_of(one, "wanted")))) +
               "</tr>\n";
  }
  for (std::size_t i = 0; i < report["transfers"].size(); ++i) {
    const std::string place = fmt::format("/transfers/{}/", i);
    transfers += "<tr>" +
                 cell(fmt::format("stage {} to {}", number(report, place + "from", ""),
                                  number(report, place + "to", ""))) +
                 right(number(report, place + "tensors", "")) +
                 right(number(report, place + "bytes", "B")) +
                 right(number(report, place + "seconds", "s")) +
                 cell("per " + escaped(text_of(report["transfers"][i], "per"))) + "</tr>\n";
  }
  if (kinds.empty() && transfers.empty()) return "<p>None.</p>\n";
  std::string html;
  if (!kinds.empty())
    html += table({"stage", "axis", "kind", ">calls", ">bytes sent", ">seconds"}, kinds) +
            "<p>The largest, with what they are for:</p>\n" +
            table({">seconds", ">bytes sent", "what"}, largest);
  if (!transfers.empty())
    html += "<p>Between stages:</p>\n" +
            table({"stages", ">tensors", ">bytes", ">seconds", ""}, transfers);
  return html;
}

/// A layout chosen by hand; `more` is of the stage's seconds.
std::string hand_made_row(const Json& report, std::size_t i) {
  const Json& layout = report["hand_made"][i];
  const std::string place = fmt::format("/hand_made/{}/", i);
  const bool fits = layout["fits"].get<bool>();
  return "<tr>" + right(number(report, place + "stage", "")) +
         cell(escaped(text_of(layout, "mesh"))) + cell(escaped(text_of(layout, "uses"))) +
         right(number(report, place + "seconds", "s")) +
         right(number(report, place + "more", "%")) +
         right(number(report, place + "memory_bytes", "B")) +
         cell(fits ? "" : "more than a device has") + "</tr>\n";
}

std::string alternatives_panel(const Json& report) {
  std::string operators, layouts, html;
  for (std::size_t i = 0; i < report["operators"].size(); ++i) {
    const Json& op = report["operators"][i];
    if (!op.contains("next_best")) continue;
    operators +=
        "<tr>" + cell("<b>" + escaped(text_of(op, "name")) + "</b>") +
        cell(escaped(text_of(op, "strategy"))) +
        cell(escaped(text_of(op["next_best"], "strategy"))) +
        right(number(report, fmt::format("/operators/{}/next_best/extra_seconds", i), "s")) +
        "</tr>\n";
  }
  for (std::size_t i = 0; i < report["hand_made"].size(); ++i) layouts += hand_made_row(report, i);
  if (!layouts.empty())
    html +=
        "<p>Layouts that people choose by hand, each at its best: seconds of a step of the "
        "stage, and how much more that is than the plan takes. <q>batch</q> splits the batch and "
        "state where that is cheaper, <q>data</q> the batch alone; an axis of <q>any</q> has "
        "one device."
        "</p>\n" +
        table({">stage", "mesh", "uses of its axes", ">seconds", ">more", ">bytes", ""}, layouts);
  if (!operators.empty())
    html +=
        "<p>One operator of each class in the next best way, all else equal: the seconds that "
        "it adds to a step.</p>\n" +
        table({"operator", "chosen", "next best", ">adds"}, operators);
  return html;
}

std::string assumptions_panel(const Json& report) {
  const std::string place = "/assumptions/";
  const Json& assumed = report["assumptions"];
  std::string rows;
  const auto row = [&](const std::string& what, const std::string& html) {
    rows += "<tr>" + cell(what) + right(html) + "</tr>\n";
  };
  row("hosts", number(report, place + "hosts", ""));
  row("devices of a host", number(report, place + "devices_per_host", ""));
  row("memory of a device", number(report, place + "memory_bytes", "B"));
  row("its bandwidth", number(report, place + "memory_bytes_per_second", "B/s"));
  row("launch of an operator", number(report, place + "launch_seconds", "s"));
  for (std::size_t r = 0; r < assumed["rates"].size(); ++r)
    row("products of " + escaped(text_of(assumed["rates"][r], "dtype")),
        number(report, fmt::format("{}rates/{}/flops_per_second", place, r), "F/s"));
  for (std::size_t l = 0; l < assumed["links"].size(); ++l)
    row("links " + escaped(text_of(assumed["links"][l], "what")),
        number(report, fmt::format("{}links/{}/bytes_per_second", place, l), "B/s") + ", " +
            number(report, fmt::format("{}links/{}/alpha_seconds", place, l), "s"));
  return (assumed["measured"].get<bool>() ? "<p>Products go at rates measured by shape.</p>\n"
                                          : std::string()) +
         table({"what", ">value"}, rows);
}

}  // namespace alpa::page
