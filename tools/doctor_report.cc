// tools/doctor_report.cc — alpa doctor: the report in words
#include "tools/doctor_report.h"

#include <fmt/format.h>

namespace doctor {
namespace {

/// 1.5e12 → "1.50 T".
std::string scaled(double value) {
  const char* prefix = "";
  for (const char* next : {"k", "M", "G", "T", "P"}) {
    if (value < 1000) break;
    value /= 1000;
    prefix = next;
  }
  return fmt::format("{:.{}f} {}", value, value < 10 ? 2 : value < 100 ? 1 : 0, prefix);
}

std::string gibibytes(const Json& bytes) {
  return fmt::format("{:.1f} GiB", bytes.get<double>() / (std::int64_t{1} << 30));
}

std::int64_t mebibytes(const Json& bytes) { return bytes.get<std::int64_t>() >> 20; }

/// One line "heading     text"; further lines of an entry have an empty heading.
std::string line(const std::string& heading, const std::string& text) {
  return fmt::format("{:<12}{}\n", heading, text);
}

/// "" if nothing was measured.
std::string ceilings_text(const Json& ceilings) {
  if (ceilings.is_null()) return "";
  std::string text = "matmul";
  for (const auto& [dtype, rate] : ceilings["matmul_flops_per_second"].items())
    text += fmt::format(" {} {}FLOP/s,", dtype, scaled(rate.get<double>()));
  text.back() = ';';
  return line("", fmt::format("{} copy {}B/s read and written", text,
                              scaled(ceilings["copy_bytes_per_second"].get<double>())));
}

std::string processor_text(const Json& p) {
  std::string sets;
  for (const Json& set : p["instruction_sets"]) sets += (sets.empty() ? "" : " ") + shown(set);
  const std::string limit =
      p["limit_bytes"] < p["memory_bytes"]
          ? fmt::format("control groups allow {}, ", gibibytes(p["limit_bytes"]))
          : "";
  return line("processor", fmt::format("{}, {} of {} cores usable", shown(p["model"]),
                                       shown(p["usable_cores"]), shown(p["cores"]))) +
         line("", fmt::format("{}; kernels for {}", sets, shown(p["kernels"]))) +
         ceilings_text(p["ceilings"]) +
         line("memory", fmt::format("{}, {}{} available", gibibytes(p["memory_bytes"]), limit,
                                    gibibytes(p["available_bytes"])));
}

std::string libraries_text(const Json& libraries) {
  std::string text;
  for (const Json& library : libraries) {
    const std::string found = shown(library["version"]), tested = shown(library["tested"]);
    text += line(
        text.empty() ? "libraries" : "",
        fmt::format("{}{}{}: {}", shown(library["name"]), found.empty() ? "" : " " + found,
                    tested.empty() ? "" : ", tested with " + tested, shown(library["status"])));
  }
  return text;
}

std::string device_text(const std::string& heading, const Json& device) {
  if (!device["error"].is_null()) return line(heading, "failed: " + shown(device["error"]));
  std::string capability = shown(device["compute_capability"]);
  capability.erase(capability.find('.'), 1);
  std::string text =
      line(heading, fmt::format("{}, sm_{}, {} multiprocessors up to {}Hz, {}, {} free, L2 {} MiB",
                                shown(device["name"]), capability, shown(device["multiprocessors"]),
                                scaled(device["clock_hertz"].get<double>()),
                                gibibytes(device["memory_bytes"]), gibibytes(device["free_bytes"]),
                                mebibytes(device["l2_bytes"])));
  text += ceilings_text(device["ceilings"]);
  if (device["dnn"].is_null()) return text;
  const std::int64_t loaded =
      device["free_bytes"].get<std::int64_t>() - device["free_behind_bytes"].get<std::int64_t>();
  return text + line("", shown(device["dnn"])) +
         line("", fmt::format("kernels of these libraries take {} MiB", mebibytes(loaded)));
}

std::string cuda_text(const Json& cuda) {
  const Json& devices = cuda["devices"];
  std::string text =
      line("cuda", cuda["reason"].is_null() ? fmt::format("{} devices", devices.size())
                                            : shown(cuda["reason"]));
  for (std::size_t i = 0; i < devices.size(); ++i)
    text += device_text(fmt::format("gpu {}", i), devices[i]);
  for (const Json& link : cuda["links"])
    text +=
        line("link", fmt::format("{} -> {}: {}{}, rank {}", shown(link["from"]), shown(link["to"]),
                                 link["peer"].get<bool>() ? "direct" : "through the host",
                                 link["atomics"].get<bool>() ? ", atomics" : "",
                                 shown(link["performance_rank"])));
  return text;
}

/// "0 to 3" or "0, 2".
std::string ranks_text(const Json& ranks) {
  const int first = ranks.front(), last = ranks.back();
  if (last - first + 1 == static_cast<int>(ranks.size()) && ranks.size() > 2)
    return fmt::format("{} to {}", first, last);
  std::string text;
  for (const Json& rank : ranks) text += (text.empty() ? "" : ", ") + shown(rank);
  return text;
}

std::string host_text(const Json& host) {
  const bool one = host["ranks"].size() == 1;
  const Json &fewest = host["cores_per_process"][0], &most = host["cores_per_process"][1];
  const std::string each =
      fewest == most ? shown(most) : fmt::format("{} to {}", shown(fewest), shown(most));
  return line("host", fmt::format("{}: {} {}, {} of {} cores{}, {}", shown(host["name"]),
                                  one ? "rank" : "ranks", ranks_text(host["ranks"]),
                                  shown(host["cores"]), shown(host["offered_cores"]),
                                  one ? "" : fmt::format(" ({} per process)", each),
                                  host["gpus"] == 0 ? "no GPU" : shown(host["gpus"]) + " GPUs"));
}

std::string processes_text(const Json& launch) {
  const bool loads = launch["reason"].is_null();
  const std::string mpi =
      loads ? fmt::format("{} ({})", shown(launch["mpi"]), shown(launch["library"]))
            : shown(launch["reason"]);
  if (!launch["launcher"].is_null()) {
    const std::size_t hosts = launch["hosts"].size();
    return fmt::format(
        "{} by {} on {}; {}",
        launch["processes"].is_null() ? "several" : shown(launch["processes"]),
        shown(launch["launcher"]),
        hosts == 0 ? "unknown hosts" : fmt::format("{} host{}", hosts, hosts == 1 ? "" : "s"), mpi);
  }
  if (launch["processes"] != 1) return "not started together; " + mpi;
  if (loads && !launch["mpirun"].is_null())
    return fmt::format("1, without a launcher; {} can start several: {}", shown(launch["mpirun"]),
                       mpi);
  return "1, without a launcher; several cannot be started: " +
         (loads ? "no mpirun is on the PATH" : mpi);
}

std::string launch_text(const Json& launch) {
  std::string text = line("processes", processes_text(launch));
  for (const Json& host : launch["hosts"]) text += host_text(host);
  for (const Json& wrong : launch["wrong"]) text += line("wrong", shown(wrong));
  return text;
}

}  // namespace

Json text_or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

std::string shown(const Json& value) {
  if (value.is_null()) return "";
  return value.is_string() ? value.get<std::string>() : value.dump();
}

std::string report_text(const Json& report) {
  std::string text = line("alpa", shown(report["version"])) + processor_text(report["processor"]) +
                     cuda_text(report["cuda"]);
  if (!report["launch"].is_null()) text += launch_text(report["launch"]);
  text += libraries_text(report["libraries"]);
  for (const Json& missing : report["missing"])
    text += line("missing", shown(missing["what"]) + ": " + shown(missing["remedy"]));
  return text;
}

}  // namespace doctor
