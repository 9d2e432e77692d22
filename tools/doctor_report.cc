// tools/doctor_report.cc — alpa doctor: prints the report, as text and as JSON
#include "tools/doctor_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace doctor {
namespace {

using Json = nlohmann::ordered_json;

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

std::string gibibytes(std::int64_t bytes) {
  return fmt::format("{:.1f} GiB", static_cast<double>(bytes) / (std::int64_t{1} << 30));
}

/// One line "heading     text"; further lines of an entry have an empty heading.
std::string line(const std::string& heading, const std::string& text) {
  return fmt::format("{:<12}{}\n", heading, text);
}

std::string ceilings_text(const Rates& matmul, double copy) {
  std::string text = "matmul";
  for (const auto& [dtype, rate] : matmul)
    text += fmt::format(" {} {}FLOP/s,", dtype, scaled(rate));
  text.back() = ';';
  return text + fmt::format(" copy {}B/s read and written", scaled(copy));
}

std::string processor_text(const Processor& p) {
  std::string text =
      line("processor", fmt::format("{}, {} of {} cores usable", p.model, p.usable_cores, p.cores));
  text +=
      line("", fmt::format("{}; kernels for {}", fmt::join(p.instruction_sets, " "), p.kernels));
  if (!p.matmul.empty()) text += line("", ceilings_text(p.matmul, p.copy_bytes_per_second));
  const std::string limit = p.limit_bytes < p.memory_bytes
                                ? fmt::format("control groups allow {}, ", gibibytes(p.limit_bytes))
                                : "";
  return text + line("memory", fmt::format("{}, {}{} available", gibibytes(p.memory_bytes), limit,
                                           gibibytes(p.available_bytes)));
}

std::string libraries_text(const std::vector<Library>& libraries) {
  std::string text;
  for (const Library& library : libraries) {
    const std::string found = library.version.empty() ? "" : " " + library.version,
                      tested = library.tested.empty() ? "" : ", tested with " + library.tested;
    text += line(text.empty() ? "libraries" : "",
                 fmt::format("{}{}{}: {}", library.name, found, tested, verdict(library)));
  }
  return text;
}

std::string gpu_text(std::size_t index, const Gpu& gpu) {
  const alpa::CudaDevice& d = gpu.device;
  const std::string heading = fmt::format("gpu {}", index);
  if (!gpu.error.empty()) return line(heading, "failed: " + gpu.error);
  std::string text = line(
      heading,
      fmt::format("{}, sm_{}{}, {} multiprocessors up to {}Hz, {}, {} free, L2 {} MiB", d.name,
                  d.major, d.minor, d.multiprocessors, scaled(static_cast<double>(d.clock_hertz)),
                  gibibytes(d.memory_bytes), gibibytes(d.free_bytes), d.l2_bytes >> 20));
  if (!gpu.matmul.empty()) text += line("", ceilings_text(gpu.matmul, gpu.copy_bytes_per_second));
  if (!gpu.dnn.empty())
    text += line("", gpu.dnn) + line("", fmt::format("kernels of these libraries take {} MiB",
                                                     (d.free_bytes - gpu.free_behind_bytes) >> 20));
  return text;
}

std::string cuda_text(const Cuda& cuda) {
  std::string text =
      line("cuda", cuda.reason.empty() ? fmt::format("{} devices", cuda.gpus.size()) : cuda.reason);
  for (std::size_t i = 0; i < cuda.gpus.size(); ++i) text += gpu_text(i, cuda.gpus[i]);
  for (const GpuLink& l : cuda.links)
    text +=
        line("link", fmt::format("{} -> {}: {}{}, rank {}", l.from, l.to,
                                 l.link.peer != 0 ? "direct" : "through the host",
                                 l.link.atomics != 0 ? ", atomics" : "", l.link.performance_rank));
  return text;
}

/// "0 to 3" or "0, 2".
std::string ranks_text(const std::vector<int>& ranks) {
  const bool row = ranks.back() - ranks.front() + 1 == static_cast<int>(ranks.size());
  return row && ranks.size() > 2 ? fmt::format("{} to {}", ranks.front(), ranks.back())
                                 : fmt::format("{}", fmt::join(ranks, ", "));
}

std::string host_text(const LaunchHost& host) {
  const bool one = host.ranks.size() == 1;
  const std::string each = host.fewest == host.most
                               ? fmt::format("{}", host.most)
                               : fmt::format("{} to {}", host.fewest, host.most);
  return line("host",
              fmt::format("{}: {} {}, {} of {} cores{}, {}", host.name, one ? "rank" : "ranks",
                          ranks_text(host.ranks), host.cores, host.offered_cores,
                          one ? "" : fmt::format(" ({} per process)", each),
                          host.gpus == 0 ? "no GPU" : fmt::format("{} GPUs", host.gpus)));
}

std::string count_of_hosts(const Launch& launch) {
  const std::size_t count = launch.hosts.size();
  return count == 0 ? "unknown hosts" : fmt::format("{} host{}", count, count == 1 ? "" : "s");
}

std::string launch_text(const Launch& launch) {
  const std::string mpi = launch.reason.empty()
                              ? fmt::format("{} ({})", launch.version, launch.library)
                              : launch.reason;
  std::string text;
  if (launch.launcher.empty() && launch.size == 1) {
    const bool able = launch.reason.empty() && !launch.mpirun.empty();
    text = fmt::format("1, without a launcher; {}",
                       able ? fmt::format("{} can start several: {}", launch.mpirun, mpi)
                            : "several cannot be started: " +
                                  (launch.reason.empty() ? "no mpirun is on the PATH" : mpi));
  } else if (launch.launcher.empty()) {
    text = "not started together; " + mpi;
  } else {
    text = fmt::format("{} by {} on {}; {}",
                       launch.size == 0 ? "several" : std::to_string(launch.size), launch.launcher,
                       count_of_hosts(launch), mpi);
  }
  text = line("processes", text);
  for (const LaunchHost& host : launch.hosts) text += host_text(host);
  for (const std::string& wrong : launch.wrong) text += line("wrong", wrong);
  return text;
}

/// Null if nothing was measured.
Json ceilings_json(const Rates& matmul, double copy) {
  if (matmul.empty()) return nullptr;
  Json rates = Json::object();
  for (const auto& [dtype, rate] : matmul) rates[dtype] = rate;
  return {{"matmul_flops_per_second", rates}, {"copy_bytes_per_second", copy}};
}

Json processor_json(const Processor& p) {
  return {{"model", p.model},
          {"usable_cores", p.usable_cores},
          {"cores", p.cores},
          {"instruction_sets", p.instruction_sets},
          {"kernels", p.kernels},
          {"memory_bytes", p.memory_bytes},
          {"limit_bytes", p.limit_bytes},
          {"available_bytes", p.available_bytes},
          {"ceilings", ceilings_json(p.matmul, p.copy_bytes_per_second)}};
}

Json text_or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

Json libraries_json(const std::vector<Library>& libraries) {
  Json all = Json::array();
  for (const Library& library : libraries)
    all.push_back({{"name", library.name},
                   {"version", text_or_null(library.version)},
                   {"tested", text_or_null(library.tested)},
                   {"status", verdict(library)}});
  return all;
}

Json gpu_json(const Gpu& gpu) {
  const alpa::CudaDevice& d = gpu.device;
  return {{"name", d.name},
          {"compute_capability", fmt::format("{}.{}", d.major, d.minor)},
          {"multiprocessors", d.multiprocessors},
          {"clock_hertz", d.clock_hertz},
          {"memory_bytes", d.memory_bytes},
          {"free_bytes", d.free_bytes},
          {"free_behind_bytes", gpu.free_behind_bytes},
          {"l2_bytes", d.l2_bytes},
          {"ceilings", ceilings_json(gpu.matmul, gpu.copy_bytes_per_second)},
          {"dnn", text_or_null(gpu.dnn)},
          {"error", text_or_null(gpu.error)}};
}

Json cuda_json(const Cuda& cuda) {
  Json gpus = Json::array(), links = Json::array();
  for (const Gpu& gpu : cuda.gpus) gpus.push_back(gpu_json(gpu));
  for (const GpuLink& l : cuda.links)
    links.push_back({{"from", l.from},
                     {"to", l.to},
                     {"peer", l.link.peer != 0},
                     {"atomics", l.link.atomics != 0},
                     {"performance_rank", l.link.performance_rank}});
  return {{"reason", text_or_null(cuda.reason)},
          {"library", text_or_null(cuda.library)},
          {"cards_seen", cuda.cards_seen},
          {"devices", gpus},
          {"links", links}};
}

Json launch_json(const Launch& launch) {
  Json hosts = Json::array();
  for (const LaunchHost& host : launch.hosts)
    hosts.push_back({{"name", host.name},
                     {"ranks", host.ranks},
                     {"cores", host.cores},
                     {"offered_cores", host.offered_cores},
                     {"cores_per_process", {host.fewest, host.most}},
                     {"gpus", host.gpus}});
  return {{"launcher", text_or_null(launch.launcher)},
          {"processes", launch.size == 0 ? Json(nullptr) : Json(launch.size)},
          {"library", text_or_null(launch.library)},
          {"mpi", text_or_null(launch.version)},
          {"reason", text_or_null(launch.reason)},
          {"mpirun", text_or_null(launch.mpirun)},
          {"hosts", hosts},
          {"wrong", launch.wrong}};
}

}  // namespace

std::string report_text(const Report& report) {
  std::string text =
      line("alpa", report.version) + processor_text(report.processor) + cuda_text(report.cuda);
  if (report.launch) text += launch_text(*report.launch);
  text += libraries_text(report.libraries);
  for (const Missing& missing : report.missing)
    text += line("missing", missing.what + ": " + missing.remedy);
  return text;
}

std::string report_json(const Report& report) {
  Json missing = Json::array();
  for (const Missing& m : report.missing)
    missing.push_back({{"what", m.what}, {"remedy", m.remedy}});
  const Json json = {{"version", report.version},
                     {"processor", processor_json(report.processor)},
                     {"cuda", cuda_json(report.cuda)},
                     {"launch", report.launch ? launch_json(*report.launch) : Json(nullptr)},
                     {"libraries", libraries_json(report.libraries)},
                     {"missing", missing}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace doctor
