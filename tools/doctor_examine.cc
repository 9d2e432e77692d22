// tools/doctor_examine.cc — alpa doctor: examines the machine
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "alpa/base/error.h"
#include "alpa/data/dataset.h"
#include "alpa/tensor/array.h"
#include "alpa/version.h"
#include "kernels/cpu/isa.h"
#include "src/base/host_memory.h"
#include "src/base/thread_team.h"
#include "src/base/timing.h"
#include "src/cuda_loader/cuda_library.h"
#include "tools/common/matmul_rate.h"
#include "tools/doctor_report.h"

namespace doctor {

using namespace alpa;

namespace {

namespace fs = std::filesystem;

/// Value of the first line "<key> : <value>" of a file of /proc; "" if there is none.
std::string proc_value(const char* file, const std::string& key) {
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    const std::size_t colon = line.find(':');
    if (!line.starts_with(key) || colon == line.npos) continue;
    const std::size_t begin = line.find_first_not_of(" \t", colon + 1);
    return begin == line.npos ? "" : line.substr(begin);
  }
  return "";
}

/// The processor's flags that matter to matrix products and loops.
std::vector<std::string> instruction_sets() {
  std::vector<std::string> sets;
  std::istringstream flags(proc_value("/proc/cpuinfo", "flags"));
  for (std::string flag; flags >> flag;)
    for (const char* start : {"avx", "fma", "f16c", "amx"})
      if (flag.starts_with(start)) sets.push_back(flag);
  return sets;
}

double copy_seconds(ThreadTeam& team, const std::vector<char>& from, std::vector<char>& to) {
  const Stopwatch watch;
  team.parallel_for(
      static_cast<std::int64_t>(from.size()), 1 << 16, [&](std::int64_t begin, std::int64_t end) {
        std::memcpy(to.data() + begin, from.data() + begin, static_cast<std::size_t>(end - begin));
      });
  return watch.seconds();
}

/// The median rate of copying buffers far larger than the caches, at least three times and until
/// `seconds` have passed. Bytes count twice: read and written.
double copy_bytes_per_second(int threads, double seconds) {
  constexpr std::size_t kBytes = std::size_t{64} << 20;
  ThreadTeam team(threads);
  const std::vector<char> from(kBytes, 1);
  std::vector<char> to(kBytes);
  copy_seconds(team, from, to);  // wakes the threads
  std::vector<double> rounds;
  const Stopwatch watch;
  while (rounds.size() < 3 || watch.seconds() < seconds)
    rounds.push_back(copy_seconds(team, from, to));
  std::sort(rounds.begin(), rounds.end());
  return 2.0 * kBytes / rounds[rounds.size() / 2];
}

Json ceilings_json(Json matmul, double copy) {
  return {{"matmul_flops_per_second", std::move(matmul)}, {"copy_bytes_per_second", copy}};
}

Json examine_processor(double seconds) {
  const HostMemory memory = host_memory();
  Json ceilings;
  if (seconds > 0) {
    Json matmul;
    for (const DType dtype : {f32, f64, bf16, f16})
      matmul[std::string(name_of(dtype))] = cli::cpu_matmul_rate(dtype, seconds);
    ceilings = ceilings_json(std::move(matmul), copy_bytes_per_second(usable_cores(), seconds));
  }
  return {{"model", proc_value("/proc/cpuinfo", "model name")},
          {"usable_cores", usable_cores()},
          {"cores", sysconf(_SC_NPROCESSORS_ONLN)},
          {"instruction_sets", instruction_sets()},
          {"kernels", cpu::isa().name},
          {"memory_bytes", memory.total_bytes},
          {"limit_bytes", memory.limit_bytes},
          {"available_bytes", memory.available_bytes},
          {"ceilings", std::move(ceilings)}};
}

std::string first_word(const fs::path& file) {
  std::ifstream stream(file);
  std::string word;
  stream >> word;
  return word;
}

int nvidia_cards() {
  int cards = 0;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator("/sys/bus/pci/devices", error))
    if (first_word(entry.path() / "vendor") == "0x10de" &&
        first_word(entry.path() / "class").starts_with("0x03"))
      ++cards;
  return cards;
}

/// Throws Error with the library's message unless `status` is 0.
void check(int status, const CudaMessage& why) { require(status == 0, "{}", why.text); }

