// tools/doctor_examine.cc — alpa doctor: examines the machine
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "alpa/base/error.h"
#include "alpa/tensor/array.h"
#include "alpa/train/dataset.h"
#include "alpa/version.h"
#include "kernels/cpu/isa.h"
#include "src/base/host_memory.h"
#include "src/base/thread_team.h"
#include "src/base/timing.h"
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

Processor examine_processor(double seconds) {
  Processor processor;
  processor.model = proc_value("/proc/cpuinfo", "model name");
  processor.usable_cores = usable_cores();
  processor.cores = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  processor.instruction_sets = instruction_sets();
  processor.kernels = cpu::isa().name;
  const HostMemory memory = host_memory();
  processor.memory_bytes = memory.total_bytes;
  processor.limit_bytes = memory.limit_bytes;
  processor.available_bytes = memory.available_bytes;
  if (seconds > 0) {
    for (const DType dtype : {f32, f64, bf16, f16})
      processor.matmul.emplace_back(name_of(dtype), cli::cpu_matmul_rate(dtype, seconds));
    processor.copy_bytes_per_second = copy_bytes_per_second(processor.usable_cores, seconds);
  }
  return processor;
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

Gpu examine_gpu(const CudaFunctions& cuda, std::int32_t index, double seconds) {
  Gpu gpu;
  try {
    CudaMessage why{};
    check(cuda.device(index, &gpu.device, &why), why);
    if (seconds <= 0) return gpu;
    constexpr std::pair<const char*, CudaMatmul> kKinds[] = {
        {"f32", CudaMatmul::f32}, {"tf32", CudaMatmul::tf32}, {"bf16", CudaMatmul::bf16}};
    for (const auto& [name, kind] : kKinds) {
      double rate = 0;
      check(cuda.matmul_rate(index, kind, seconds, &rate, &why), why);
      gpu.matmul.emplace_back(name, rate);
    }
    check(cuda.copy_rate(index, seconds, &gpu.copy_bytes_per_second, &why), why);
    CudaMessage report{};
    check(cuda.try_dnn(index, &report, &why), why);
    gpu.dnn = report.text;
    CudaDevice behind{};
    check(cuda.device(index, &behind, &why), why);
    gpu.free_behind_bytes = behind.free_bytes;
  } catch (const Error& error) {
    gpu.error = error.what();
  }
  return gpu;
}

Cuda examine_cuda(double seconds) {
  const CudaSupport& support = cuda_support();
  Cuda cuda;
  cuda.reason = support.reason;
  cuda.library = support.path;
  cuda.cards_seen = nvidia_cards();
  CudaMessage why{};
  if (support.functions != nullptr) check(support.functions->versions(&cuda.versions, &why), why);
  for (int i = 0; i < support.devices; ++i)
    cuda.gpus.push_back(examine_gpu(*support.functions, i, seconds));
  for (int from = 0; from < support.devices; ++from)
    for (int to = 0; to < support.devices; ++to) {
      if (from == to) continue;
      GpuLink link{from, to, {}};
      check(support.functions->link(from, to, &link.link, &why), why);
      cuda.links.push_back(link);
    }
  return cuda;
}

}  // namespace

std::vector<Missing> missing_for_cuda(const Cuda& cuda) {
  const bool no_dnn = !cuda.library.empty() && cuda.versions.cudnn[0] == '\0';
  constexpr const char* kDnn =
      "convolutions and attention run on plain kernels, which are slow: apt-get install -y "
      "libcudnn9-cuda-13 (from NVIDIA's Debian repository), or pip install nvidia-cudnn-cu13 and "
      "name its folder in LD_LIBRARY_PATH";
  if (cuda.reason.empty())
    return no_dnn ? std::vector<Missing>{{"cuDNN", kDnn}} : std::vector<Missing>{};
  constexpr const char* kToolkit =
      "apt-get install -y cuda-toolkit-13-0 libcudnn9-dev-cuda-13 libnccl-dev (from NVIDIA's "
      "Debian repository), then configure with -DALPA_CUDA=ON and build";
  constexpr const char* kDriver =
      "apt-get install -y nvidia-open (from NVIDIA's Debian repository), then restart";
  const std::string driver = cuda.versions.driver;
  std::vector<Missing> missing;
  if (cuda.library.empty()) missing.push_back({"CUDA backend", kToolkit});
  if (cuda.cards_seen == 0 && driver.empty()) {
    missing.push_back({"NVIDIA GPU", "none is on the PCI bus; alpa runs on the CPU"});
  } else if (!cuda.library.empty()) {
    const bool no_device = cuda.reason.find("cudaErrorNoDevice") != std::string::npos;
    missing.push_back(
        no_device ? Missing{"visible GPU", "see `nvidia-smi` and the variable CUDA_VISIBLE_DEVICES"}
                  : Missing{driver.empty() ? "NVIDIA driver" : "newer NVIDIA driver", kDriver});
  }
  return missing;
}

Report examine(double seconds) {
  Report report;
  report.version = version();
  report.processor = examine_processor(seconds);
  report.cuda = examine_cuda(seconds);
  report.missing = missing_for_cuda(report.cuda);
  if (!fs::exists(kFashionMnistDirectory))
    report.missing.push_back(
        {"data of alpa-mlp --demo", "apt-get install -y dataset-fashion-mnist"});
  return report;
}

}  // namespace doctor