Json examine_device(const CudaFunctions& cuda, std::int32_t index, double seconds) {
  CudaDevice device{}, behind{};
  CudaMessage dnn{};
  Json ceilings, error;
  try {
    CudaMessage why{};
    check(cuda.device(index, &device, &why), why);
    if (seconds > 0) {
      constexpr std::pair<const char*, CudaMatmul> kKinds[] = {
          {"f32", CudaMatmul::f32}, {"tf32", CudaMatmul::tf32}, {"bf16", CudaMatmul::bf16}};
      Json matmul;
      double copy = 0;
      for (const auto& [name, kind] : kKinds) {
        double rate = 0;
        check(cuda.matmul_rate(index, kind, seconds, &rate, &why), why);
        matmul[name] = rate;
      }
      check(cuda.copy_rate(index, seconds, &copy, &why), why);
      ceilings = ceilings_json(std::move(matmul), copy);
      check(cuda.try_dnn(index, &dnn, &why), why);
      check(cuda.device(index, &behind, &why), why);
    }
  } catch (const Error& failure) {
    error = failure.what();
  }
  return {{"name", device.name},
          {"compute_capability", fmt::format("{}.{}", device.major, device.minor)},
          {"multiprocessors", device.multiprocessors},
          {"clock_hertz", device.clock_hertz},
          {"memory_bytes", device.memory_bytes},
          {"free_bytes", device.free_bytes},
          {"free_behind_bytes", behind.free_bytes},
          {"l2_bytes", device.l2_bytes},
          {"ceilings", std::move(ceilings)},
          {"dnn", text_or_null(dnn.text)},
          {"error", std::move(error)}};
}

Json versions_json(const CudaVersions& versions) {
  return {{"runtime", versions.runtime}, {"driver", versions.driver},
          {"cublas", versions.cublas},   {"cublas_lt", versions.cublas_lt},
          {"cudnn", versions.cudnn},     {"nccl", versions.nccl},
          {"nvrtc", versions.nvrtc}};
}

Json examine_cuda(double seconds) {
  const CudaSupport& support = cuda_support();
  Json versions, devices = Json::array(), links = Json::array();
  CudaMessage why{};
  if (support.functions != nullptr) {
    CudaVersions found{};
    check(support.functions->versions(&found, &why), why);
    versions = versions_json(found);
  }
  for (int i = 0; i < support.devices; ++i)
    devices.push_back(examine_device(*support.functions, i, seconds));
  for (int from = 0; from < support.devices; ++from)
    for (int to = 0; to < support.devices; ++to) {
      if (from == to) continue;
      CudaLink link{};
      check(support.functions->link(from, to, &link, &why), why);
      links.push_back({{"from", from},
                       {"to", to},
                       {"peer", link.peer != 0},
                       {"atomics", link.atomics != 0},
                       {"performance_rank", link.performance_rank}});
    }
  return {{"reason", text_or_null(support.reason)}, {"library", text_or_null(support.path)},
          {"cards_seen", nvidia_cards()},           {"versions", std::move(versions)},
          {"devices", std::move(devices)},          {"links", std::move(links)}};
}

Json missing_json(const char* what, const char* remedy) {
  return {{"what", what}, {"remedy", remedy}};
}

}  // namespace

Json missing_for_cuda(const Json& cuda) {
  const bool has_library = !cuda["library"].is_null();
  const auto version = [&](const char* of) {
    return has_library ? shown(cuda["versions"][of]) : "";
  };
  constexpr const char* kDnn =
      "convolutions and attention run on plain kernels, which are slow: apt-get install -y "
      "libcudnn9-cuda-13 (from NVIDIA's Debian repository), or pip install nvidia-cudnn-cu13 and "
      "name its folder in LD_LIBRARY_PATH";
  Json missing = Json::array();
  if (cuda["reason"].is_null()) {
    if (has_library && version("cudnn").empty()) missing.push_back(missing_json("cuDNN", kDnn));
    return missing;
  }
  constexpr const char* kToolkit =
      "apt-get install -y cuda-toolkit-13-0 libcudnn9-dev-cuda-13 libnccl-dev (from NVIDIA's "
      "Debian repository), then configure with -DALPA_CUDA=ON and build";
  constexpr const char* kDriver =
      "apt-get install -y nvidia-open (from NVIDIA's Debian repository), then restart";
  const bool no_driver = version("driver").empty();
  if (!has_library) missing.push_back(missing_json("CUDA backend", kToolkit));
  if (cuda["cards_seen"] == 0 && no_driver)
    missing.push_back(missing_json("NVIDIA GPU", "none is on the PCI bus; alpa runs on the CPU"));
  else if (has_library && shown(cuda["reason"]).find("cudaErrorNoDevice") != std::string::npos)
    missing.push_back(
        missing_json("visible GPU", "see `nvidia-smi` and the variable CUDA_VISIBLE_DEVICES"));
  else if (has_library)
    missing.push_back(missing_json(no_driver ? "NVIDIA driver" : "newer NVIDIA driver", kDriver));
  return missing;
}

Json examine(double seconds, const Json& launch) {
  const Json cuda = examine_cuda(seconds);
  Json missing = missing_for_cuda(cuda);
  if (!fs::exists(kFashionMnistDirectory))
    missing.push_back(
        missing_json("data of alpa-mlp --demo", "apt-get install -y dataset-fashion-mnist"));
  return {{"version", version()},
          {"processor", examine_processor(seconds)},
          {"cuda", cuda},
          {"launch", launch},
          {"libraries", libraries(cuda, launch)},
          {"missing", std::move(missing)}};
}

}  // namespace doctor
